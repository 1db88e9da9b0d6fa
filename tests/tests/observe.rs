//! What happened can be seen afterwards: every message of a session, on every hop, under one trace.

use std::sync::Arc;
use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::Direction;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::MessageKind;
use hermes_peer::MessageSeen;
use hermes_peer::Node;
use hermes_peer::Observation;
use hermes_peer::PeerState;
use hermes_peer::SlotName;
use hermes_peer::What;
use hermes_peer::capability;
use hermes_peer::config::Config;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::eventually;
use serde_json::Value;
use serde_json::json;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// Reads one slot and writes another.
#[capability("a.slots", reads = ["intent"], writes = ["answer"])]
async fn slots(context: Context) -> Result<Option<String>, Failure> {
    context.set_slot("answer", &42)?;
    context.slot("intent")
}

/// Two items.
#[capability("a.items")]
async fn items() -> Result<Items<u32>, Failure> {
    Ok(Items::from_iter([1, 2]))
}

/// Fails.
#[capability("a.fail")]
async fn fail() -> Result<(), Failure> {
    Err(Failure::new("as it should"))
}

/// Its trace, and that of the hop behind it.
#[capability("hop.one")]
async fn hop_one(context: Context) -> Result<Vec<String>, Failure> {
    let mut traces: Vec<String> = context.call("hop.two", &()).await?;
    traces.push(context.traceparent());
    context.publish("hop.done", &1).await?;
    Ok(traces)
}

/// Its trace, and that of the hop behind it.
#[capability("hop.two")]
async fn hop_two(context: Context) -> Result<Vec<String>, Failure> {
    let mut traces: Vec<String> = context.node().call("hop.three", &()).await?;
    traces.push(context.traceparent());
    Ok(traces)
}

/// Its trace.
#[capability("hop.three")]
async fn hop_three(context: Context) -> Result<Vec<String>, Failure> {
    Ok(vec![context.traceparent()])
}

