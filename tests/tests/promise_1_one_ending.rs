//! Promise 1: every call ends in exactly one way: a result, a typed error, or its deadline. None hangs, and a cut stream is
//! an error, never a short success.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::future::pending;
use std::time::Duration;

use hermes_peer::Call;
use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::HandlerLimits;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Replies;
use hermes_peer::capability;
use hermes_peer::handler;
use hermes_peer_tests::Gauge;
use hermes_peer_tests::Lab;
use hermes_peer_tests::Victim;
use hermes_peer_tests::ending;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::sleeper;
use hermes_peer_tests::until;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);
/// What has not ended by then hangs.
const NEVER: Duration = Duration::from_secs(25);

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: Value) -> Result<Value, Failure> {
    Ok(input)
}

/// Panics.
#[capability("demo.crash")]
async fn crash() -> Result<(), Failure> {
    panic!("on purpose")
}

/// Panics after it has waited, in a task of its own.
#[capability("demo.crash_later")]
async fn crash_later() -> Result<(), Failure> {
    tokio::task::yield_now().await;
    panic!("on purpose")
}

/// Fails.
#[capability("demo.fail")]
async fn fail() -> Result<(), Failure> {
    Err(Failure::new("no such ticket"))
}

/// Leaves its work to a task that somebody aborts.
#[capability("demo.lose_task")]
async fn lose_task() -> Result<(), Failure> {
    let task = tokio::spawn(pending::<()>());
    task.abort();
    Ok(task.await?)
}

/// Hands out items, then panics.
#[capability("demo.crash_in_stream")]
async fn crash_in_stream(after: u32) -> Result<Items<u32>, Failure> {
    Ok(Items::from_iter((0..=after).inspect(move |item| assert!(*item < after, "on purpose"))))
}

/// Hands out items, then fails.
#[capability("demo.fail_in_stream")]
async fn fail_in_stream(after: u32) -> Result<Items<u32>, Failure> {
    let (sender, items) = Items::channel(1);
    tokio::spawn(async move {
        for item in 0..after {
            sender.send(item).await;
        }
        sender.fail(Failure::new("the model has gone")).await;
    });
    Ok(items)
}

/// Hands out items, then nothing for ever.
#[capability("demo.stall_in_stream")]
async fn stall_in_stream(after: u32) -> Result<Items<u32>, Failure> {
    let (sender, items) = Items::channel(1);
    tokio::spawn(async move {
        for item in 0..after {
            sender.send(item).await;
        }
        pending::<()>().await;
        drop(sender);
    });
    Ok(items)
}

/// Adds up.
#[capability("demo.sum")]
async fn sum(mut items: Incoming<u64>) -> Result<u64, Failure> {
    let mut total = 0;
    while let Some(item) = items.next().await {
        total += item?;
    }
    Ok(total)
}

/// Answers each item, slowly.
#[capability("demo.double")]
async fn double(mut items: Incoming<u64>) -> Result<Items<u64>, Failure> {
    let (sender, answers) = Items::channel(1);
    tokio::spawn(async move {
        while let Some(Ok(item)) = items.next().await {
            sender.send(2 * item).await;
        }
    });
    Ok(answers)
}

/// Reads three items and answers.
#[capability("demo.first_three")]
async fn first_three(fails: bool, mut items: Incoming<u64>) -> Result<u64, Failure> {
    let mut total = 0;
    for _ in 0..3 {
        total += items.next().await.ok_or_else(|| Failure::new("fewer than three"))??;
    }
    if fails { Err(Failure::new("three are enough")) } else { Ok(total) }
}

async fn code_of(call: Call<Value>) -> ErrorCode {
    ending(call).await.unwrap_err().code()
}

