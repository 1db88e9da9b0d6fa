use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageType;
use tokio::time::advance;

use super::*;

fn table(change: impl FnOnce(&mut IdempotencySettings)) -> Arc<Idempotency> {
    let mut settings = IdempotencySettings::default();
    change(&mut settings);
    Arc::new(Idempotency::new(settings))
}

fn key(caller: &str, capability: &str, key: &str) -> CallKey {
    CallKey {
        caller: format!("agent://default/support/{caller}").parse().unwrap(),
        capability: capability.parse().unwrap(),
        key: key.into(),
    }
}

fn reply(body: &str) -> StoredReply {
    StoredReply {
        kind: MessageType::Response,
        envelope: Bytes::from_static(b"e"),
        body: body.to_owned().into(),
    }
}

fn begin(table: &Arc<Idempotency>, name: &str, body: &str) -> Result<Begin, KeyRefused> {
    table.begin(key("a", "demo.count", name), body.as_bytes(), false, Instant::now())
}

fn run(begun: Result<Begin, KeyRefused>) -> Run {
    match begun {
        Ok(Begin::Run(run)) => run,
        other => panic!("{other:?}"),
    }
}

fn wait(begun: Result<Begin, KeyRefused>) -> Wait {
    match begun {
        Ok(Begin::Wait(wait)) => wait,
        other => panic!("{other:?}"),
    }
}

fn replayed(begun: Result<Begin, KeyRefused>) -> StoredReply {
    match begun {
        Ok(Begin::Replay(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

fn refused(begun: Result<Begin, KeyRefused>) -> KeyRefused {
    begun.map(drop).unwrap_err()
}

#[tokio::test]
async fn one_key_runs_once_and_every_repeat_gets_the_first_reply() {
    // FC-047
    let table = table(|_| {});
    let first = run(begin(&table, "k", "1"));
    let waiting = [wait(begin(&table, "k", "1")), wait(begin(&table, "k", "1"))];
    first.replied(reply("one"));
    for waiting in waiting {
        assert_eq!(waiting.first().now_or_never(), Some(First::Replied(reply("one"))));
    }
    assert_eq!(replayed(begin(&table, "k", "1")), reply("one"));
    let counters = table.counters();
    assert_eq!((counters.misses, counters.waits, counters.hits), (1, 2, 1));
}

#[tokio::test]
async fn errors_are_replayed_like_results() {
    let table = table(|_| {});
    let failed = StoredReply { kind: MessageType::Error, ..reply("no") };
    run(begin(&table, "k", "1")).replied(failed.clone());
    assert_eq!(replayed(begin(&table, "k", "1")), failed);
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused_running_or_not() {
    // FC-049
    let table = table(|_| {});
    let first = run(begin(&table, "k", r#"{"n":1,"m":2}"#));
    assert_eq!(refused(begin(&table, "k", r#"{"n":2}"#)), KeyRefused::OtherInput);
    first.replied(reply("one"));
    let other = refused(begin(&table, "k", r#"{"n":2}"#));
    assert_eq!(other.code(), ErrorCode::InvalidInput);
    assert_eq!(
        refused(begin(&table, "k", r#"{"m":2, "n":1}"#)),
        KeyRefused::OtherInput,
        "another spelling is another body"
    );
    assert_eq!(table.counters().conflicts, 3);
    assert_eq!(replayed(begin(&table, "k", r#"{"n":1,"m":2}"#)), reply("one"), "the first is unharmed");
}

#[tokio::test]
async fn keys_of_other_agents_and_to_other_capabilities_are_other_keys() {
    // FC-049
    let table = table(|_| {});
    let mut running = Vec::new();
    for key in [key("a", "demo.count", "k"), key("b", "demo.count", "k"), key("a", "demo.other", "k")] {
        running.push(run(table.begin(key, b"1", false, Instant::now())));
    }
    assert_eq!(table.count(), 3);
}

#[tokio::test]
async fn a_handler_that_began_and_left_no_reply_is_an_unknown_outcome() {
    // FC-047
    let table = table(|_| {});
    let first = run(begin(&table, "k", "1"));
    let waiting = wait(begin(&table, "k", "1"));
    drop(first);
    assert_eq!(waiting.first().await, First::Unknown);
    let unknown = refused(begin(&table, "k", "1"));
    assert_eq!((unknown.code(), table.counters().unknown), (ErrorCode::OutcomeUnknown, 1));
}

#[tokio::test]
async fn an_idempotent_capability_runs_again_instead() {
    let table = table(|_| {});
    let first = run(table.begin(key("a", "demo.count", "k"), b"1", true, Instant::now()));
    let waiting = wait(begin(&table, "k", "1"));
    drop(first);
    assert_eq!(waiting.first().await, First::Again);
    run(begin(&table, "k", "1")).replied(reply("one"));
}

#[tokio::test]
async fn a_call_that_never_began_leaves_no_trace() {
    let table = table(|_| {});
    let first = run(begin(&table, "k", "1"));
    let waiting = wait(begin(&table, "k", "1"));
    first.never_began();
    assert_eq!(waiting.first().await, First::Again);
    assert_eq!(table.count(), 0);
    run(begin(&table, "k", "2")).replied(reply("two"));
}

#[tokio::test(start_paused = true)]
async fn replies_are_kept_for_their_time_and_running_calls_for_theirs() {
    let table = table(|_| {});
    let running = run(begin(&table, "running", "1"));
    run(begin(&table, "k", "1")).replied(reply("one"));
    advance(Duration::from_secs(600) - Duration::from_millis(1)).await;
    assert_eq!(replayed(begin(&table, "k", "1")), reply("one"));
    advance(Duration::from_millis(1)).await;
    run(begin(&table, "k", "2")).never_began();
    assert_eq!((table.count(), table.bytes()), (1, 0));
    wait(begin(&table, "running", "1"));
    drop(running);
}

#[tokio::test]
async fn past_the_count_the_oldest_answered_key_goes_and_running_ones_stay() {
    let table = table(|settings| settings.max_keys = 3);
    let running = run(begin(&table, "running", "1"));
    run(begin(&table, "old", "1")).replied(reply("old"));
    run(begin(&table, "new", "1")).replied(reply("new"));
    let more = [run(begin(&table, "more", "1"))];
    assert_eq!(replayed(begin(&table, "new", "1")), reply("new"));
    let and_more = run(begin(&table, "and-more", "1"));
    let full = refused(begin(&table, "too-many", "1"));
    assert_eq!((full.code(), table.count()), (ErrorCode::Overloaded, 3));
    assert_eq!(table.counters().evictions, 2);
    drop((running, more, and_more));
}

#[tokio::test]
async fn past_the_bytes_the_oldest_replies_go_but_do_not_run_again() {
    let table = table(|settings| settings.max_bytes = 12);
    run(begin(&table, "old", "1")).replied(reply("12345"));
    run(table.begin(key("a", "demo.count", "twice"), b"1", true, Instant::now())).replied(reply("12345"));
    assert_eq!(table.bytes(), 12);
    run(begin(&table, "new", "1")).replied(reply("1234567"));
    assert_eq!(table.bytes(), 8);
    assert_eq!(refused(begin(&table, "old", "1")), KeyRefused::OutcomeUnknown);
    drop(run(begin(&table, "twice", "1")));
    assert_eq!(replayed(begin(&table, "new", "1")), reply("1234567"));

    run(begin(&table, "huge", "1")).replied(reply("1234567890123"));
    assert_eq!((table.bytes(), table.counters().evictions), (8, 3));
    assert_eq!(refused(begin(&table, "huge", "1")), KeyRefused::OutcomeUnknown);
}
