//! Promise 4, over real connections that are cut: a link of version 2 goes on and loses nothing; one of version 1 says so.
//! And who may take a node's place.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;
use std::time::Duration;

use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::LinkState;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::PeerState;
use hermes_peer::What;
use hermes_peer::capability;
use hermes_peer::certificates::DEFAULT_VALIDITY;
use hermes_peer::config::Config;
use hermes_peer::handler;
use hermes_peer_proto::protocol::HandshakeError;
use hermes_peer_proto::protocol::handshake::ResumeTicket;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Resumed;
use hermes_peer_tests::Gauge;
use hermes_peer_tests::Lab;
use hermes_peer_tests::Victim;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::proxy::Proxy;
use hermes_peer_tests::raw::Raw;
use hermes_peer_tests::raw::RawIdentity;
use hermes_peer_tests::raw::request;
use hermes_peer_tests::until;
use tokio::sync::Notify;
use tokio::sync::Semaphore;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Doubles what comes.
#[capability("demo.double")]
async fn double(mut items: Incoming<u64>) -> Result<Items<u64>, Failure> {
    let (sender, answers) = Items::channel(4);
    tokio::spawn(async move {
        while let Some(item) = items.next().await {
            match item {
                Ok(item) => sender.send(2 * item).await,
                Err(error) => return sender.fail(error).await,
            };
        }
    });
    Ok(answers)
}

/// Answers when its gate opens.
fn gated(gauge: &Gauge, gate: &Arc<Notify>) -> impl Capability + use<> {
    let (gauge, gate) = (gauge.clone(), gate.clone());
    handler("demo.gated", move |n: u64, _context: Context| {
        let (at_work, gate) = (gauge.begin(), gate.clone());
        async move {
            let _at_work = at_work;
            gate.notified().await;
            Ok::<u64, Failure>(n)
        }
    })
    .unwrap()
}

/// Never answers.
fn endless(gauge: &Gauge) -> impl Capability + use<> {
    gated(gauge, &Arc::new(Notify::new()))
}

