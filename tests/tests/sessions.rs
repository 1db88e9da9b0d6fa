//! Sessions between nodes: slots travel with a request and come back with its answer, and an ended session opens nothing.

use std::sync::Arc;
use std::time::Duration;

use hermes_peer::CallError;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::SessionId;
use hermes_peer::capability;
use hermes_peer::config::Config;
use hermes_peer_tests::Gate;
use hermes_peer_tests::Lab;
use hermes_peer_tests::eventually;
use serde_json::Value;
use serde_json::json;

/// Notes the intent.
#[capability("nlu.detect", writes = ["intent"])]
async fn detect(text: String, context: Context) -> Result<Option<String>, Failure> {
    let before = context.slot("intent")?;
    context.set_slot("intent", &text)?;
    Ok(before)
}

/// Reads the intent.
#[capability("nlu.read", reads = ["intent"])]
async fn read(context: Context) -> Result<Option<String>, Failure> {
    context.slot("intent")
}

/// Appends to one slot and merges into another, twice.
#[capability("notes.add", writes = ["log", "facts"])]
async fn add(note: Value, context: Context) -> Result<Value, Failure> {
    for _ in 0..2 {
        context.append_slot("log", &note)?;
        context.merge_slot("facts", &note)?;
    }
    // What was written is seen at once.
    Ok(json!({ "log": context.slot::<Value>("log")?, "facts": context.slot::<Value>("facts")? }))
}

/// Reads a slot by its name.
#[capability("nosy.peek", reads = ["intent"])]
async fn peek(slot: String, context: Context) -> Result<Option<Value>, Failure> {
    context.slot(&slot)
}

/// Writes a slot by its name.
#[capability("nosy.poke", reads = ["intent"])]
async fn poke(slot: String, context: Context) -> Result<(), Failure> {
    context.set_slot(&slot, &1)
}

/// Writes the intent once it may go on.
#[capability("slow.detect", writes = ["intent"])]
async fn slow(context: Context) -> Result<(), Failure> {
    context.state::<Arc<Gate>>()?.pass().await;
    context.set_slot("intent", &"slow")
}

/// Gives two items, the second once it may go on.
#[capability("slow.items")]
async fn slow_items(context: Context) -> Result<Items<u32>, Failure> {
    let gate = context.state::<Arc<Gate>>()?;
    let (sender, items) = Items::channel(1);
    tokio::spawn(async move {
        sender.send(1).await;
        gate.pass().await;
        sender.send(2).await;
    });
    Ok(items)
}

/// Asks another node to detect and to read.
#[capability("outer.both", writes = ["intent"])]
async fn both(text: String, context: Context) -> Result<Value, Failure> {
    let before: Value = context.call("nlu.detect", &text).await?;
    // Made through the node rather than the context: it inherits all the same.
    let after: Value = context.node().call("nlu.read", &()).await?;
    let own: Option<String> = context.slot("intent")?;
    Ok(json!([before, after, own]))
}

fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> ErrorCode {
    result.expect_err("it fails").code()
}

async fn pair(lab: &Lab, gate: &Arc<Gate>, timeout: Duration) -> (Node, Node) {
    let builder = lab.provider("provider").capability(detect).capability(read).capability(add);
    let builder = builder.capability(peek).capability(poke).capability(slow).capability(slow_items);
    let provider = builder.state(gate.clone()).start().await.expect("the provider starts");
    let caller =
        lab.caller_of("caller", &provider).session_timeout(timeout).start().await.expect("the caller starts");
    (provider, caller)
}

