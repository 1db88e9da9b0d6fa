//! Promise 1 where one handler calls another: a deadline, a cancel and the way of a call reach through all hops.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::HandlerLimits;
use hermes_peer::Node;
use hermes_peer::handler;
use hermes_peer_tests::Gauge;
use hermes_peer_tests::Lab;
use hermes_peer_tests::ending;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::sleeper;
use hermes_peer_tests::until;
use serde_json::Value;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Calls another capability, and says nothing of time in it.
fn relay(name: &str, next: &'static str, gauge: &Gauge) -> impl Capability + use<> {
    let gauge = gauge.clone();
    handler(name, move |input: Value, context: Context| {
        let at_work = gauge.begin();
        async move {
            let _at_work = at_work;
            Ok::<Value, Failure>(context.call(next, &input).await?)
        }
    })
    .unwrap()
}

/// `a → b → c`: `a.…` calls `chain.b`, which calls `demo.sleep` at c.
async fn chain(lab: &Lab) -> (Node, Node, Node, Gauge, Gauge) {
    let (at_b, at_c) = (Gauge::default(), Gauge::default());
    let c = lab.provider("c").capability(sleeper(&at_c)).start().await.unwrap();
    let b = lab.provider("b").peer("c", &endpoint(&c)).capability(relay("chain.b", "demo.sleep", &at_b));
    let b = b.start().await.unwrap();
    let a = lab.caller_of("a", &b).start().await.unwrap();
    (a, b, c, at_b, at_c)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_stops_the_handlers_hop_by_hop() {
    // FC-040
    let lab = Lab::new();
    let (a, _b, _c, at_b, at_c) = chain(&lab).await;
    for round in 1..=3 {
        let call = tokio::spawn(a.call::<Value>("chain.b", &()).into_future());
        until("both work", 5 * SECOND, || at_c.running() == 1).await;
        call.abort();
        until("both stop", SECOND, || at_b.running() + at_c.running() == 0).await;
        assert_eq!((at_b.begun(), at_c.begun()), (round, round));
    }
    // Its process gone, not only its future.
    let call = tokio::spawn(a.call::<Value>("chain.b", &()).into_future());
    until("both work", 5 * SECOND, || at_c.running() == 1).await;
    drop(a);
    call.abort();
    until("both stop", SECOND, || at_b.running() + at_c.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_is_one_budget_through_all_hops() {
    // FC-044
    let lab = Lab::new();
    let (a, _b, _c, at_b, at_c) = chain(&lab).await;
    let begun = Instant::now();
    let error = ending(a.call("chain.b", &()).timeout(SECOND)).await.unwrap_err();
    let took = begun.elapsed();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(took >= Duration::from_millis(990) && took < Duration::from_millis(1300), "{took:?}");
    until("both stop", SECOND / 2, || at_b.running() + at_c.running() == 0).await;
    assert_eq!(at_c.begun(), 1);
    for zero in [Duration::ZERO, Duration::from_nanos(1)] {
        let error = ending(a.call("chain.b", &()).timeout(zero)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    }
    assert_eq!(at_c.begun(), 1, "without time no handler runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_asks_for_is_cut_to_what_is_left() {
    // FC-044
    let lab = Lab::new();
    let left =
        |_: (), context: Context| async move { Ok::<_, Failure>(context.time_left().as_millis() as u64) };
    let c = lab.provider("c").capability(handler("chain.left", left).unwrap()).start().await.unwrap();
    let slow = |_: (), context: Context| async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        Ok::<u64, Failure>(context.call("chain.left", &()).timeout(10 * SECOND).await?)
    };
    let b = lab.provider("b").peer("c", &endpoint(&c)).capability(handler("chain.slow", slow).unwrap());
    let b = b.start().await.unwrap();
    b.wait_for("chain.left", 5 * SECOND).await.unwrap();
    let a = lab.caller_of("a", &b).start().await.unwrap();
    let left: u64 = a.call("chain.slow", &()).timeout(SECOND).await.unwrap();
    assert!((1..=300).contains(&left), "{left} ms");
}

/// Two nodes linked to each other, each with a capability that calls the other's until nothing is left.
async fn ping_pong(lab: &Lab, reentrant: bool, limits: HandlerLimits) -> (Node, Node, Gauge) {
    let gauge = Gauge::default();
    let step = |name: &str, next: &'static str| {
        let gauge = gauge.clone();
        handler(name, move |left: u32, context: Context| {
            let at_work = gauge.begin();
            async move {
                let _at_work = at_work;
                let deeper: u32 = if left == 0 { 0 } else { context.call(next, &(left - 1)).await? };
                Ok::<u32, Failure>(deeper + 1)
            }
        })
        .unwrap()
        .limits(limits)
        .with_info(|info| info.facts.reentrant = reentrant)
    };
    let a = lab.provider("a").capability(step("ping.a", "ping.b")).start().await.unwrap();
    let b = lab.provider("b").capability(step("ping.b", "ping.a")).peer("a", &endpoint(&a));
    let b = b.start().await.unwrap();
    until("they know each other", 5 * SECOND, || a.capabilities().len() + b.capabilities().len() == 2).await;
    (a, b, gauge)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_calls_go_as_deep_as_documented_and_no_deeper() {
    // FC-074
    let lab = Lab::new();
    let (a, _b, gauge) = ping_pong(&lab, true, HandlerLimits::default()).await;
    for depth in [1, 10, 15] {
        assert_eq!(a.call::<u32>("ping.b", &depth).await.unwrap(), depth + 1);
    }
    let begun = gauge.begun();
    let error = a.call::<u32>("ping.b", &30).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::LoopDetected, "{error}");
    assert!(gauge.begun() - begun <= 17, "{}", gauge.begun() - begun);
    until("all handlers end", SECOND, || gauge.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_back_is_refused_with_its_way() {
    // FC-074
    let lab = Lab::new();
    for limit in [1, 1000] {
        let limits = HandlerLimits::default().concurrency(limit);
        let (a, b, gauge) = ping_pong(&lab, false, limits).await;
        let begun = Instant::now();
        let error = a.call::<u32>("ping.b", &9).timeout(20 * SECOND).await.unwrap_err();
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        assert_eq!(error.code(), ErrorCode::LoopDetected, "{error}");
        assert!(error.message().contains("ping.b@b → ping.a@a → ping.b@b"), "{error}");
        assert_eq!(gauge.begun(), 2);
        drop((a, b));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_calls_itself_in_a_circle_is_refused() {
    // FC-074
    let lab = Lab::new();
    let gauge = Gauge::default();
    let node = lab.provider("a").capability(relay("self.ask", "self.ask", &gauge)).start().await.unwrap();
    let error = ending(node.call("self.ask", &())).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::LoopDetected, "{error}");
    assert_eq!(gauge.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_ring_of_single_workers_ends_before_its_deadline() {
    // FC-074
    let lab = Lab::new();
    let limits = HandlerLimits::default().concurrency(1).queue(0);
    let (a, _b, gauge) = ping_pong(&lab, true, limits).await;
    let begun = Instant::now();
    let error = a.call::<u32>("ping.b", &9).timeout(20 * SECOND).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Overloaded, "{error}");
    assert!(begun.elapsed() < SECOND && gauge.begun() == 2);
    until("all handlers end", SECOND, || gauge.running() == 0).await;
}
