//! Promise 9: what is wrong is refused at start, with what would be right, and nothing is left running.

use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::StartError;
use hermes_peer::capability;
use hermes_peer::certificates::Authority;
use hermes_peer::certificates::DEFAULT_VALIDITY;
use hermes_peer::config::Config;
use hermes_peer::handler;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::free_address;

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: u32) -> Result<u32, Failure> {
    Ok(input)
}

/// Writes a file of this text, and gives what is said when it is loaded.
fn refused_file(folder: &Path, text: &str) -> String {
    let path = folder.join("peers.yaml");
    std::fs::write(&path, text).expect("the folder is there");
    let error = Config::load(&path).expect_err("it is refused").to_string();
    error.replace(&format!("{}", path.display()), "FILE")
}

async fn refused(builder: NodeBuilder) -> StartError {
    match builder.start().await {
        Ok(node) => panic!("{node:?} has started, with {:?}", node.peers()),
        Err(error) => error,
    }
}

fn assert_says(text: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(text.contains(piece), "{piece} is not in: {text}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_the_place_and_what_would_be_right() {
    // FC-007, FC-014, FC-017
    let lab = Lab::new();
    for (text, pieces) in [
        ("session: { heartbeat_intervall: 5s }", &["FILE:1:12", "did you mean `heartbeat_interval`?"][..]),
        ("listen: 127.0.0.1:0\nlisten: 127.0.0.1:0", &["FILE:2:1", "listen"]),
        ("peers:\n- node_id: b-01\n  endpoint: ::1:7502", &["FILE:3:13", "peers[0].endpoint", "[::1]:7502"]),
        ("peers:\n- node_id: b-01\n  endpoint: https://b:7502", &["FILE:3:13", "peers[0].endpoint"]),
        ("node_id: Not_One", &["FILE:1:10", "node_id", "a-z, 0-9"]),
        (&format!("node_id: {}", "x".repeat(64)), &["FILE:1:10", "63"]),
        ("agent: default/lab/a", &["FILE:1:8", "agent://"]),
        ("session: { timeout: 5 }", &["FILE:1:21", "session.timeout"]),
        ("auth: { mode: token, token: short }", &["FILE:1:", "16"]),
        ("listen: 0.0.0.0:0", &["FILE:1:", "auth"]),
        (
            "listen: 0.0.0.0:0\nauth: { mode: token, token: 0123456789abcdef }\nadvertise: 0.0.0.0:7501",
            &["FILE:3:", "advertise"],
        ),
        ("a:\n\t- b", &["FILE:2:", "tab"]),
    ] {
        let said = refused_file(lab.folder(), text);
        assert_says(&said, pieces);
        assert!(!said.contains("0123456789abcdef"), "no secret: {said}");
    }
}

#[tokio::test]
async fn a_capability_that_the_file_promises_and_nothing_provides_is_refused() {
    let lab = Lab::new();
    let text = "node_id: a-01\nlisten: 127.0.0.1:0\ncapabilities: [demo.echo, demo.missing]";
    let path = lab.folder().join("peers.yaml");
    std::fs::write(&path, text).unwrap();
    let config = Config::load(&path).unwrap();
    let builder = || {
        let builder = Node::from_config(&config).unwrap().without_local_discovery().capability(echo);
        builder.development_ca(lab.folder().join("ca"))
    };
    let error = refused(builder()).await;
    assert!(matches!(error, StartError::Missing { .. }), "{error:?}");
    assert_says(&error.to_string(), &["`demo.missing`", "register one"]);
    let missing = handler("demo.missing", |(): (), _: Context| async { Ok::<_, Failure>(()) }).unwrap();
    builder().capability(missing).start().await.unwrap();
}

#[tokio::test]
async fn capabilities_that_cannot_be_provided_are_refused_by_name() {
    let lab = Lab::new();
    let error = refused(lab.provider("a").capability(echo).capability(echo)).await;
    assert_says(&error.to_string(), &["`demo.echo`", "already"]);
    let made = |name: &str, schema: &'static str| {
        let closure = handler(name, |(): (), _: Context| async { Ok::<_, Failure>(()) }).unwrap();
        closure.with_info(|info| info.input_schema = schema.to_owned())
    };
    let error = refused(lab.provider("a").capability(made("demo.bad", r#"{"type":"strnig"}"#))).await;
    assert_says(&error.to_string(), &["`demo.bad`", "input schema", "/type"]);
    let error = refused(lab.provider("a").capability(made("hermes.node", ""))).await;
    assert_says(&error.to_string(), &["`hermes.node`", "Hermes' own"]);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_a_remedy() {
    let lab = Lab::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let error = refused(lab.builder("a").listen(&address).capability(echo)).await;
    assert_says(&error.to_string(), &[&address, "taken", "`listen`"]);
    drop(holder);
    // Nor may a second node take the port of one that runs; once that is gone it may.
    let first = lab.builder("a").listen(&address).start().await.unwrap();
    let error = refused(lab.builder("b").listen(&address)).await;
    assert_says(&error.to_string(), &["taken"]);
    first.shutdown().await;
    lab.builder("b").listen(&address).start().await.unwrap();
    // No address of this machine.
    let error = refused(lab.builder("a").listen("192.0.2.1:7502").token("0123456789abcdef")).await;
    assert_says(&error.to_string(), &["192.0.2.1", "no address of this machine"]);
}

/// Certificates of an authority in this folder, under these names.
fn issue(folder: &Path, authority: &str, agent: &str, name: &str) {
    let home = folder.join(authority);
    std::fs::create_dir_all(&home).expect("a folder can be made");
    let authority =
        Authority::open(&home).or_else(|_| Authority::create(&home)).expect("an authority can be made");
    let issued = authority
        .issue(&agent.parse().expect("an agent"), &"a-01".parse().expect("a node"), DEFAULT_VALIDITY)
        .expect("the authority issues");
    issued
        .save(&folder.join(format!("{name}.pem")), &folder.join(format!("{name}.key")))
        .expect("the folder is there");
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_refused() {
    let lab = Lab::new();
    let agent = "agent://default/lab/a";
    issue(lab.folder(), "one", agent, "good");
    issue(lab.folder(), "one", agent, "second");
    issue(lab.folder(), "one", "agent://default/lab/other", "other");
    let path = |name: &str| lab.folder().join(name);
    std::fs::write(path("garbage.pem"), "no certificate").unwrap();
    let mtls = |ca: &str, cert: &str, key: &str| {
        let builder = Node::builder(agent).node_id("a-01").listen("127.0.0.1:0").without_local_discovery();
        builder.mtls(path(ca), path(cert), path(key))
    };
    mtls("one/ca.pem", "good.pem", "good.key").start().await.expect("these fit");
    let error = refused(mtls("one/ca.pem", "other.pem", "other.key")).await;
    assert!(matches!(error, StartError::OtherAgent { .. }), "{error:?}");
    assert_says(&error.to_string(), &["agent://default/lab/other", agent]);
    let error = refused(mtls("one/ca.pem", "good.pem", "second.key")).await;
    assert_says(&error.to_string(), &["not a pair"]);
    for (ca, cert, key, named) in [
        ("one/ca.pem", "nowhere.pem", "good.key", "nowhere.pem"),
        ("one/ca.pem", "good.pem", "nowhere.key", "nowhere.key"),
        ("nowhere.pem", "good.pem", "good.key", "nowhere.pem"),
        ("one/ca.pem", "garbage.pem", "good.key", "garbage.pem"),
        ("garbage.pem", "good.pem", "good.key", "garbage.pem"),
        ("one/ca.pem", "good.key", "good.key", "good.key"),
    ] {
        let error = refused(mtls(ca, cert, key)).await;
        assert!(matches!(error, StartError::Certificates(_)), "{error:?}");
        assert_says(&error.to_string(), &[named]);
    }
}

#[tokio::test]
async fn beyond_loopback_a_node_needs_auth() {
    let lab = Lab::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let error = refused(lab.builder("a").listen(address)).await;
        assert!(matches!(error, StartError::AuthRequired { .. }), "{error:?}");
        assert_says(&error.to_string(), &["needs `auth`", "hermes-peer certs init", "127.0.0.1"]);
    }
    lab.builder("a").listen("0.0.0.0:0").token("a token of sixteen bytes").start().await.unwrap();
}

#[tokio::test]
async fn settings_of_the_builder_are_checked_like_those_of_a_file() {
    // FC-007, FC-017
    let lab = Lab::new();
    let says = async |builder: NodeBuilder, pieces: &[&str]| {
        assert_says(&refused(builder).await.to_string(), pieces)
    };
    says(Node::builder("no agent").without_local_discovery(), &["agent://"]).await;
    says(lab.builder("a").node_id("A_01"), &["A_01", "node"]).await;
    says(lab.builder("a").node_id(&"x".repeat(64)), &["63"]).await;
    says(lab.builder("a").listen("localhost"), &["`listen`", "127.0.0.1:7502"]).await;
    for bad in ["::1:7502", "b", "b:", "b:0", "b:70000", "https://b:7502", "b:7502/x", ""] {
        says(lab.builder("a").peer("b-01", bad), &[&format!("`{bad}` is no endpoint")]).await;
    }
    says(lab.builder("a").peer("b-01", "::1:7502"), &["[::1]:7502"]).await;
    says(lab.builder("a").peer("B", "b:7502"), &["B"]).await;
    says(lab.builder("a").token("fifteen bytes.."), &["`token`", "16"]).await;
    says(lab.builder("a").versions(3, 4), &["`version`", "1 to 2"]).await;
    says(lab.builder("a").versions(2, 1), &["`version`"]).await;
}

#[tokio::test]
async fn after_a_refusal_nothing_listens_and_the_next_start_succeeds() {
    let lab = Lab::new();
    let address = free_address();
    let missing = ["demo.missing".parse().unwrap()];
    let builder = lab.builder("a").listen(&address).capability(echo).expect_capabilities(missing);
    refused(builder).await;
    assert!(TcpStream::connect(&address).is_err(), "nobody listens");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 0, "nothing runs");
    let node = lab.builder("a").listen(&address).capability(echo).start().await.unwrap();
    assert_eq!(endpoint(&node), address);
}