/// All items, and how the stream ended.
async fn drain(mut items: Replies<u32>) -> (Vec<u32>, Option<CallError>) {
    let mut got = Vec::new();
    loop {
        match timeout(NEVER, items.next()).await.expect("a stream ends") {
            None => return (got, None),
            Some(Ok(item)) => got.push(item),
            Some(Err(error)) => {
                assert!(
                    timeout(NEVER, items.next()).await.unwrap().is_none(),
                    "nothing comes after an error"
                );
                return (got, Some(error));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_handler_does_its_call_ends_and_the_link_lives() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let provider = lab
        .provider("provider")
        .capability(echo)
        .capability(crash)
        .capability(crash_later)
        .capability(fail)
        .capability(lose_task)
        .capability(sleeper(&gauge));
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(ending(caller.call("demo.echo", &7)).await.unwrap(), json!(7));
        assert_eq!(code_of(caller.call("demo.crash", &())).await, ErrorCode::HandlerPanicked);
        assert_eq!(code_of(caller.call("demo.crash_later", &())).await, ErrorCode::HandlerPanicked);
        let failed = ending(caller.call("demo.fail", &())).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (ErrorCode::HandlerFailed, "no such ticket"));
        assert_eq!(code_of(caller.call("demo.lose_task", &())).await, ErrorCode::HandlerFailed);
        let late = caller.call("demo.sleep", &()).timeout(Duration::from_millis(50));
        assert_eq!(code_of(late).await, ErrorCode::DeadlineExceeded);
    }
    until("handlers stop at their deadline", SECOND, || gauge.running() == 0).await;
    let linked_for = caller.peers()[0].linked_for_s;
    assert!(linked_for.is_some(), "one link through it all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_its_handler_cuts_ends_in_an_error_after_its_items() {
    let lab = Lab::new();
    let provider = lab
        .provider("provider")
        .capability(echo)
        .capability(crash_in_stream)
        .capability(fail_in_stream)
        .capability(stall_in_stream);
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    for (capability, code) in [
        ("demo.crash_in_stream", ErrorCode::HandlerPanicked),
        ("demo.fail_in_stream", ErrorCode::HandlerFailed),
        ("demo.stall_in_stream", ErrorCode::DeadlineExceeded),
    ] {
        for after in [0, 1, 5, 300] {
            let items = caller.call(capability, &after).timeout(Duration::from_millis(500));
            let (got, error) = drain(items.stream().await.unwrap()).await;
            let error = error.unwrap_or_else(|| panic!("{capability} after {after}: a short success"));
            assert_eq!(error.code(), code, "{capability} after {after}: {error}");
            // An error may overtake items that wait; never is there a gap among those that come.
            assert_eq!(got, (0..after).take(got.len()).collect::<Vec<_>>(), "{capability}");
            assert_eq!(ending(caller.call("demo.echo", &1)).await.unwrap(), json!(1), "{capability}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_killed_ends_its_calls_and_streams_in_errors() {
    let lab = Lab::new();
    for version in [1, 2] {
        let gauge = Gauge::default();
        let builder = lab.provider("provider").versions(1, version);
        let provider = Victim::start(builder.capability(sleeper(&gauge)).capability(stall_in_stream)).await;
        let caller = lab.caller_of("caller", provider.node()).start().await.unwrap();
        let mut items =
            caller.call("demo.stall_in_stream", &5).timeout(5 * SECOND).stream::<u32>().await.unwrap();
        assert_eq!(items.next().await.unwrap().unwrap(), 0);
        let sleeping = tokio::spawn(ending(caller.call("demo.sleep", &()).timeout(5 * SECOND)));
        until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
        let killed = Instant::now();
        provider.kill();
        let error = sleeping.await.unwrap().unwrap_err();
        let (got, cut) = drain(items).await;
        // In version 1 at once; in version 2 the link could go on, so it is the deadline at the latest.
        let expected = if version == 1 { ErrorCode::Unavailable } else { ErrorCode::DeadlineExceeded };
        assert_eq!(error.code(), expected, "version {version}: {error}");
        assert!(error.may_have_run(), "version {version}: {error}");
        assert_eq!(cut.expect("a cut stream is no short success").code(), expected, "version {version}");
        assert!(got.len() <= 4);
        let patience = if version == 1 { SECOND } else { 6 * SECOND };
        assert!(killed.elapsed() < patience, "version {version}: {:?}", killed.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_dropped_ends_its_calls_at_once() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let builder = lab.provider("provider").capability(sleeper(&gauge)).capability(stall_in_stream);
    let provider = builder.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let items = caller.call("demo.stall_in_stream", &5).stream::<u32>().await.unwrap();
    let sleeping = tokio::spawn(ending(caller.call("demo.sleep", &())));
    until("the handler runs", 5 * SECOND, || gauge.running() == 1).await;
    let dropped = Instant::now();
    drop(provider);
    let error = sleeping.await.unwrap().unwrap_err();
    assert!(drain(items).await.1.is_some(), "a cut stream is no short success");
    assert!(dropped.elapsed() < 2 * SECOND, "{error} after {:?}", dropped.elapsed());
    until("the handler is gone", SECOND, || gauge.running() == 0).await;
}

/// Doubles as a sign of where it is.
fn named(name: &str) -> impl Capability + use<> {
    handler(name, |n: u64, _context: Context| async move { Ok::<u64, Failure>(n) }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_call_waits_for_what_a_new_link_says() {
    let lab = Lab::new();
    let mut providers = Vec::new();
    for n in 0..4 {
        let builder = lab.provider(&format!("provider-{n}")).capability(named(&format!("demo.n{n}")));
        providers.push(builder.start().await.unwrap());
    }
    for round in 0..15 {
        let mut builder = lab.builder(&format!("caller-{round}"));
        for provider in &providers {
            builder = builder.peer(provider.id().as_str(), &endpoint(provider));
        }
        let caller = builder.start().await.unwrap();
        for n in 0..4 {
            let got: Result<u64, _> = caller.call(&format!("demo.n{n}"), &round).await;
            assert_eq!(got.unwrap_or_else(|error| panic!("round {round}, {n}: {error}")), round);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_a_stream_stops_it_even_between_two_items() {
    // FC-040
    let lab = Lab::new();
    let gauge = Gauge::default();
    let counted = gauge.clone();
    let talk = handler("demo.talk", move |wait: bool, _context: Context| {
        let at_work = counted.begin();
        async move {
            if wait {
                tokio::task::yield_now().await;
            }
            let items = futures_util::stream::unfold((at_work, 1), |(at_work, word)| async move {
                if word > 1 {
                    // A model that thinks for long before its second word.
                    pending::<()>().await;
                }
                Some((Ok(word), (at_work, word + 1)))
            });
            Ok::<Items<u32>, Failure>(Items::from_stream(items))
        }
    })
    .unwrap();
    let provider = lab.provider("provider").capability(talk).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    for wait in [false, true] {
        let mut items = caller.call("demo.talk", &wait).stream::<u32>().await.unwrap();
        assert_eq!(timeout(NEVER, items.next()).await.unwrap().unwrap().unwrap(), 1);
        assert_eq!(gauge.running(), 1);
        drop(items);
        until("the model stops", SECOND, || gauge.running() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_and_cancels_that_cross_end_each_call_once() {
    // FC-046
    let lab = Lab::new();
    let gauge = Gauge::default();
    let counted = gauge.clone();
    let quick = handler("demo.quick", move |micros: u64, _context: Context| {
        let at_work = counted.begin();
        async move {
            tokio::time::sleep(Duration::from_micros(micros)).await;
            drop(at_work);
            Ok::<u64, Failure>(micros)
        }
    })
    .unwrap()
    .limits(HandlerLimits::default().concurrency(1000).queue(1000));
    let provider = lab.provider("provider").capability(quick).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.wait_for("demo.quick", 5 * SECOND).await.unwrap();
    let (mut answered, mut late) = (0, 0);
    const ROUNDS: u64 = 40;
    const CALLS: u64 = 50;
    for round in 0..ROUNDS {
        let calls = (0..CALLS).map(|n| {
            let micros = (n * 37 + round * 11) % 2500;
            let call = caller.call::<u64>("demo.quick", &micros).timeout(Duration::from_micros(500 + n * 40));
            tokio::spawn(call.into_future())
        });
        for call in calls.collect::<Vec<_>>() {
            match timeout(NEVER, call).await.expect("a call ends").unwrap() {
                Ok(_) => answered += 1,
                Err(error) if error.code() == ErrorCode::DeadlineExceeded => late += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(answered + late, ROUNDS * CALLS);
    assert!(answered > 0 && late > 0, "both happen: {answered} answers, {late} late");
    until("no handler is left", SECOND, || gauge.running() == 0).await;
    let answer: u64 = caller.call("demo.quick", &5).await.unwrap();
    assert_eq!(answer, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_can_end_its_half_first() {
    // FC-042
    let lab = Lab::new();
    let builder = lab.provider("provider").capability(sum).capability(double).capability(first_three);
    let provider = builder.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    // Input ends, answers go on.
    let (sender, mut replies) = caller.call("demo.double", &()).exchange::<u64, u64>().await.unwrap();
    for item in 0..10 {
        sender.send(&item).await.unwrap();
    }
    sender.finish();
    for item in 0..10 {
        assert_eq!(timeout(NEVER, replies.next()).await.unwrap().unwrap().unwrap(), 2 * item);
    }
    assert!(timeout(NEVER, replies.next()).await.unwrap().is_none());
    // The handler ends first, with a result or an error; the sender is told and the ending is read.
    for fails in [false, true] {
        let (sender, mut replies) =
            caller.call("demo.first_three", &fails).exchange::<u64, u64>().await.unwrap();
        let sending = async {
            for item in 0..1_000_000 {
                if let Err(error) = sender.send(&item).await {
                    return Some((item, error.code()));
                }
            }
            None
        };
        let refused = timeout(NEVER, sending).await.expect("the sender is not blocked");
        let (sent, code) = refused.expect("the sender is told");
        assert!(sent >= 3 && code == ErrorCode::Cancelled, "{sent}, {code}");
        match timeout(NEVER, replies.next()).await.unwrap().unwrap() {
            Ok(total) => assert!(!fails && total == 3),
            Err(error) => assert!(fails && error.message() == "three are enough", "{error}"),
        }
    }
    // No item at all is an empty input, no cancel.
    let (sender, mut replies) = caller.call("demo.sum", &()).exchange::<u64, u64>().await.unwrap();
    sender.finish();
    assert_eq!(timeout(NEVER, replies.next()).await.unwrap().unwrap().unwrap(), 0);
    // A sender that is only dropped has ended its input too.
    let (sender, mut replies) = caller.call("demo.sum", &()).exchange::<u64, u64>().await.unwrap();
    sender.send(&4).await.unwrap();
    drop(sender);
    assert_eq!(timeout(NEVER, replies.next()).await.unwrap().unwrap().unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_from_a_node_to_itself_is_wanted_until_it_is_left() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let counted = gauge.clone();
    let wanted = handler("self.wanted", move |endless: bool, context: Context| {
        let at_work = counted.begin();
        async move {
            let items = futures_util::stream::unfold(
                (context, at_work, 0),
                move |(context, at_work, n)| async move {
                    if endless && n == 3 {
                        pending::<()>().await;
                    }
                    (n < 3).then(|| (Ok(context.is_cancelled()), (context, at_work, n + 1)))
                },
            );
            Ok::<Items<bool>, Failure>(Items::from_stream(items))
        }
    })
    .unwrap();
    let node = lab.provider("a").capability(wanted).start().await.unwrap();
    let mut items = node.call("self.wanted", &false).stream::<bool>().await.unwrap();
    for _ in 0..3 {
        assert!(!items.next().await.unwrap().unwrap(), "somebody waits for it");
    }
    assert!(items.next().await.is_none());
    let call = node.call("self.wanted", &true).timeout(SECOND / 5);
    let mut items = call.stream::<bool>().await.unwrap();
    for _ in 0..3 {
        items.next().await.unwrap().unwrap();
    }
    let error = timeout(NEVER, items.next()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    assert!(error.message().contains("items") && error.may_have_run(), "{error}");
    drop(items);
    until("the stream is gone", SECOND, || gauge.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_holds_up_no_other_call() {
    let lab = Lab::new();
    let gauge = Gauge::default();
    let counted = gauge.clone();
    let block = handler("demo.block", move |(): (), _context: Context| {
        let at_work = counted.begin();
        async move {
            let _at_work = at_work;
            // As a model that computes without a pause would.
            std::thread::sleep(2 * SECOND);
            Ok::<(), Failure>(())
        }
    })
    .unwrap();
    let provider = lab.provider("provider").capability(block).capability(echo).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    // A runtime that is idle but for the one that blocks has nobody awake who could look at the sockets.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let blocking = tokio::spawn(caller.call::<()>("demo.block", &()).into_future());
    until("the handler blocks", 5 * SECOND, || gauge.running() == 1).await;
    let begun = Instant::now();
    assert_eq!(ending(caller.call("demo.echo", &1)).await.unwrap(), json!(1));
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    blocking.await.unwrap().unwrap();
    busy.abort();
}
