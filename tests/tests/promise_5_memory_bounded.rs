//! Promise 5: memory is bounded, whatever the other side does or leaves undone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::capability;
use hermes_peer::handler;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::raw::Raw;
use hermes_peer_tests::raw::request;
use hermes_peer_tests::resident_bytes;
use hermes_peer_tests::until;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Items of 4 KiB without an end; how many were made is counted.
fn flood(made: &Arc<AtomicU64>) -> impl Capability + use<> {
    let made = made.clone();
    handler("demo.flood", move |(): (), _context: Context| {
        let made = made.clone();
        async move {
            let items = std::iter::repeat_with(move || {
                made.fetch_add(1, Ordering::SeqCst);
                "x".repeat(4096 - 2)
            });
            Ok::<Items<String>, Failure>(Items::from_iter(items))
        }
    })
    .unwrap()
}

/// Text of this many bytes.
#[capability("demo.blob")]
async fn blob(bytes: usize) -> Result<String, Failure> {
    Ok("x".repeat(bytes))
}

/// Takes text.
#[capability("demo.take")]
async fn take(text: String) -> Result<usize, Failure> {
    Ok(text.len())
}

/// Reads nothing of what it is sent.
#[capability("demo.deaf")]
async fn deaf(_items: Incoming<String>) -> Result<(), Failure> {
    std::future::pending().await
}

/// Waits until a count has stood still for half a second.
async fn comes_to_rest(count: &AtomicU64) -> u64 {
    let (mut last, mut since) = (0, Instant::now());
    until("the flood stops", 15 * SECOND, || {
        let now = count.load(Ordering::SeqCst);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        now > 0 && since.elapsed() > SECOND / 2
    })
    .await;
    last
}

/// A node and what linking it took, so that what follows is measured alone.
async fn linked(lab: &Lab, provider: &Node) -> Node {
    let caller = lab.caller_of("caller", provider).start().await.unwrap();
    caller.wait_for("demo.take", 5 * SECOND).await.unwrap();
    caller.call::<usize>("demo.take", "warm").await.unwrap();
    caller
}

fn grown_by_less_than(limit: u64, before: Option<u64>, what: &str) {
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown < limit, "{what}: {} MiB more", grown / MIB);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_stops_its_senders() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU64::new(0));
    let builder = lab.provider("provider").capability(flood(&made)).capability(take);
    let provider = builder.start().await.unwrap();
    // Such as never reads from its socket.
    let before = resident_bytes();
    let mut raw = Raw::dial(&lab.raw("raw"), &endpoint(&provider)).await;
    for n in 0..50 {
        raw.send(&request(2 * n + 1, "demo.flood", "null", true)).await;
    }
    let held = comes_to_rest(&made).await * 4 * KIB;
    // A link's window, and what each stream may be ahead of it.
    assert!(held < 24 * MIB, "{} MiB were made for nobody", held / MIB);
    grown_by_less_than(64 * MIB, before, "for a peer that never reads");
    let caller = linked(&lab, &provider).await;
    assert_eq!(caller.call::<usize>("demo.take", "abc").await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_takes_no_items_and_a_handler_that_takes_none_hold_a_window_each() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU64::new(0));
    let builder = lab.provider("provider").capability(flood(&made)).capability(take).capability(deaf);
    let provider = builder.start().await.unwrap();
    let caller = linked(&lab, &provider).await;
    let mut replies = Vec::new();
    for _ in 0..8 {
        replies.push(caller.call("demo.flood", &()).stream::<String>().await.unwrap());
    }
    let held = comes_to_rest(&made).await * 4 * KIB;
    assert!(held < 24 * MIB, "{} MiB were made for nobody", held / MIB);
    let (sender, _answer) = caller.call("demo.deaf", &()).exchange::<String, ()>().await.unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = sent.clone();
    let sending = tokio::spawn(async move {
        let item = "x".repeat(4094);
        while sender.send(&item).await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let held = comes_to_rest(&sent).await * 4 * KIB;
    assert!(held < 8 * MIB, "{} MiB were sent to nobody", held / MIB);
    // Full streams stand in no other call's way.
    let begun = Instant::now();
    assert_eq!(caller.call::<usize>("demo.take", "abc").await.unwrap(), 3);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    sending.abort();
    drop(replies);
    // And with them gone their windows are back.
    let text = "x".repeat(10_000_000);
    assert_eq!(caller.call::<usize>("demo.take", &text).await.unwrap(), text.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_big_calls_given_up_leave_the_link_as_it_was() {
    // FC-035
    let lab = Lab::new();
    let made = Arc::new(AtomicU64::new(0));
    let builder = lab.provider("provider").capability(flood(&made)).capability(blob).capability(take);
    let provider = builder.start().await.unwrap();
    let caller = linked(&lab, &provider).await;
    // Twice what a stream may carry at first.
    let big = MIB / 2;
    let text = "x".repeat(usize::try_from(big).unwrap());
    let time_both_ways = async || {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            assert_eq!(caller.call::<String>("demo.blob", &big).await.unwrap().len(), text.len());
            assert_eq!(caller.call::<usize>("demo.take", &text).await.unwrap(), text.len());
            best = best.min(begun.elapsed());
        }
        best
    };
    let before = time_both_ways().await;
    let memory = resident_bytes();
    for round in 0..500_u64 {
        match round % 4 {
            // Left after the first item.
            0 => {
                let mut items = caller.call("demo.flood", &()).stream::<String>().await.unwrap();
                items.next().await.unwrap().unwrap();
            }
            // Left while the answer comes, while the request goes, and at the deadline.
            1 => {
                let call = caller.call::<String>("demo.blob", &big).into_future();
                let _left = tokio::time::timeout(Duration::from_micros(1_000 + 37 * round), call).await;
            }
            2 => {
                let call = caller.call::<usize>("demo.take", &text).into_future();
                let _left = tokio::time::timeout(Duration::from_micros(20 * round), call).await;
            }
            _ => {
                let call =
                    caller.call::<usize>("demo.take", &text).timeout(Duration::from_micros(500 + 20 * round));
                let _late = call.await;
            }
        }
    }
    let after = time_both_ways().await;
    assert!(after < 3 * before + SECOND / 4, "{before:?} before, {after:?} after");
    grown_by_less_than(96 * MIB, memory, "after 500 calls given up");
    // The link's window lets as much through as ever: 16 MiB are two of it.
    let calls: Vec<_> =
        (0..32).map(|_| tokio::spawn(caller.call::<String>("demo.blob", &big).into_future())).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().len(), text.len());
    }
    assert_eq!(caller.peers()[0].state, hermes_peer::LinkState::Linked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_or_a_request_over_the_limit_is_refused_by_its_sender_and_the_link_lives() {
    let lab = Lab::new();
    let provider = lab.provider("provider").max_message(100_000).capability(blob).capability(take);
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).max_message(200_000).start().await.unwrap();
    let code = |error: hermes_peer::CallError| error.code();
    let text = "x".repeat(150_000);
    let refused = caller.call::<usize>("demo.take", &text).await.map_err(code);
    assert_eq!(refused, Err(hermes_peer::ErrorCode::TooLarge));
    let refused = caller.call::<String>("demo.blob", &250_000).await.map_err(code);
    assert_eq!(refused, Err(hermes_peer::ErrorCode::TooLarge));
    assert_eq!(caller.call::<String>("demo.blob", &150_000).await.unwrap().len(), 150_000);
}
