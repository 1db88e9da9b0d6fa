//! Calls between nodes over real TLS: promise 1, every call ends in exactly one way.

use std::time::Duration;

use hermes_peer::CallError;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::capability;
use hermes_peer_tests::Lab;
use serde_json::Value;
use serde_json::json;

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: Value) -> Result<Value, Failure> {
    Ok(input)
}

/// Never answers.
#[capability("demo.sleep")]
async fn sleep() -> Result<(), Failure> {
    std::future::pending().await
}

/// Panics.
#[capability("demo.crash")]
async fn crash() -> Result<(), Failure> {
    panic!("on purpose")
}

/// Numbers from 1 to n.
#[capability("demo.count")]
async fn count(n: u32, _context: Context) -> Result<Items<u32>, Failure> {
    Ok(Items::from_iter(1..=n))
}

/// The sum of the items.
#[capability("demo.sum")]
async fn sum(mut items: Incoming<u64>) -> Result<u64, Failure> {
    let mut total = 0;
    while let Some(item) = items.next().await {
        total += item?;
    }
    Ok(total)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_gets_its_result() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(echo).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let answer: Value = caller.call("demo.echo", &json!({"hello": "mesh"})).await.unwrap();
    assert_eq!(answer, json!({"hello": "mesh"}));
    for size in [10, 10_000, 40_000, 1_000_000, 5_000_000] {
        let text = "x".repeat(size);
        let answer: String = caller.call("demo.echo", &text).await.unwrap();
        assert_eq!(answer, text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_come_in_order_and_the_end_is_told() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(count).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let mut items = caller.call("demo.count", &10_000).stream::<u32>().await.unwrap();
    let mut got = Vec::new();
    while let Some(item) = items.next().await {
        got.push(item.unwrap());
    }
    assert_eq!(got, (1..=10_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_can_be_sent_to_a_handler() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(sum).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let (sender, mut replies) = caller.call("demo.sum", &()).exchange::<u64, u64>().await.unwrap();
    for item in 1..=1000 {
        sender.send(&item).await.unwrap();
    }
    sender.finish();
    assert_eq!(replies.next().await.unwrap().unwrap(), 500_500);
    assert!(replies.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_its_code() {
    let lab = Lab::new();
    let builder =
        lab.provider("provider").capability(echo).capability(sleep).capability(crash).capability(count);
    let provider = builder.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let code = |result: Result<Value, CallError>| result.unwrap_err().code();
    assert_eq!(code(caller.call("demo.nope", &()).await), ErrorCode::NotFound);
    assert_eq!(code(caller.call("demo.crash", &()).await), ErrorCode::HandlerPanicked);
    assert_eq!(code(caller.call("demo.count", "three").await), ErrorCode::InvalidInput);
    assert_eq!(code(caller.call("no name", &()).await), ErrorCode::InvalidInput);
    let short = caller.call::<Value>("demo.sleep", &()).timeout(Duration::from_millis(100)).await;
    assert_eq!(code(short), ErrorCode::DeadlineExceeded);
    assert_eq!(
        code(caller.call("demo.echo", &()).timeout(Duration::ZERO).await),
        ErrorCode::DeadlineExceeded
    );
    // And the link is as good as before.
    let answer: Value = caller.call("demo.echo", &1).await.unwrap();
    assert_eq!(answer, json!(1));
}