const LONG: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_travel_with_the_request_and_come_back() {
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, &Gate::new(), LONG).await;
    let session = caller.open_session().unwrap();
    let before: Option<String> = caller.call("nlu.detect", "refund").session(&session).await.unwrap();
    assert_eq!(before, None);
    assert_eq!(session.get::<String>("intent").unwrap().as_deref(), Some("refund"));
    let read: Option<String> = caller.call("nlu.read", &()).session(&session).await.unwrap();
    assert_eq!(read.as_deref(), Some("refund"));
    // The owner writes, the next handler reads that, and a write on top of it is no conflict.
    session.set("intent", &"Ändern 🙂").unwrap();
    let before: Option<String> = caller.call("nlu.detect", "cancel").session(&session).await.unwrap();
    assert_eq!(before.as_deref(), Some("Ändern 🙂"));
    // Another session, and no session at all, see nothing of it.
    let other = caller.open_session().unwrap();
    let read: Option<String> = caller.call("nlu.read", &()).session(&other).await.unwrap();
    assert_eq!(read, None);
    let read: Option<String> = caller.call("nlu.read", &()).await.unwrap();
    assert_eq!(read, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appended_and_merged_values_join_what_is_there() {
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, &Gate::new(), LONG).await;
    let session = caller.open_session().unwrap();
    session.set("facts", &json!({ "a": 1, "gone": true })).unwrap();
    let note = json!({ "b": { "c": 2 }, "gone": null });
    let seen: Value = caller.call("notes.add", &note).session(&session).await.unwrap();
    let (log, facts) = (json!([note, note]), json!({ "a": 1, "b": { "c": 2 } }));
    assert_eq!(seen, json!({ "log": log, "facts": facts }));
    assert_eq!(session.get::<Value>("log").unwrap(), Some(log));
    assert_eq!(session.get::<Value>("facts").unwrap(), Some(facts));
    session.set("log", &"no list").unwrap();
    let refused = caller.call::<Value>("notes.add", &note).session(&session).await;
    assert_eq!(code(refused), ErrorCode::InvalidInput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_top_of_another_that_it_has_not_seen_is_a_conflict() {
    let (lab, gate) = (Lab::new(), Gate::new());
    let (_provider, caller) = pair(&lab, &gate, LONG).await;
    let session = caller.open_session().unwrap();
    session.set("intent", &"first").unwrap();
    let running = tokio::spawn(caller.call::<()>("slow.detect", &()).session(&session).into_future());
    gate.someone_entered().await;
    caller.call::<Value>("nlu.detect", "second").session(&session).await.unwrap();
    gate.let_go(1);
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::SlotConflict);
    assert!(error.message().contains("`intent`"), "{error}");
    assert_eq!(
        session.get::<String>("intent").unwrap().as_deref(),
        Some("second"),
        "nothing was overwritten"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_a_capability_does_not_declare_are_closed_to_it() {
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, &Gate::new(), LONG).await;
    let session = caller.open_session().unwrap();
    session.set("secret", &"s3cr3t").unwrap();
    let call = |name: &str, slot: &str| caller.call::<Value>(name, slot).session(&session).into_future();
    assert_eq!(code(call("nosy.peek", "secret").await), ErrorCode::PermissionDenied);
    assert_eq!(code(call("nosy.poke", "secret").await), ErrorCode::PermissionDenied);
    assert_eq!(
        code(call("nosy.poke", "intent").await),
        ErrorCode::PermissionDenied,
        "it only reads this one"
    );
    assert_eq!(call("nosy.peek", "intent").await.unwrap(), Value::Null);
    assert_eq!(session.get::<String>("secret").unwrap().as_deref(), Some("s3cr3t"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_call_sees_the_slots_and_its_writes_come_back() {
    let lab = Lab::new();
    let last = lab.provider("last").capability(detect).capability(read).start().await.unwrap();
    let middle = lab.provider("middle").capability(both).peer("last", &last.address().unwrap().to_string());
    let middle = middle.start().await.unwrap();
    let caller = lab.caller_of("caller", &middle).start().await.unwrap();
    let session = caller.open_session().unwrap();
    session.set("intent", &"old").unwrap();
    let answer: Value = caller.call("outer.both", "new").session(&session).await.unwrap();
    assert_eq!(answer, json!(["old", "new", "new"]));
    assert_eq!(session.get::<String>("intent").unwrap().as_deref(), Some("new"));
    assert!(!last.timeline(session.id()).is_empty(), "the last hop knows whose collaboration it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_a_closed_and_an_unknown_session_get_the_same_answer() {
    // FC-061
    let lab = Lab::new();
    let (provider, caller) = pair(&lab, &Gate::new(), Duration::from_millis(50)).await;
    let expired = caller.open_session().unwrap();
    expired.set("intent", &"old").unwrap();
    eventually("the session expires", || caller.session(expired.id()).is_err()).await;
    let closed = caller.open_session().unwrap();
    let closed_id = closed.id();
    closed.clone().close();
    let never = SessionId::from_bytes([7; 16]);
    let text = |id: SessionId| caller.session(id).unwrap_err().to_string().replace(&id.to_string(), "ID");
    for id in [expired.id(), closed_id, never] {
        let error = caller.session(id).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionExpired);
        assert!(!error.is_retryable() && error.message().contains("open a new one"), "{error}");
        assert_eq!(text(id), text(never), "nobody learns which it was");
    }
    for session in [&expired, &closed] {
        // The handler does not run with empty slots instead.
        let call = caller.call::<Value>("nlu.detect", "x").session(session).await;
        assert_eq!(code(call), ErrorCode::SessionExpired);
        assert_eq!(code(session.get::<Value>("intent")), ErrorCode::SessionExpired);
        assert_eq!(code(session.set("intent", &1)), ErrorCode::SessionExpired);
    }
    assert!(provider.timeline(closed_id).is_empty() && provider.timeline(expired.id()).is_empty());
    // The link is as good as before, and a closed session's id can be had again.
    let again = caller.open_session_with(closed_id).unwrap();
    let before: Value = caller.call("nlu.detect", "x").session(&again).await.unwrap();
    assert_eq!(before, Value::Null);
    assert_eq!(code(caller.open_session_with(closed_id)), ErrorCode::InvalidInput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_keeps_its_session_alive() {
    // FC-059
    let (lab, gate) = (Lab::new(), Gate::new());
    let (_provider, caller) = pair(&lab, &gate, Duration::from_millis(300)).await;
    let (busy, streaming) = (caller.open_session().unwrap(), caller.open_session().unwrap());
    let running = tokio::spawn(caller.call::<()>("slow.detect", &()).session(&busy).into_future());
    let mut items = caller.call("slow.items", &()).session(&streaming).stream::<u32>().await.unwrap();
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    gate.someone_entered().await;
    gate.someone_entered().await;
    // Those opened after them, one after the other, have long expired.
    for _ in 0..3 {
        let idle = caller.open_session().unwrap();
        eventually("an idle session expires", || caller.session(idle.id()).is_err()).await;
    }
    gate.let_go(2);
    running.await.unwrap().unwrap();
    assert_eq!(busy.get::<String>("intent").unwrap().as_deref(), Some("slow"));
    assert_eq!(items.next().await.unwrap().unwrap(), 2);
    assert!(items.next().await.is_none());
    for session in [busy, streaming] {
        eventually("a session that is idle again expires", || caller.session(session.id()).is_err()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_closed_under_a_running_call_takes_no_write() {
    let (lab, gate) = (Lab::new(), Gate::new());
    let (_provider, caller) = pair(&lab, &gate, LONG).await;
    let session = caller.open_session().unwrap();
    let running = tokio::spawn(caller.call::<()>("slow.detect", &()).session(&session).into_future());
    gate.someone_entered().await;
    session.close();
    gate.let_go(1);
    assert_eq!(code(running.await.unwrap()), ErrorCode::SessionExpired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_their_slots_are_bounded() {
    // FC-059
    let lab = Lab::new();
    let text = "session: { max_sessions: 2, max_bytes: 1KiB }";
    let config = Config::parse(text, "peers.yaml", lab.folder(), &|_| None).unwrap();
    let provider = lab.provider("provider").capability(add).start().await.unwrap();
    let builder = Node::from_config(&config).unwrap().node_id("caller").without_local_discovery();
    let builder = builder.development_ca(lab.folder().join("ca"));
    let caller = builder.peer("provider", &provider.address().unwrap().to_string()).start().await.unwrap();
    let (first, second) = (caller.open_session().unwrap(), caller.open_session().unwrap());
    let error = caller.open_session().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Overloaded);
    assert!(error.message().contains("`session.max_sessions`"), "{error}");
    second.close();
    caller.open_session().unwrap();
    assert_eq!(code(first.set("log", &"x".repeat(2000))), ErrorCode::TooLarge);
    first.set("log", &json!(["x".repeat(1000)])).unwrap();
    // An answer that would grow it past the limit writes nothing at all.
    let answer = caller.call::<Value>("notes.add", &json!({ "a": 1 })).session(&first).await;
    assert_eq!(code(answer), ErrorCode::TooLarge);
    assert_eq!(first.get::<Value>("facts").unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_sessions_that_nobody_closes_are_gone_after_their_timeout() {
    // FC-059
    let lab = Lab::new();
    let (provider, caller) = pair(&lab, &Gate::new(), Duration::from_secs(3)).await;
    caller.call::<Value>("nlu.read", &()).await.unwrap();
    let value = "x".repeat(4096);
    for _ in 0..10_000 {
        caller.open_session().unwrap().set("log", &value).unwrap();
    }
    assert!(gauge(&provider).await > 0, "they are counted");
    while gauge(&provider).await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    caller.call::<Value>("nlu.read", &()).await.unwrap();
}

/// How many sessions the caller says that it holds.
async fn gauge(provider: &Node) -> u64 {
    let facts: Value = provider.call("hermes.node", &()).to("caller").await.expect("the caller answers");
    facts["metrics"]["sessions"].as_u64().expect("a count")
}
