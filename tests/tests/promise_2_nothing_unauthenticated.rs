//! Promise 2: nothing from an unauthenticated peer reaches a handler, and every byte on a network is under TLS 1.3.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::SystemTime;

use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::handler;
use hermes_peer_proto::protocol::HandshakeError;
use hermes_peer_proto::wire::Established;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_tests::Gauge;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::raw::Raw;
use hermes_peer_tests::raw::RawIdentity;
use hermes_peer_tests::raw::RawListener;
use hermes_peer_tests::raw::request;
use hermes_peer_tests::until;
use rcgen::CertificateParams;
use rcgen::Issuer;
use rcgen::KeyPair;
use rcgen::SanType;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const TOKEN: &str = "correct:horse=battery/staple+0";

/// A capability that counts who reaches it.
fn counted(gauge: &Gauge) -> impl Capability {
    let gauge = gauge.clone();
    handler("demo.count", move |_: u64, _context: Context| {
        let _at_work = gauge.begin();
        async { Ok::<u64, Failure>(1) }
    })
    .unwrap()
}

async fn counted_provider(builder: NodeBuilder) -> (Node, Gauge) {
    let gauge = Gauge::default();
    let provider = builder.capability(counted(&gauge)).start().await.unwrap();
    (provider, gauge)
}

/// An authority that signs whatever it is asked to.
struct LooseAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl LooseAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "loose");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate with these URIs, valid from `after` to `before` relative to now in days.
    fn issue(&self, uris: &[&str], after: i64, before: i64) -> (String, String) {
        let at = |days: i64| {
            let span = DAY * u32::try_from(days.unsigned_abs()).unwrap();
            if days < 0 { SystemTime::now() - span } else { SystemTime::now() + span }
        };
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.not_before = at(after).into();
        params.not_after = at(before).into();
        params.distinguished_name.push(rcgen::DnType::CommonName, "agent://default/lab/raw");
        params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    /// A node with a certificate of this authority.
    fn node(&self, lab: &Lab, name: &str) -> NodeBuilder {
        let agent = format!("agent://default/lab/{name}");
        let (cert, key) = self.issue(&[&agent], -1, 1);
        let file = |suffix: &str, text: &str| -> PathBuf {
            let path = lab.folder().join(format!("{name}.{suffix}"));
            let mut options = std::fs::OpenOptions::new();
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            path
        };
        let (ca, cert, key) = (file("ca.pem", &self.pem), file("pem", &cert), file("key", &key));
        Node::builder(&agent).node_id(name).mtls(ca, cert, key).without_local_discovery()
    }
}

/// Dials, shakes hands as far as it goes, then sends a request whatever was said. The refusal, where one could be read.
async fn force(identity: &RawIdentity, address: &str) -> Result<(), Option<ErrorCode>> {
    let Ok(mut raw) = Raw::connect(identity, address).await else { return Err(None) };
    let (machine, syn) = raw.initiator(identity, None);
    raw.send(&syn).await;
    raw.send(&request(1, "demo.count", "1", true)).await;
    let Some(answer) = raw.receive().await else { return Err(None) };
    let outcome = machine.syn_ack(answer);
    raw.send(&Frame::control(
        MessageType::Established,
        StreamId::LINK,
        Established { fields: Vec::new() }.encode(),
    ))
    .await;
    raw.version = 2;
    raw.send(&request(3, "demo.count", "1", true)).await;
    match outcome {
        Err(HandshakeError::RefusedByPeer(fault)) => Err(Some(fault.code)),
        _ => match raw.last_word().await {
            Some(fault) => Err(Some(fault.code)),
            None => Err(None),
        },
    }
}

