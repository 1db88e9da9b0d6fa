//! Promise 3 within one process's life: a call with a key runs its handler once, and a repeat gets the first answer.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer::Body;
use hermes_peer::CallError;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::ReplyPart;
use hermes_peer::capability;
use hermes_peer_tests::Gate;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use serde_json::Value;
use serde_json::json;

/// How often handlers ran, and what they wait for.
struct Runs {
    count: AtomicU32,
    gate: Arc<Gate>,
}

impl Runs {
    fn new() -> Arc<Self> {
        Arc::new(Self { count: AtomicU32::new(0), gate: Gate::new() })
    }

    fn add(&self) -> u32 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn so_far(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
}

/// Counts its runs.
#[capability("demo.count")]
async fn count(_input: Value, context: Context) -> Result<Value, Failure> {
    let run = context.state::<Arc<Runs>>()?.add();
    Ok(json!({ "run": run, "at": format!("{:?}", std::time::Instant::now()) }))
}

/// Counts its runs as well.
#[capability("demo.other")]
async fn other(_input: Value, context: Context) -> Result<u32, Failure> {
    Ok(context.state::<Arc<Runs>>()?.add())
}

/// Counts its runs, and ends when it may.
#[capability("demo.slow")]
async fn slow(context: Context) -> Result<u32, Failure> {
    let runs = context.state::<Arc<Runs>>()?;
    let run = runs.add();
    runs.gate.pass().await;
    Ok(run)
}

/// Counts its runs, and panics.
#[capability("demo.crash")]
async fn crash(context: Context) -> Result<u32, Failure> {
    context.state::<Arc<Runs>>()?.add();
    panic!("on purpose")
}

/// Counts its runs, and panics at the first; it may run again.
#[capability("demo.again", idempotent)]
async fn again(context: Context) -> Result<u32, Failure> {
    let run = context.state::<Arc<Runs>>()?.add();
    assert!(run > 1, "on purpose");
    Ok(run)
}

/// Counts its runs, and fails.
#[capability("demo.fail")]
async fn fail(context: Context) -> Result<u32, Failure> {
    let run = context.state::<Arc<Runs>>()?.add();
    Err(Failure::with_code(ErrorCode::RateLimited, format!("run {run}")))
}

/// Counts its runs, and streams.
#[capability("demo.items")]
async fn items(context: Context) -> Result<Items<u32>, Failure> {
    context.state::<Arc<Runs>>()?.add();
    Ok(Items::from_iter(1..=3))
}

/// Counts its runs, and writes a slot.
#[capability("demo.slot", writes = ["runs"])]
async fn slot(context: Context) -> Result<u32, Failure> {
    let run = context.state::<Arc<Runs>>()?.add();
    context.set_slot("runs", &run)?;
    Ok(run)
}

async fn pair(lab: &Lab, runs: &Arc<Runs>) -> (Node, Node) {
    let builder = lab.provider("provider").capability(count).capability(other).capability(slow);
    let builder =
        builder.capability(crash).capability(again).capability(fail).capability(items).capability(slot);
    let provider = builder.state(runs.clone()).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    (provider, caller)
}

/// The answer's bytes as they came.
async fn bytes_of(node: &Node, capability: &str, json: &'static str, key: &str) -> Body {
    let mut parts = node.call_json(capability, json).idempotency_key(key).parts().await.unwrap();
    match parts.next().await.unwrap().unwrap() {
        ReplyPart::End(Some(body)) => body,
        other => panic!("{other:?}"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> ErrorCode {
    result.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_runs_its_handler_once_and_a_repeat_gets_the_same_bytes() {
    // FC-047
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    let first = bytes_of(&caller, "demo.count", r#"{"n":1}"#, "k").await;
    for _ in 0..20 {
        assert_eq!(bytes_of(&caller, "demo.count", r#"{"n":1}"#, "k").await, first);
    }
    assert_eq!(runs.so_far(), 1);
    let other = bytes_of(&caller, "demo.count", r#"{"n":1}"#, "k2").await;
    assert_ne!(other, first, "another key is another call");
    caller.call_json::<Value>("demo.count", r#"{"n":1}"#).await.unwrap();
    caller.call_json::<Value>("demo.count", r#"{"n":1}"#).await.unwrap();
    assert_eq!(runs.so_far(), 4, "without a key each call runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_outlives_the_process_that_used_it_first() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (provider, caller) = pair(&lab, &runs).await;
    let first = bytes_of(&caller, "demo.count", "1", "k").await;
    caller.shutdown().await;
    // The same agent, restarted, over another link and another node id.
    let restarted = lab.caller_of("caller", &provider).node_id("caller-02").start().await.unwrap();
    assert_eq!(bytes_of(&restarted, "demo.count", "1", "k").await, first);
    assert_eq!(runs.so_far(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_with_another_input_is_refused_and_runs_nothing() {
    // FC-049
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    bytes_of(&caller, "demo.count", r#"{"n":1}"#, "k").await;
    // As documented: the same value in another spelling is another input.
    for body in [r#"{"n":2}"#, r#"{ "n": 1 }"#] {
        let error = caller.call_json::<Value>("demo.count", body).idempotency_key("k").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidInput);
        assert!(error.message().contains("used with a different input"), "{error}");
    }
    assert_eq!(runs.so_far(), 1);
    assert_eq!(
        bytes_of(&caller, "demo.count", r#"{"n":1}"#, "k").await.content_type,
        Body::json("").content_type
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_other_agents_and_capabilities_are_other_keys() {
    // FC-049
    let (lab, runs) = (Lab::new(), Runs::new());
    let (provider, caller) = pair(&lab, &runs).await;
    let stranger = lab.caller_of("stranger", &provider).start().await.unwrap();
    let first: Value = caller.call("demo.count", &1).idempotency_key("k").await.unwrap();
    let second: Value = stranger.call("demo.count", &1).idempotency_key("k").await.unwrap();
    let third: u32 = caller.call("demo.other", &1).idempotency_key("k").await.unwrap();
    assert_eq!((&first["run"], &second["run"], third), (&json!(1), &json!(2), 3));
    // Even with another input, which under the same key would be refused.
    let fourth: u32 = stranger.call("demo.other", &2).idempotency_key("k").await.unwrap();
    assert_eq!(fourth, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_key_at_the_same_time_run_once_and_all_get_the_answer() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(caller.call::<u32>("demo.slow", &()).idempotency_key("k").into_future()))
        .collect();
    runs.gate.someone_entered().await;
    // All fifty have arrived when a later call on the same link has been answered.
    caller.call::<Value>("demo.count", &()).await.unwrap();
    runs.gate.let_go(50);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
    assert_eq!(runs.so_far(), 2, "one run of each capability");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_began_and_left_no_answer_is_never_run_again_in_silence() {
    // FC-047
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    let crash = || caller.call::<u32>("demo.crash", &()).idempotency_key("k").into_future();
    assert_eq!(code(crash().await), ErrorCode::HandlerPanicked);
    for _ in 0..3 {
        let error = crash().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutcomeUnknown);
        assert!(!error.is_retryable());
    }
    assert_eq!(runs.so_far(), 1);
    // A deadline in the middle is no answer either.
    let late =
        caller.call::<u32>("demo.slow", &()).idempotency_key("late").timeout(Duration::from_millis(300));
    assert_eq!(code(late.await), ErrorCode::DeadlineExceeded);
    let repeat = caller.call::<u32>("demo.slow", &()).idempotency_key("late").timeout(Duration::from_secs(5));
    assert_eq!(code(repeat.await), ErrorCode::OutcomeUnknown);
    assert_eq!(runs.so_far(), 2);
    // A stream is not kept.
    let stream = || caller.call("demo.items", &()).idempotency_key("s").stream::<u32>();
    let mut first = stream().await.unwrap();
    while let Some(item) = first.next().await {
        item.unwrap();
    }
    assert_eq!(code(stream().await.unwrap().next().await.unwrap()), ErrorCode::OutcomeUnknown);
    assert_eq!(runs.so_far(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_declared_idempotent_runs_again_where_the_first_left_no_answer() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    let again = || caller.call::<u32>("demo.again", &()).idempotency_key("k").into_future();
    assert_eq!(code(again().await), ErrorCode::HandlerPanicked);
    assert_eq!(again().await.unwrap(), 2);
    assert_eq!(again().await.unwrap(), 2, "and that answer is kept");
    assert_eq!(runs.so_far(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_a_handler_gave_is_an_answer_like_any() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    for _ in 0..3 {
        let error = caller.call::<u32>("demo.fail", &()).idempotency_key("k").await.unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::RateLimited, "run 1"));
    }
    assert_eq!(runs.so_far(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_have_one_to_255_bytes_of_anything() {
    // FC-049
    let (lab, runs) = (Lab::new(), Runs::new());
    let (_provider, caller) = pair(&lab, &runs).await;
    for key in ["".to_owned(), "k".repeat(256), "k".repeat(100_000), "ü".repeat(128)] {
        let error = caller.call::<u32>("demo.other", &1).idempotency_key(key).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidInput);
        assert!(error.message().contains("1 to 255 bytes"), "{error}");
    }
    assert_eq!(runs.so_far(), 0);
    for key in ["k".to_owned(), "k".repeat(255), "line\nend \u{0} ü".to_owned()] {
        for _ in 0..2 {
            caller.call::<u32>("demo.other", &1).idempotency_key(&key).await.unwrap();
        }
    }
    assert_eq!(runs.so_far(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyed_call_to_the_node_itself_runs_once_too() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (provider, caller) = pair(&lab, &runs).await;
    for _ in 0..3 {
        assert_eq!(provider.call::<u32>("demo.other", &1).idempotency_key("k").await.unwrap(), 1);
    }
    assert_eq!(caller.call::<u32>("demo.other", &1).idempotency_key("k").await.unwrap(), 2);
    assert_eq!(runs.so_far(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_slots_are_part_of_the_answer_that_is_kept() {
    let (lab, runs) = (Lab::new(), Runs::new());
    let (provider, caller) = pair(&lab, &runs).await;
    let session = caller.open_session().unwrap();
    let call = || caller.call::<u32>("demo.slot", &()).session(&session).idempotency_key("k").into_future();
    assert_eq!(call().await.unwrap(), 1);
    assert_eq!(session.get::<u32>("runs").unwrap(), Some(1));
    // The repeat of an answer that was lost on its way brings the write as well.
    let later = lab.builder("caller").node_id("caller-02").peer("provider", &endpoint(&provider));
    let later = later.start().await.unwrap();
    let session = later.open_session().unwrap();
    let answer = later.call::<u32>("demo.slot", &()).session(&session).idempotency_key("k").await;
    assert_eq!(answer.unwrap(), 1);
    assert_eq!(session.get::<u32>("runs").unwrap(), Some(1));
    assert_eq!(runs.so_far(), 1);
}
