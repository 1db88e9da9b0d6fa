//! Promise 7: start order does not matter. Peers that are not up yet are linked when they come, and so are those that come
//! again.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use std::time::Duration;
use std::time::Instant;

use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::LinkState;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::capability;
use hermes_peer::config::Config;
use hermes_peer::handler;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::eventually;
use hermes_peer_tests::free_address;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// Says which node it is, and since when.
#[capability("demo.node")]
async fn node(context: Context) -> Result<Value, Failure> {
    context.call("hermes.node", &()).to(context.node().id().as_str()).await.map_err(Into::into)
}

fn is_linked(node: &Node, peer: &str) -> bool {
    node.peers().iter().any(|view| view.node_id.as_str() == peer && view.state == LinkState::Linked)
}

/// A node that dials a peer that is away only once in a minute, unless somebody wants it.
fn patient(lab: &Lab, name: &str) -> NodeBuilder {
    let text = "limits: { reconnect_min: 60s, reconnect_max: 60s }";
    let config = Config::parse(text, "peers.yaml", lab.folder(), &|_| None).unwrap();
    let builder = Node::from_config(&config).unwrap().node_id(name).without_local_discovery();
    builder.development_ca(lab.folder().join("ca"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_made_before_its_provider_exists_gets_its_result_when_that_comes() {
    let lab = Lab::new();
    let address = free_address();
    let caller = lab.builder("caller").peer("provider", &address).start().await.unwrap();
    let call = caller.call::<Value>("demo.node", &()).wait_for_provider(PATIENCE).into_future();
    let call = tokio::spawn(call);
    eventually("the caller has tried in vain", || {
        caller.peers().iter().any(|peer| peer.state == LinkState::Unreachable)
    })
    .await;
    assert!(!call.is_finished(), "it waits");
    let _provider = lab.builder("provider").listen(&address).capability(node).start().await.unwrap();
    assert_eq!(call.await.unwrap().unwrap()["node_id"], "provider");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_capability_waits_also_for_a_node_that_it_knows_nothing_of() {
    let lab = Lab::new();
    let caller = lab.provider("caller").start().await.unwrap();
    let wait = caller.wait_for("demo.node", PATIENCE);
    let dialling = async {
        // Something else comes first, and provides nothing.
        let _other = lab.caller_of("other", &caller).start().await.unwrap();
        eventually("the other is linked", || is_linked(&caller, "other")).await;
        lab.caller_of("provider", &caller).capability(node).start().await.unwrap()
    };
    let (waited, _provider) = tokio::join!(wait, dialling);
    waited.unwrap();
    let error = caller.wait_for("demo.nothing", Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_finds_a_provider_that_came_long_after_the_last_attempt() {
    let lab = Lab::new();
    let address = free_address();
    let caller = patient(&lab, "caller").peer("provider", &address).start().await.unwrap();
    let refused = caller.call::<Value>("demo.node", &()).wait_for_provider(Duration::from_millis(300)).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert!(error.is_retryable() && error.message().contains("provider: 127.0.0.1"), "who, and why: {error}");
    let _provider = lab.builder("provider").listen(&address).capability(node).start().await.unwrap();
    let started = Instant::now();
    caller
        .call::<Value>("demo.node", &())
        .await
        .expect("a call does not wait for the next attempt in a minute");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_nodes_find_each_other_in_every_order() {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    const NAMES: [&str; 3] = ["a-01", "b-01", "c-01"];
    let order = async |order: [usize; 3]| {
        let lab = Lab::new();
        let addresses = [free_address(), free_address(), free_address()];
        let mut nodes = Vec::new();
        for index in order {
            let mut builder = lab.builder(NAMES[index]).listen(&addresses[index]).capability(node);
            for other in (0..3).filter(|other| *other != index) {
                builder = builder.peer(NAMES[other], &addresses[other]);
            }
            nodes.push(builder.start().await.unwrap());
        }
        for from in &nodes {
            for to in NAMES.into_iter().filter(|name| from.id().as_str() != *name) {
                let call = from.call::<Value>("demo.node", &()).to(to).wait_for_provider(PATIENCE);
                assert_eq!(call.await.unwrap()["node_id"], to, "{order:?}");
            }
            assert_eq!(from.peers().len(), 2);
        }
        for node in nodes {
            assert!(node.shutdown().await);
        }
    };
    let all: Vec<_> = ORDERS.into_iter().map(order).collect();
    for one in all {
        one.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_restarted_is_linked_again_and_used() {
    // FC-029
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(node).start().await.unwrap();
    let address = endpoint(&provider);
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let mut epoch = caller.call::<Value>("demo.node", &()).await.unwrap()["epoch"].as_u64().unwrap();
    let mut provider = Some(provider);
    for is_gentle in [true, false, true] {
        let old = provider.take().expect("one is up");
        if is_gentle {
            old.shutdown().await;
        }
        drop(old);
        let builder = || lab.builder("provider").listen(&address).capability(node);
        // A node that is dropped frees its port a moment later.
        provider = loop {
            match builder().start().await {
                Ok(node) => break Some(node),
                Err(hermes_peer::StartError::Listen(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        };
        // The link to the one before may not be known to be over.
        let facts = loop {
            match caller.call::<Value>("demo.node", &()).wait_for_provider(PATIENCE).await {
                Ok(facts) if facts["epoch"].as_u64() != Some(epoch) => break facts,
                Ok(_) => {}
                Err(error) => assert_eq!(error.code(), ErrorCode::Unavailable),
            }
        };
        let now = facts["epoch"].as_u64().unwrap();
        assert!(now > epoch, "each start has a later epoch");
        epoch = now;
        assert_eq!(caller.peers().len(), 1, "one peer, however often it starts");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_that_come_and_go_at_run_time_are_known_without_a_restart() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(node).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.call::<Value>("demo.node", &()).await.unwrap();
    let double =
        || handler("demo.double", |n: u64, _: Context| async move { Ok::<_, Failure>(2 * n) }).unwrap();
    let knows = |wanted: bool| {
        let is_known = caller.capabilities().iter().any(|(_, info)| info.name.as_str() == "demo.double");
        is_known == wanted
    };
    assert!(knows(false));
    for _ in 0..3 {
        provider.register(double()).unwrap();
        eventually("it is known", || knows(true)).await;
        assert_eq!(caller.call::<u64>("demo.double", &21).await.unwrap(), 42);
        assert!(provider.unregister(&"demo.double".parse().unwrap()));
        eventually("it is known no more", || knows(false)).await;
        let error = caller.call::<u64>("demo.double", &21).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotFound);
    }
    assert!(!provider.unregister(&"demo.double".parse().unwrap()), "it is gone already");
    // One that is called before it is registered is found as soon as its node comes.
    provider.register(double()).unwrap();
    let late = lab.caller_of("late", &provider).start().await.unwrap();
    assert_eq!(late.call::<u64>("demo.double", &4).await.unwrap(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_peer_that_is_linked_does_not_provide_is_not_waited_for() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(node).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.call::<Value>("demo.node", &()).await.unwrap();
    let call = caller.call::<Value>("demo.nodes", &()).wait_for_provider(Duration::from_secs(600));
    let error = tokio::time::timeout(PATIENCE, call.timeout(Duration::from_secs(600)).into_future()).await;
    let error = error.expect("the answer is known at once").unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(error.message().contains("did you mean `demo.node`?"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn localhost_is_dialled_at_whichever_address_it_has() {
    // FC-017
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(node).start().await.unwrap();
    let port = provider.address().unwrap().port();
    let caller = lab.builder("caller").peer("provider", &format!("localhost:{port}")).start().await.unwrap();
    let started = Instant::now();
    caller.call::<Value>("demo.node", &()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5) && is_linked(&caller, "provider"));
}

/// The child's part of the test below: a node of this machine that says its name and stays until it is told to go.
#[tokio::test]
async fn child_of_local_discovery() {
    let Ok(name) = std::env::var("PROMISE_7_CHILD") else { return };
    let ca = std::env::var("PROMISE_7_CA").unwrap();
    let builder = Node::builder(&format!("agent://default/lab/{name}")).node_id(&name).development_ca(ca);
    let builder = builder.listen("127.0.0.1:0").capability(node);
    let child = builder.start().await.unwrap();
    let other = std::env::var("PROMISE_7_WANTS").unwrap();
    let started = Instant::now();
    let facts = loop {
        // A node that nothing announces yet is not waited for.
        match child.call::<Value>("demo.node", &()).to(&other).await {
            Ok(facts) => break facts,
            Err(error) => assert!(error.is_retryable() && started.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(facts["node_id"], other.as_str());
    println!("FOUND {other}");
    // The other one may still be looking.
    let mut line = String::new();
    tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut line)).await.unwrap().unwrap();
    child.shutdown().await;
}

#[test]
fn nodes_of_one_user_on_one_machine_find_each_other_without_any_file() {
    use std::io::BufRead;
    use std::io::BufReader;
    use std::process::Command;
    use std::process::Stdio;
    let lab = Lab::new();
    let runtime = lab.folder().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let child = |name: &str, wants: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["child_of_local_discovery", "--exact", "--nocapture"])
            .env("HERMES_PEER_RUNTIME", &runtime)
            .env("PROMISE_7_CHILD", name)
            .env("PROMISE_7_WANTS", wants)
            .env("PROMISE_7_CA", lab.folder().join("ca"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // Each calls the other: whichever is first looks for one that is not there yet.
    let mut children = [child("first", "second"), child("second", "first")];
    let mut outputs = Vec::new();
    for (child, wanted) in children.iter_mut().zip(["FOUND second", "FOUND first"]) {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(wanted)), "{wanted}");
        outputs.push(lines);
    }
    for (child, rest) in children.iter_mut().zip(outputs) {
        drop(child.stdin.take());
        rest.for_each(drop);
        assert!(child.wait().unwrap().success());
    }
}