/// An honest peer gets through, and nobody else ever did.
async fn only_the_honest_get_through(lab: &Lab, provider: &Node, gauge: &Gauge) {
    assert_eq!(gauge.begun(), 0, "a stranger reached a handler");
    let honest = lab.caller_of("honest", provider).start().await.unwrap();
    assert_eq!(honest.call::<u64>("demo.count", &1).await.unwrap(), 1);
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_before_established_reach_no_handler() {
    let lab = Lab::new();
    let (provider, gauge) = counted_provider(lab.provider("provider")).await;
    let address = endpoint(&provider);
    let identity = lab.raw("raw");
    // At each point of the handshake, each of these instead of what is due.
    let wrong = |version: u8| {
        let mut frames = vec![request(1, "demo.count", "1", true), request(2, "demo.count", "1", true)];
        for message_type in MessageType::ALL {
            frames.push(Frame::control(message_type, StreamId::LINK, vec![0; 40]));
        }
        (version, frames)
    };
    for version in [1, 2] {
        for frame in wrong(version).1 {
            let mut first = Raw::connect(&identity, &address).await.unwrap();
            first.version = version;
            first.send(&frame).await;
            first.send(&request(1, "demo.count", "1", true)).await;
            while first.receive().await.is_some() {}
            if frame.message_type == MessageType::Error {
                continue;
            }
            let mut second = Raw::connect(&identity, &address).await.unwrap();
            let (_machine, syn) = second.initiator(&identity, None);
            second.send(&syn).await;
            assert_eq!(second.receive().await.unwrap().message_type, MessageType::SynAck);
            second.version = version;
            second.send(&frame).await;
            second.send(&request(1, "demo.count", "1", true)).await;
            let refusal = second.last_word().await;
            assert!(refusal.is_some(), "{frame:?} instead of ESTABLISHED");
        }
    }
    only_the_honest_get_through(&lab, &provider, &gauge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_has_to_be_of_the_authority_and_of_the_day_and_of_the_agent() {
    // FC-022
    let lab = Lab::new();
    let ours = LooseAuthority::new();
    let theirs = LooseAuthority::new();
    let (provider, gauge) = counted_provider(ours.node(&lab, "provider").listen("127.0.0.1:0")).await;
    let address = endpoint(&provider);
    const RAW: &str = "agent://default/lab/raw";
    let wrong: Vec<(&str, (String, String), &str)> = vec![
        ("another authority", theirs.issue(&[RAW], -1, 1), RAW),
        ("expired", ours.issue(&[RAW], -3, -1), RAW),
        ("not yet valid", ours.issue(&[RAW], 1, 3), RAW),
        ("no agent, only a common name", ours.issue(&[], -1, 1), RAW),
        ("another kind of URI", ours.issue(&["spiffe://default/lab/raw"], -1, 1), RAW),
        ("two agents", ours.issue(&[RAW, "agent://default/lab/provider"], -1, 1), RAW),
        ("another agent in SYN", ours.issue(&[RAW], -1, 1), "agent://default/lab/provider"),
        ("a prefix of it in SYN", ours.issue(&["agent://default/lab/raw-admin"], -1, 1), RAW),
        ("more of it in SYN", ours.issue(&[RAW], -1, 1), "agent://default/lab/raw-admin"),
        ("another case", ours.issue(&["agent://default/lab/RAW"], -1, 1), RAW),
        ("a slash at the end", ours.issue(&["agent://default/lab/raw/"], -1, 1), RAW),
        ("percent signs", ours.issue(&["agent://default/lab/r%61w"], -1, 1), RAW),
    ];
    for (what, (cert, key), claimed) in &wrong {
        let outcome = force(&RawIdentity::mtls(claimed, "raw", cert, key), &address).await;
        let refusal = outcome.unwrap_err();
        assert!(
            matches!(refusal, None | Some(ErrorCode::Unauthenticated)),
            "{what}: {refusal:?}, not UNAUTHENTICATED"
        );
        if claimed != &RAW {
            assert_eq!(refusal, Some(ErrorCode::Unauthenticated), "{what}");
        }
    }
    assert_eq!(gauge.begun(), 0);
    // The same dialler with the right certificate comes in, so it was the certificates.
    let (cert, key) = ours.issue(&[RAW], -1, 1);
    let mut raw = Raw::dial(&RawIdentity::mtls(RAW, "raw", &cert, &key), &address).await;
    raw.send(&request(1, "demo.count", "1", true)).await;
    assert!(raw.receive_on(MessageType::Response, 1).await.is_some());
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_the_certificate_has_to_make_the_proof() {
    let lab = Lab::new();
    let (provider, gauge) = counted_provider(lab.provider("provider")).await;
    let address = endpoint(&provider);
    // TLS with one's own certificate; the proof, and the name, of another.
    let mut identity = lab.raw("raw");
    identity.local = lab.raw("victim").local;
    assert_eq!(force(&identity, &address).await, Err(Some(ErrorCode::Unauthenticated)));
    // The right name, and a proof by another key of the same authority.
    let mut identity = lab.raw("raw");
    identity.local.credentials = lab.raw("raw").local.credentials;
    let mut raw = Raw::connect(&identity, &address).await.unwrap();
    let outcome = raw.initiate(&identity, None).await;
    assert!(outcome.is_ok(), "the acceptor is honest: {outcome:?}");
    raw.send(&request(1, "demo.count", "1", true)).await;
    assert_eq!(raw.last_word().await.unwrap().code, ErrorCode::Unauthenticated);
    only_the_honest_get_through(&lab, &provider, &gauge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impostor_who_listens_is_not_called() {
    // FC-022
    let lab = Lab::new();
    let listener = RawListener::new().await;
    let address = listener.address().to_string();
    let mut wrong_key = lab.raw("provider");
    wrong_key.local.credentials = lab.raw("provider").local.credentials;
    let impostors = [
        // A valid certificate of the same authority at an address where another node is meant to be.
        (lab.raw("mallory"), true),
        // Its own certificate, and the name of the other.
        (RawIdentity { local: lab.raw("provider").local, ..lab.raw("mallory") }, true),
        (wrong_key, true),
        (RawIdentity::token("agent://default/lab/provider", "provider", TOKEN), false),
    ];
    for (impostor, has_certificate) in impostors {
        let caller = lab.builder("caller").peer("provider", &address).start().await.unwrap();
        let calling = tokio::spawn(caller.call::<u64>("demo.count", &1).timeout(SECOND).into_future());
        if let Ok(mut raw) = listener.accept(&impostor).await {
            assert!(has_certificate, "without a certificate TLS does not come up");
            if raw.respond(&impostor).await.is_ok() {
                let request = timeout(SECOND, raw.receive_on(MessageType::Request, 1)).await;
                assert!(matches!(request, Err(_) | Ok(None)), "the impostor was called");
            }
        }
        let error = calling.await.unwrap().unwrap_err();
        assert!(matches!(error.code(), ErrorCode::Unavailable | ErrorCode::DeadlineExceeded), "{error}");
        assert!(caller.peers().iter().all(|peer| peer.linked_for_s.is_none()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_to_be_the_right_one_and_in_the_right_mode() {
    let lab = Lab::new();
    let by_token = |name: &str| {
        let agent = format!("agent://default/lab/{name}");
        Node::builder(&agent).node_id(name).token(TOKEN).without_local_discovery()
    };
    let (provider, gauge) = counted_provider(by_token("provider").listen("127.0.0.1:0")).await;
    let address = endpoint(&provider);
    let raw = |token: &str| RawIdentity::token("agent://default/lab/raw", "raw", token);
    assert_eq!(
        force(&raw("another:horse=battery/staple+0"), &address).await,
        Err(Some(ErrorCode::Unauthenticated))
    );
    // The id of the right token, the proof of another: what an eavesdropper on names could try.
    let mut liar = Raw::connect(&raw(TOKEN), &address).await.unwrap();
    let (machine, syn) = liar.initiator(&raw(TOKEN), None);
    liar.send(&syn).await;
    let answer = liar.receive().await.unwrap();
    let (_, established) = machine.syn_ack(answer).unwrap();
    let mut bytes = established.payload.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    liar.send(&Frame::control(MessageType::Established, StreamId::LINK, bytes)).await;
    liar.version = 2;
    liar.send(&request(1, "demo.count", "1", true)).await;
    assert_eq!(liar.last_word().await.unwrap().code, ErrorCode::Unauthenticated);
    // A certificate where a token is due.
    assert_eq!(force(&lab.raw("raw"), &address).await, Err(Some(ErrorCode::Unauthenticated)));
    // And a token where a certificate is due: TLS asks for one.
    let (mutual, never) = counted_provider(lab.provider("mutual")).await;
    assert!(force(&raw(TOKEN), &endpoint(&mutual)).await.is_err());
    assert_eq!((gauge.begun(), never.begun()), (0, 0));
    let honest = by_token("honest").peer("provider", &address).start().await.unwrap();
    assert_eq!(honest.call::<u64>("demo.count", &1).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_tls_1_3_with_our_name_in_it_gets_nowhere() {
    let lab = Lab::new();
    let (provider, gauge) = counted_provider(lab.provider("provider")).await;
    let address = endpoint(&provider);
    // Frames without TLS, and other protocols.
    let syn = [b'H', b'R', b'M', b'S', 1, 0x80, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    for bytes in [&syn[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0], &[0; 300]] {
        let mut plain = TcpStream::connect(&address).await.unwrap();
        plain.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let reading = timeout(3 * SECOND, plain.read_to_end(&mut answer)).await;
        assert!(reading.is_ok(), "{bytes:?} is not refused at once");
        assert!(!answer.starts_with(b"HRMS"), "plain text is answered in plain text");
    }
    // TLS without a protocol's name, or with another one.
    for alpn in [None, Some(&b"h2"[..])] {
        let identity = RawIdentity { alpn, ..lab.raw("raw") };
        assert_eq!(force(&identity, &address).await, Err(None), "{alpn:?}");
    }
    only_the_honest_get_through(&lab, &provider, &gauge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_1_2_is_refused() {
    let lab = Lab::new();
    let (provider, gauge) = counted_provider(lab.provider("provider")).await;
    let address = endpoint(&provider);
    let issued = lab.raw("raw").certificate.unwrap();
    let file = |name: &str, text: &str| {
        let path = lab.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert, key) = (file("raw.pem", &issued.0), file("raw.key", &issued.1));
    let dial = |version: &'static str| {
        let (address, cert, key) = (address.clone(), cert.clone(), key.clone());
        tokio::task::spawn_blocking(move || {
            Command::new("openssl")
                .args(["s_client", "-connect", &address, version, "-alpn", "hermes", "-cert"])
                .arg(cert)
                .arg("-key")
                .arg(key)
                .stdin(Stdio::null())
                .output()
        })
    };
    let Ok(older) = dial("-tls1_2").await.unwrap() else {
        // The same is held by the settings that both sides of a connection are made with.
        println!("skipped: there is no `openssl` here");
        return;
    };
    let newer = dial("-tls1_3").await.unwrap().unwrap();
    let text = |output: std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let (older, newer) = (text(older), text(newer));
    assert!(newer.contains("ALPN protocol: hermes"), "TLS 1.3 comes up: {newer}");
    assert!(!older.contains("ALPN protocol: hermes"), "TLS 1.2 comes up: {older}");
    only_the_honest_get_through(&lab, &provider, &gauge).await;
}

/// Connections that say nothing, and some that dribble what could become a ClientHello.
async fn strangers(address: &str, silent: usize, dribbling: usize) -> Vec<tokio::task::JoinHandle<usize>> {
    let mut tasks = Vec::new();
    for index in 0..silent + dribbling {
        let mut stream = TcpStream::connect(address).await.unwrap();
        tasks.push(tokio::spawn(async move {
            let hello = [0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3];
            let mut sent = 0;
            if index >= silent {
                while stream.write_all(&[*hello.get(sent).unwrap_or(&0)]).await.is_ok() && sent < 60 {
                    sent += 1;
                    tokio::time::sleep(SECOND / 4).await;
                }
            }
            // Whoever said nothing is told nothing, but the connection ends.
            let _closed = stream.read_to_end(&mut Vec::new()).await;
            sent
        }));
    }
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_say_nothing_stand_in_nobodys_way() {
    // FC-019
    let lab = Lab::new();
    let (provider, gauge) = counted_provider(lab.provider("provider")).await;
    let begun = Instant::now();
    let crowd = strangers(&endpoint(&provider), 200, 60).await;
    for round in 0..3 {
        let honest = lab.caller_of("honest", &provider).start().await.unwrap();
        let called = Instant::now();
        assert_eq!(honest.call::<u64>("demo.count", &1).await.unwrap(), 1);
        assert!(called.elapsed() < SECOND, "round {round}: {:?}", called.elapsed());
    }
    assert_eq!(gauge.begun(), 3);
    // One source has 32 places: all others are closed by now, and these at the end of their time.
    for stranger in crowd {
        timeout(13 * SECOND, stranger).await.expect("a stranger is closed within 10 s").unwrap();
    }
    assert!(begun.elapsed() < 13 * SECOND);
}

/// All that the process logs at the most verbose level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_piece_of_a_token_gets_into_logs_or_errors() {
    // FC-026, FC-079
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || written.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    let errors = runtime.block_on(async {
        let by_token = |name: &str, token: &str| {
            let agent = format!("agent://default/lab/{name}");
            Node::builder(&agent).node_id(name).token(token).without_local_discovery()
        };
        let panics = handler("demo.crash", |_: (), _context: Context| async {
            if true {
                panic!("db at 10.0.0.9 refused user app");
            }
            Ok::<(), Failure>(())
        });
        let provider = by_token("provider", TOKEN).listen("127.0.0.1:0").capability(panics.unwrap());
        let shown = format!("{provider:?}");
        let provider = provider.start().await.unwrap();
        let address = endpoint(&provider);
        let honest = by_token("honest", TOKEN).peer("provider", &address).start().await.unwrap();
        let crashed: CallError = honest.call::<()>("demo.crash", &()).await.unwrap_err();
        assert!(!crashed.to_string().contains("10.0.0.9"), "a stranger reads the panic: {crashed}");
        let other = by_token("other", "another:horse=battery/staple+0").peer("provider", &address);
        let other = other.start().await.unwrap();
        let refused = other.call::<()>("demo.crash", &()).timeout(SECOND).await.unwrap_err();
        let short = by_token("short", "short:=/+").start().await.unwrap_err();
        let errors =
            format!("{crashed:?} {crashed} {refused:?} {refused} {short:?} {short} {shown} {provider:?}");
        honest.shutdown().await;
        errors
    });
    drop(said);
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("peer up") && logged.contains("10.0.0.9"), "the log is on: {logged}");
    for text in [&logged, &errors] {
        for piece in ["correct:", "horse=", "battery/", "staple+", "short:=", ":=/+"] {
            assert!(!text.contains(piece), "`{piece}` stands in: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_nothing_but_the_code() {
    let lab = Lab::new();
    let (provider, _gauge) = counted_provider(lab.provider("provider")).await;
    let mut identity = lab.raw("raw");
    identity.local.agent = "agent://default/lab/victim".parse().unwrap();
    let mut raw = Raw::connect(&identity, &endpoint(&provider)).await.unwrap();
    let (_machine, syn) = raw.initiator(&identity, None);
    raw.send(&syn).await;
    let fault: Fault = raw.last_word().await.unwrap();
    assert_eq!(fault.code, ErrorCode::Unauthenticated);
    assert!(!fault.message.contains("agent://"), "{}", fault.message);
    until("the connection leaves nothing behind", SECOND, || provider.peers().is_empty()).await;
}
