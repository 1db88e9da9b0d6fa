//! Versions 1 and 2 against each other, and whoever offers something else.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::Delivery;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::capability;
use hermes_peer_proto::protocol::HandshakeError;
use hermes_peer_proto::wire::Ack;
use hermes_peer_proto::wire::Field;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::Syn;
use hermes_peer_proto::wire::SynAck;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::raw::Raw;
use hermes_peer_tests::raw::RawIdentity;
use hermes_peer_tests::raw::RawListener;
use hermes_peer_tests::raw::control;
use hermes_peer_tests::raw::request;
use hermes_peer_tests::until;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Doubles what comes.
#[capability("demo.double")]
async fn double(mut items: Incoming<u64>) -> Result<Items<u64>, Failure> {
    let (sender, answers) = Items::channel(4);
    tokio::spawn(async move {
        while let Some(Ok(item)) = items.next().await {
            sender.send(2 * item).await;
        }
    });
    Ok(answers)
}

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: String) -> Result<String, Failure> {
    Ok(input)
}

/// Counts in a slot.
#[capability("demo.visit", reads = ["visits"], writes = ["visits"])]
async fn visit(context: Context) -> Result<u64, Failure> {
    let visits = context.slot::<u64>("visits")?.unwrap_or_default() + 1;
    context.set_slot("visits", &visits)?;
    Ok(visits)
}

/// All that is version 1, from one node to another.
async fn everything_works(from: &Node, to: &Node) {
    let text = "x".repeat(300_000);
    let to_name = to.id().as_str();
    let answer: String = from.call("demo.echo", &text).to(to_name).await.unwrap();
    assert_eq!(answer, text);
    let (sender, mut replies) =
        from.call("demo.double", &()).to(to_name).exchange::<u64, u64>().await.unwrap();
    for item in 0..500 {
        sender.send(&item).await.unwrap();
        assert_eq!(replies.next().await.unwrap().unwrap(), 2 * item);
    }
    sender.finish();
    assert!(replies.next().await.is_none());
    let session = from.open_session().unwrap();
    for visits in 1..=3 {
        let call = from.call::<u64>("demo.visit", &()).to(to_name).session(&session);
        assert_eq!(call.await.unwrap(), visits);
    }
    assert_eq!(session.get::<u64>("visits").unwrap(), Some(3));
    let error = from.call::<String>("demo.nope", &()).to(to_name).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_interwork_in_all_four_pairings() {
    for (dials, listens, spoken) in [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 2)] {
        let lab = Lab::new();
        let builder = lab.provider("listens").versions(1, listens);
        let builder = builder.capability(echo).capability(double).capability(visit);
        let listens = builder.start().await.unwrap();
        let builder = lab.caller_of("dials", &listens).versions(1, dials);
        let dials = builder.capability(echo).capability(double).capability(visit).start().await.unwrap();
        let mut heard = dials.subscribe::<u64>("ticket.*").unwrap();
        let known = || dials.capabilities().len() >= 3 && listens.capabilities().len() >= 3;
        until("both know each other", 5 * SECOND, known).await;
        assert_eq!(dials.peers()[0].version, Some(spoken));
        assert_eq!(listens.peers()[0].version, Some(spoken));
        everything_works(&dials, &listens).await;
        everything_works(&listens, &dials).await;
        for number in 0..20_u64 {
            assert_eq!(listens.publish("ticket.opened", &number).await.unwrap(), 1, "one node wants it");
        }
        for number in 0..20 {
            match tokio::time::timeout(5 * SECOND, heard.next()).await {
                Ok(Some(Ok(Delivery::Event(event)))) => assert_eq!(event.value, number),
                other => panic!("version {spoken}: {other:?} instead of event {number}"),
            }
        }
    }
}

/// Sends a SYN that a test has changed. The answer, and how long it took.
async fn answer_to(identity: &RawIdentity, address: &str, change: impl FnOnce(&mut Syn)) -> Frame {
    let mut raw = Raw::connect(identity, address).await.unwrap();
    let (_machine, syn) = raw.initiator(identity, None);
    let mut syn = Syn::decode(&syn.payload).unwrap();
    change(&mut syn);
    let begun = Instant::now();
    raw.send(&control(MessageType::Syn, 0, &syn)).await;
    let answer = raw.receive().await.expect("SYN is answered");
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    answer
}