fn message(observation: &Arc<Observation>) -> &MessageSeen {
    match &observation.what {
        What::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn names(slots: &[SlotName]) -> Vec<&str> {
    slots.iter().map(SlotName::as_str).collect()
}

type Line<'a> = (Direction, MessageKind, &'a str, &'a str, Vec<&'a str>, Vec<&'a str>);

fn lines(timeline: &[Arc<Observation>]) -> Vec<Line<'_>> {
    let line = |observation| {
        let seen = message(observation);
        let capability = seen.capability.as_ref().map_or("", |name| name.as_str());
        let (read, written) = (names(&seen.slots_read), names(&seen.slots_written));
        (seen.direction, seen.message, seen.peer.as_str(), capability, read, written)
    };
    timeline.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeline_of_a_session_has_every_message_both_ways() {
    use Direction::Received;
    use Direction::Sent;
    use MessageKind::Error;
    use MessageKind::Item;
    use MessageKind::Request;
    use MessageKind::Response;
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(slots).capability(items).capability(fail);
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let (session, other) = (caller.open_session().unwrap(), caller.open_session().unwrap());
    session.set("intent", &"refund").unwrap();
    session.set("unread", &"x").unwrap();
    caller.call::<Value>("a.slots", &()).session(&session).await.unwrap();
    caller.call::<Value>("a.slots", &()).session(&other).await.unwrap();
    caller.call::<Value>("a.slots", &()).await.unwrap();
    let mut stream = caller.call("a.items", &()).session(&session).stream::<u32>().await.unwrap();
    while let Some(item) = stream.next().await {
        item.unwrap();
    }
    caller.call::<Value>("a.fail", &()).session(&session).await.unwrap_err();
    eventually("the provider has seen all", || provider.timeline(session.id()).len() == 8).await;
    let of = |there: Direction, back: Direction, peer| {
        let none = Vec::new;
        vec![
            (there, Request, peer, "a.slots", vec!["intent"], none()),
            (back, Response, peer, "a.slots", none(), vec!["answer"]),
            (there, Request, peer, "a.items", none(), none()),
            (back, Item, peer, "a.items", none(), none()),
            (back, Item, peer, "a.items", none(), none()),
            (back, Response, peer, "a.items", none(), none()),
            (there, Request, peer, "a.fail", none(), none()),
            (back, Error, peer, "a.fail", none(), none()),
        ]
    };
    let (here, there) = (caller.timeline(session.id()), provider.timeline(session.id()));
    assert_eq!(lines(&here), of(Sent, Received, "provider"));
    assert_eq!(lines(&there), of(Received, Sent, "caller"));
    for timeline in [&here, &there] {
        for pair in timeline.windows(2) {
            assert!(pair[0].number < pair[1].number && pair[0].at <= pair[1].at, "in order");
        }
        for observation in timeline {
            let seen = message(observation);
            assert_eq!(seen.took.is_some(), seen.message != Request, "{seen:?}");
            assert_eq!(seen.code, (seen.message == Error).then_some(ErrorCode::HandlerFailed));
            assert_eq!(seen.session, Some(session.id()));
            assert_eq!(seen.trace_id, seen.message_id, "a call that begins a story names it");
        }
    }
    let ids = |timeline: &[Arc<Observation>]| -> Vec<_> {
        timeline.iter().map(|o| message(o).message_id).collect()
    };
    assert_eq!(ids(&here), ids(&there), "both ends speak of the same messages");
    // As others read it, under policy.
    let told: Value =
        caller.call("hermes.journal", &json!({ "session": session.id() })).to("provider").await.unwrap();
    let told = told.as_array().unwrap();
    assert_eq!(told.len(), 8);
    assert_eq!((&told[1]["slots_written"], &told[1]["message"]), (&json!(["answer"]), &json!("response")));
    assert!(told[1]["took_ms"].as_f64().unwrap() >= 0.0);
}

/// A caller and the three that its call goes through.
async fn three_hops(lab: &Lab) -> [Node; 4] {
    let third = lab.provider("third").capability(hop_three).start().await.expect("the node starts");
    let second = lab
        .provider("second")
        .capability(hop_two)
        .peer("third", &endpoint(&third))
        .start()
        .await
        .expect("the node starts");
    let first = lab
        .provider("first")
        .capability(hop_one)
        .peer("second", &endpoint(&second))
        .start()
        .await
        .expect("the node starts");
    let caller = lab.caller_of("caller", &first).start().await.expect("the node starts");
    [caller, first, second, third]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_and_one_session_go_through_all_hops() {
    // FC-077
    let lab = Lab::new();
    let [caller, first, second, third] = three_hops(&lab).await;
    let mut done = caller.subscribe::<u32>("hop.done").unwrap();
    let session = caller.open_session().unwrap();
    let traces: Vec<String> = caller.call("hop.one", &()).session(&session).await.unwrap();
    assert_eq!(traces.len(), 3);
    let parts: Vec<Vec<&str>> = traces.iter().map(|trace| trace.split('-').collect()).collect();
    for trace in &parts {
        assert_eq!((trace[0], trace[1].len(), trace[2].len()), ("00", 32, 16), "{traces:?}");
        assert_eq!(trace[1], parts[0][1], "one trace: {traces:?}");
    }
    assert!(
        parts[0][2] != parts[1][2] && parts[1][2] != parts[2][2],
        "each call is a part of its own: {traces:?}"
    );
    let mut stories = Vec::new();
    for node in [&caller, &first, &second, &third] {
        eventually("both messages of each call are seen", || {
            let seen = node
                .timeline(session.id())
                .iter()
                .filter(|o| message(o).message != MessageKind::Event)
                .count();
            seen == if [caller.id(), third.id()].contains(&node.id()) { 2 } else { 4 }
        })
        .await;
        stories.extend(node.timeline(session.id()).iter().filter_map(|o| message(o).trace_id));
    }
    stories.dedup();
    assert_eq!(stories.len(), 1, "one story on every hop");
    assert_eq!(stories[0].to_string(), parts[0][1], "and it is the trace");
    // Another call has another one.
    let again: Vec<String> = caller.call("hop.one", &()).await.unwrap();
    assert_ne!(again[0].split('-').nth(1).unwrap(), parts[0][1]);
    drop(timeout(Duration::ZERO, done.next()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_a_handler_publishes_belongs_to_the_calls_session() {
    // FC-077
    let lab = Lab::new();
    let [caller, first, _second, _third] = three_hops(&lab).await;
    let mut done = caller.subscribe::<u32>("hop.done").unwrap();
    let session = caller.open_session().unwrap();
    let event = timeout(PATIENCE, async {
        loop {
            // The first ones may come before the subscription is known.
            caller.call::<Value>("hop.one", &()).session(&session).await.unwrap();
            if let Ok(Some(Ok(delivery))) = timeout(Duration::from_millis(100), done.next()).await {
                break delivery;
            }
        }
    });
    let hermes_peer::Delivery::Event(event) = event.await.unwrap() else { panic!("a gap") };
    assert_eq!(event.session, Some(session.id()));
    let seen =
        |node: &Node| node.timeline(session.id()).iter().any(|o| message(o).message == MessageKind::Event);
    assert!(seen(&first) && seen(&caller), "both ends have it in the session's timeline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_too_slow_is_told_how_much_it_missed() {
    let lab = Lab::new();
    let config = Config::parse("journal: { records: 10 }", "peers.yaml", lab.folder(), &|_| None).unwrap();
    let provider = lab.provider("provider").capability(slots).start().await.unwrap();
    let builder = Node::from_config(&config).unwrap().node_id("caller").without_local_discovery();
    let builder = builder.development_ca(lab.folder().join("ca")).peer("provider", &endpoint(&provider));
    let caller = builder.start().await.unwrap();
    let mut slow = caller.observe();
    let mut quick = caller.observe();
    for _ in 0..20 {
        caller.call::<Value>("a.slots", &()).await.unwrap();
    }
    caller.shutdown().await;
    drop(caller);
    let (mut next, mut missed_in_all, mut seen) = (None, 0, 0);
    loop {
        let Ok((observation, missed)) = timeout(Duration::from_millis(200), slow.next()).await else { break };
        if let Some(next) = next {
            assert_eq!(observation.number, next + missed, "the gap is the number that is told");
        }
        next = Some(observation.number + 1);
        missed_in_all += missed;
        seen += 1;
    }
    assert_eq!(seen, 10, "as many as are kept");
    let (first, missed) = quick.next().await;
    assert_eq!(missed, missed_in_all);
    assert!(missed >= 30, "{missed}");
    assert_eq!(first.number, next.unwrap() - 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_links_are_seen_as_they_come() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(slots).start().await.unwrap();
    let caller = lab.builder("caller").start().await.unwrap();
    let mut seen = provider.observe();
    drop(caller);
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let state = async |seen: &mut hermes_peer::Observations, wanted: PeerState| {
        timeout(PATIENCE, async {
            loop {
                if let What::Peer { peer, state, .. } = &seen.next().await.0.what
                    && *state == wanted
                {
                    return peer.to_string();
                }
            }
        })
        .await
        .expect("it is seen")
    };
    assert_eq!(state(&mut seen, PeerState::Linked).await, "caller");
    // The caller knows of the link as well: one that it does not know of gets no goodbye.
    caller.call::<Value>("a.slots", &()).await.unwrap();
    caller.shutdown().await;
    assert_eq!(state(&mut seen, PeerState::Draining).await, "caller");
    assert_eq!(state(&mut seen, PeerState::Down).await, "caller");
}