/// A provider behind a cable, and a caller at the other end of it.
async fn behind_a_cable(lab: &Lab, builder: NodeBuilder, version: u8) -> (Node, Proxy, Node) {
    let provider = builder.versions(1, version).start().await.unwrap();
    let proxy = Proxy::to(&endpoint(&provider)).await;
    let caller = lab.builder("caller").peer("provider", &proxy.address()).start().await.unwrap();
    (provider, proxy, caller)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_again_and_again_brings_each_item_once_and_in_order() {
    let lab = Lab::new();
    let builder = lab.provider("provider").capability(double);
    let (provider, proxy, caller) = behind_a_cable(&lab, builder, 2).await;
    let call = caller.call("demo.double", &()).timeout(60 * SECOND);
    let (sender, mut replies) = call.exchange::<u64, u64>().await.unwrap();
    // Not more than 50 ahead of the answers, so that there is always something to come in both directions.
    let ahead = Arc::new(Semaphore::new(50));
    let answered = ahead.clone();
    let sending = tokio::spawn(async move {
        for item in 0..1_000 {
            ahead.acquire().await.unwrap().forget();
            sender.send(&item).await.unwrap();
        }
        sender.finish();
    });
    let mut got = Vec::new();
    while let Some(item) = replies.next().await {
        got.push(item.unwrap_or_else(|error| panic!("after {} items: {error}", got.len())));
        answered.add_permits(1);
        if got.len() % 200 == 100 {
            proxy.cut();
        }
    }
    assert_eq!(got, (0..1_000).map(|item| 2 * item).collect::<Vec<_>>());
    sending.await.unwrap();
    let is_up = |node: &Node| node.peers().iter().any(|peer| peer.state == LinkState::Linked);
    until("the link is up at both ends", 20 * SECOND, || is_up(&caller) && is_up(&provider)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ends_while_the_link_is_down_runs_once_and_its_answer_arrives() {
    // FC-055
    let lab = Lab::new();
    let (gauge, gate) = (Gauge::default(), Arc::new(Notify::new()));
    let builder = lab.provider("provider").capability(gated(&gauge, &gate));
    let (provider, proxy, caller) = behind_a_cable(&lab, builder, 2).await;
    let calling = tokio::spawn(caller.call::<u64>("demo.gated", &7).timeout(30 * SECOND).into_future());
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    proxy.cut_for_good();
    let is_suspended = || provider.peers().iter().any(|peer| peer.state == LinkState::Suspended);
    until("the provider has noticed", 2 * SECOND, is_suspended).await;
    gate.notify_one();
    until("the handler ends", SECOND, || gauge.running() == 0).await;
    proxy.mend();
    assert_eq!(calling.await.unwrap().unwrap(), 7);
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_while_the_link_is_down_reaches_the_handler_when_it_is_up() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let builder = lab.provider("provider").capability(endless(&gauge));
    let (_provider, proxy, caller) = behind_a_cable(&lab, builder, 2).await;
    let calling = tokio::spawn(caller.call::<u64>("demo.gated", &7).into_future());
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    proxy.cut_for_good();
    until("the caller has noticed", 2 * SECOND, || caller.peers()[0].state != LinkState::Linked).await;
    calling.abort();
    assert!(calling.await.is_err());
    proxy.mend();
    until("the handler is stopped", 10 * SECOND, || gauge.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_version_1_ends_with_its_connection_and_says_what_may_have_run() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let builder = lab.provider("provider").capability(endless(&gauge)).capability(double);
    let (_provider, proxy, caller) = behind_a_cable(&lab, builder, 1).await;
    let (_sender, mut replies) = caller.call("demo.double", &()).exchange::<u64, u64>().await.unwrap();
    let calling = tokio::spawn(caller.call::<u64>("demo.gated", &7).into_future());
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    let cut = Instant::now();
    proxy.cut();
    let error: CallError = calling.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
    assert!(error.may_have_run() && error.is_retryable());
    let error = replies.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
    assert!(cut.elapsed() < SECOND, "{:?}", cut.elapsed());
    until("the handler is stopped", SECOND, || gauge.running() == 0).await;
    // And the next link is there soon.
    let error = caller.call::<u64>("demo.gated", &7).timeout(3 * SECOND).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert_eq!(gauge.begun(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cable_that_carries_nothing_is_noticed_and_the_call_goes_on_when_it_does() {
    let lab = Lab::new();
    let (gauge, gate) = (Gauge::default(), Arc::new(Notify::new()));
    let provider = lab.provider("provider").heartbeat(SECOND / 5).capability(gated(&gauge, &gate));
    let provider = provider.start().await.unwrap();
    let proxy = Proxy::to(&endpoint(&provider)).await;
    let caller = lab.builder("caller").heartbeat(SECOND / 5).peer("provider", &proxy.address());
    let caller = caller.start().await.unwrap();
    let calling = tokio::spawn(caller.call::<u64>("demo.gated", &7).timeout(30 * SECOND).into_future());
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    proxy.stall();
    until("the caller has noticed", 5 * SECOND, || caller.peers()[0].state != LinkState::Linked).await;
    gate.notify_one();
    proxy.mend();
    assert_eq!(calling.await.unwrap().unwrap(), 7);
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_takes_the_place_of_its_ghost_and_no_call_waits() {
    // FC-029
    let lab = Lab::new();
    let hub = lab.provider("hub").start().await.unwrap();
    let proxy = Proxy::to(&endpoint(&hub)).await;
    let gauge = Gauge::default();
    let worker = |address: &str| lab.builder("worker").peer("hub", address).capability(endless(&gauge));
    let first = Victim::start(worker(&proxy.address())).await;
    until("the hub knows the worker", 5 * SECOND, || hub.capabilities().len() == 1).await;
    let calls: Vec<_> = (0..20)
        .map(|n: u64| tokio::spawn(hub.call::<u64>("demo.gated", &n).timeout(60 * SECOND).into_future()))
        .collect();
    until("all run", 5 * SECOND, || gauge.running() == 20).await;
    // Its packets no longer arrive, its last ones neither.
    proxy.stall();
    first.kill();
    until("the worker is dead", 2 * SECOND, || gauge.running() == 0).await;
    let restarted = Instant::now();
    let _second = worker(&endpoint(&hub)).start().await.unwrap();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
        assert!(error.may_have_run());
    }
    assert!(restarted.elapsed() < 3 * SECOND, "the calls: {:?}", restarted.elapsed());
    let error = hub.call::<u64>("demo.gated", &1).timeout(SECOND / 2).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "the new one works on it: {error}");
    assert_eq!(gauge.begun(), 21);
    assert!(restarted.elapsed() < 4 * SECOND, "{:?}", restarted.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_node_of_the_same_name_is_refused_and_the_first_one_stays() {
    let lab = Lab::new();
    let hub = lab.provider("hub").start().await.unwrap();
    let (gauge, gate) = (Gauge::default(), Arc::new(Notify::new()));
    let first = lab.builder("worker").peer("hub", &endpoint(&hub)).capability(gated(&gauge, &gate));
    let _first = first.start().await.unwrap();
    until("the hub knows the worker", 5 * SECOND, || hub.capabilities().len() == 1).await;
    let calling = tokio::spawn(hub.call::<u64>("demo.gated", &7).into_future());
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    let other = lab.raw("mallory");
    let of_another_agent = RawIdentity {
        local: hermes_peer_proto::protocol::handshake::Local {
            node: "worker".parse().unwrap(),
            ..other.local
        },
        ..other
    };
    for (what, identity) in [
        ("started later", lab.raw("worker").epoch(u64::MAX)),
        ("started earlier", lab.raw("worker").epoch(1)),
        ("of another agent", of_another_agent),
    ] {
        let mut raw = Raw::dial(&identity, &endpoint(&hub)).await;
        let fault = raw.last_word().await.unwrap_or_else(|| panic!("{what}: it is told nothing"));
        assert_eq!(fault.code, ErrorCode::PermissionDenied, "{what}: {}", fault.message);
        assert!(!calling.is_finished(), "{what}: the first one's call has ended");
    }
    gate.notify_one();
    assert_eq!(calling.await.unwrap().unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_on_with_a_link_that_is_not_its_own() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let provider = lab.provider("provider").capability(endless(&gauge)).start().await.unwrap();
    let address = endpoint(&provider);
    let (owner, thief) = (lab.raw("owner"), lab.raw("thief"));
    let mut raw = Raw::connect(&owner, &address).await.unwrap();
    let owned = raw.initiate(&owner, None).await.unwrap();
    raw.send(&request(1, "demo.gated", "1", true)).await;
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    let mut stolen = Raw::connect(&thief, &address).await.unwrap();
    let own = stolen.initiate(&thief, None).await.unwrap();
    // The owner's link with another secret; with the right secret, by another node; and the owner with a wrong secret.
    for (who, secret) in [(&thief, own.secret.clone()), (&thief, owned.secret.clone()), (&owner, own.secret)]
    {
        let mut attempt = Raw::connect(who, &address).await.unwrap();
        let ticket = ResumeTicket { link: owned.link, received: 0, secret };
        let outcome = attempt.initiate(who, Some(ticket)).await.unwrap();
        assert_eq!(outcome.resumed, Resumed::No { received: None });
        assert_ne!(outcome.link, owned.link);
        if who.local.node == thief.local.node {
            assert_eq!(gauge.running(), 1, "the owner's call goes on");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_goes_on_for_its_owner_and_sends_again_what_was_not_received() {
    let lab = Lab::new();
    let (gauge, gate) = (Gauge::default(), Arc::new(Notify::new()));
    let provider = lab.provider("provider").capability(gated(&gauge, &gate)).start().await.unwrap();
    let (address, owner) = (endpoint(&provider), lab.raw("owner"));
    let mut raw = Raw::connect(&owner, &address).await.unwrap();
    let first = raw.initiate(&owner, None).await.unwrap();
    raw.send(&request(1, "demo.gated", "11", true)).await;
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    gate.notify_one();
    let answer = raw.receive_on(MessageType::Response, 1).await.unwrap();
    drop(raw);
    // It says that it has received nothing: the answer comes again, the very same frame.
    let mut secret = first.secret;
    for _ in 0..3 {
        let mut again = Raw::connect(&owner, &address).await.unwrap();
        let ticket = ResumeTicket { link: first.link, received: 0, secret: secret.clone() };
        let resumed = again.initiate(&owner, Some(ticket)).await.unwrap();
        assert_eq!(resumed.resumed, Resumed::Yes { received: 1 }, "the provider has the one request");
        assert_eq!(again.receive_on(MessageType::Response, 1).await.unwrap(), answer);
        secret = resumed.secret;
    }
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_node_takes_a_link_that_goes_on_and_nobody_who_only_wishes_to() {
    let lab = Lab::new();
    let agent = "agent://default/lab/full".parse().unwrap();
    let issued = lab.authority().issue(&agent, &"full".parse().unwrap(), DEFAULT_VALIDITY).unwrap();
    issued.save(&lab.folder().join("full.pem"), &lab.folder().join("full.key")).unwrap();
    let file = lab.folder().join("peers.yaml");
    let text = "node_id: full\nagent: agent://default/lab/full\nlisten: 127.0.0.1:0\n\
                auth: { mode: mtls, ca: ca/ca.pem, cert: full.pem, key: full.key }\n\
                limits: { max_connections: 2 }\n";
    std::fs::write(&file, text).unwrap();
    let builder = Node::from_config(&Config::load(&file).unwrap()).unwrap().without_local_discovery();
    let node = builder.start().await.unwrap();
    let address = endpoint(&node);
    let (first, second, third) = (lab.raw("first"), lab.raw("second"), lab.raw("third"));
    let mut raw = Raw::connect(&first, &address).await.unwrap();
    let linked = raw.initiate(&first, None).await.unwrap();
    let _second = Raw::dial(&second, &address).await;
    until("both are linked", 2 * SECOND, || node.peers().len() == 2).await;
    let wish = ResumeTicket { link: linked.link, received: 0, secret: linked.secret.clone() };
    for ticket in [None, Some(wish.clone())] {
        let mut late = Raw::connect(&third, &address).await.unwrap();
        let Err(HandshakeError::RefusedByPeer(fault)) = late.initiate(&third, ticket).await else {
            panic!("a third is taken");
        };
        assert_eq!(fault.code, ErrorCode::Overloaded);
    }
    drop(raw);
    let mut again = Raw::connect(&first, &address).await.unwrap();
    let resumed = again.initiate(&first, Some(wish)).await.unwrap().resumed;
    assert!(matches!(resumed, Resumed::Yes { .. }), "{resumed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_of_one_name_fight_no_duel() {
    let lab = Lab::new();
    let hub = lab.provider("hub").start().await.unwrap();
    let gauge = Gauge::default();
    let _first = lab.caller_of("worker", &hub).capability(endless(&gauge)).start().await.unwrap();
    until("the hub knows the worker", 5 * SECOND, || hub.capabilities().len() == 1).await;
    let mut seen = hub.observe();
    let _second = lab.caller_of("worker", &hub).start().await.unwrap();
    let end = Instant::now() + 2 * SECOND;
    let mut refused = 0;
    while let Ok((observation, _)) = tokio::time::timeout_at(end, seen.next()).await {
        match &observation.what {
            What::Peer { state: PeerState::Refused, .. } => refused += 1,
            What::Peer { state: PeerState::Linked | PeerState::Down, .. } => {
                panic!("the first one is disturbed")
            }
            _ => {}
        }
    }
    assert!((1..=10).contains(&refused), "{refused} refusals in 2 s");
}