fn version_in(answer: &Frame) -> Result<u8, hermes_peer_proto::wire::Fault> {
    match answer.message_type {
        MessageType::SynAck => Ok(SynAck::take(&answer.payload).unwrap().0.version),
        _ => Err(Payload::decode(&answer.payload).unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_offer_of_versions_gets_its_answer() {
    // FC-027
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(echo).start().await.unwrap();
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    for (min, max, expected) in [
        (1, 1, Ok(1)),
        (1, 2, Ok(2)),
        (2, 9, Ok(2)),
        (1, 255, Ok(2)),
        (3, 9, Err(ErrorCode::VersionUnsupported)),
        (0, 0, Err(ErrorCode::InvalidFrame)),
        (0, 2, Err(ErrorCode::InvalidFrame)),
        (2, 1, Err(ErrorCode::InvalidFrame)),
    ] {
        let answer =
            answer_to(&identity, &address, |syn| (syn.min_version, syn.max_version) = (min, max)).await;
        let got = version_in(&answer);
        if min == 3 {
            let text = &got.as_ref().unwrap_err().message;
            assert!(text.contains("1 to 2") && text.contains("3 to 9"), "both ranges: {text}");
        }
        assert_eq!(got.map_err(|fault| fault.code), expected, "{min} to {max}");
    }
    // What a later version adds is passed over, unless it says that it must be understood; what hangs behind is wrong.
    let field = |mandatory| Field { tag: 77, mandatory, value: vec![1, 2, 3] };
    let answer = answer_to(&identity, &address, |syn| syn.fields.push(field(false))).await;
    assert_eq!(version_in(&answer).unwrap(), 2);
    let answer = answer_to(&identity, &address, |syn| syn.fields.push(field(true))).await;
    assert_eq!(version_in(&answer).unwrap_err().code, ErrorCode::VersionUnsupported);
    let mut raw = Raw::connect(&identity, &address).await.unwrap();
    let (_machine, syn) = raw.initiator(&identity, None);
    let longer = [&syn.payload[..], &[0]].concat();
    raw.send(&Frame::control(MessageType::Syn, StreamId::LINK, longer)).await;
    assert_eq!(raw.last_word().await.unwrap().code, ErrorCode::InvalidFrame);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_that_somebody_changed_on_its_way_makes_no_link() {
    // FC-027: a downgrade
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(echo).start().await.unwrap();
    let identity = lab.raw("raw");
    let mut raw = Raw::connect(&identity, &endpoint(&provider)).await.unwrap();
    let (machine, syn) = raw.initiator(&identity, None);
    let mut changed = Syn::decode(&syn.payload).unwrap();
    changed.max_version = 1;
    raw.send(&control(MessageType::Syn, 0, &changed)).await;
    let answer = raw.receive().await.unwrap();
    assert_eq!(version_in(&answer).unwrap(), 1);
    // The initiator has offered 2, and sees that the acceptor's proof is not over that.
    let refused = machine.syn_ack(answer);
    assert!(matches!(refused, Err(HandshakeError::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_refuses_a_pick_that_it_did_not_offer() {
    // FC-027
    let lab = Lab::new();
    let listener = RawListener::new().await;
    let identity = lab.raw("provider");
    for picked in [0, 3, 255] {
        let builder = lab.builder("caller").peer("provider", &listener.address().to_string());
        let caller = builder.start().await.unwrap();
        let mut raw = listener.accept(&identity).await.unwrap();
        let syn = raw.receive().await.unwrap();
        let acceptor = hermes_peer_proto::protocol::handshake::Acceptor::new(
            identity.local.clone(),
            [9; 32],
            raw.binding(),
            raw.peer_certificate(),
        );
        let (_expect, answer) = acceptor.syn(syn).unwrap().accept(
            hermes_peer_proto::wire::LinkId::from_bytes([1; 16]),
            hermes_peer_proto::protocol::handshake::Resumption::New,
        );
        let mut changed = answer.payload.to_vec();
        changed[0] = picked;
        raw.send(&Frame::control(MessageType::SynAck, StreamId::LINK, changed)).await;
        assert_eq!(raw.last_word().await.unwrap().code, ErrorCode::InvalidFrame, "{picked}");
        assert!(caller.peers().iter().all(|peer| peer.linked_for_s.is_none()));
        drop(caller);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_versions_nobody_speaks_is_not_hammered() {
    // FC-027
    let lab = Lab::new();
    let provider = lab.provider("provider").versions(1, 1).capability(echo).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).versions(2, 2).start().await.unwrap();
    let begun = Instant::now();
    let error = caller.call::<String>("demo.echo", "x").wait_for_provider(SECOND).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    let text = error.to_string();
    assert!(text.contains("2 to 2") && text.contains("1 to 1"), "both ranges: {text}");
    assert!(begun.elapsed() < 3 * SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_has_no_acknowledgements() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(echo).start().await.unwrap();
    let identity = lab.raw("raw").versions(1, 1);
    let mut raw = Raw::dial(&identity, &endpoint(&provider)).await;
    raw.send(&request(1, "demo.echo", "\"a\"", true)).await;
    let answer = raw.receive_on(MessageType::Response, 1).await.unwrap();
    assert!(answer.is_fin());
    raw.send(&control(MessageType::Ack, 0, &Ack { received: 0 })).await;
    assert_eq!(raw.last_word().await.unwrap().code, ErrorCode::InvalidFrame);
}
