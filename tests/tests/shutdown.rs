//! Shutting down: what runs ends, what is new goes elsewhere, and nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::LinkState;
use hermes_peer::Node;
use hermes_peer::capability;
use hermes_peer_tests::Gate;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::eventually;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// Says which node it is, when it may.
#[capability("demo.slow")]
async fn slow(context: Context) -> Result<String, Failure> {
    context.state::<Arc<Gate>>()?.pass().await;
    Ok(context.node().id().to_string())
}

/// Says which node it is.
#[capability("demo.node")]
async fn node(context: Context) -> Result<String, Failure> {
    tokio::task::yield_now().await;
    Ok(context.node().id().to_string())
}

/// One item, and a second when it may.
#[capability("demo.items")]
async fn items(context: Context) -> Result<Items<u32>, Failure> {
    let gate = context.state::<Arc<Gate>>()?;
    let (sender, items) = Items::channel(1);
    tokio::spawn(async move {
        sender.send(1).await;
        gate.pass().await;
        sender.send(2).await;
    });
    Ok(items)
}

async fn provider(lab: &Lab, name: &str, gate: &Arc<Gate>) -> Node {
    let builder = lab.provider(name).capability(slow).capability(node).capability(items);
    builder.state(gate.clone()).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_comes_to_its_end_and_new_calls_go_to_another_provider() {
    // FC-072
    let (lab, gate) = (Lab::new(), Gate::new());
    let first = provider(&lab, "first", &gate).await;
    let caller = lab.caller_of("caller", &first).start().await.unwrap();
    let running = tokio::spawn(caller.call::<String>("demo.slow", &()).into_future());
    let mut stream = caller.call("demo.items", &()).stream::<u32>().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), 1);
    gate.someone_entered().await;
    gate.someone_entered().await;
    let second = lab.provider("second").capability(node).peer("caller", "127.0.0.1:1");
    drop(second);
    let second = provider(&lab, "second", &gate).await;
    let other = lab.caller_of("other", &first).peer("second", &endpoint(&second)).start().await.unwrap();
    other.look_around(PATIENCE).await;
    let shutting = tokio::spawn({
        let first = first.clone();
        async move { first.shutdown().await }
    });
    eventually("the callers learn of it", || {
        [&caller, &other].iter().all(|node| {
            node.peers()
                .iter()
                .any(|peer| peer.node_id.as_str() == "first" && peer.state != LinkState::Linked)
        })
    })
    .await;
    for _ in 0..20 {
        assert_eq!(other.call::<String>("demo.node", &()).await.unwrap(), "second");
    }
    let error = caller.call::<String>("demo.node", &()).wait_for_provider(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "nobody else provides it to this one: {error}");
    assert!(!running.is_finished() && !shutting.is_finished(), "it waits for what runs");
    gate.let_go(2);
    assert_eq!(running.await.unwrap().unwrap(), "first");
    assert_eq!(stream.next().await.unwrap().unwrap(), 2);
    assert!(stream.next().await.is_none(), "the stream ends whole");
    assert!(shutting.await.unwrap(), "all work came to its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_fails_while_one_of_two_providers_is_restarted_again_and_again() {
    // FC-072
    const ROUNDS: usize = 8;
    let (lab, gate) = (Lab::new(), Gate::new());
    let mut first = provider(&lab, "first", &gate).await;
    let mut second = provider(&lab, "second", &gate).await;
    let addresses = [endpoint(&first), endpoint(&second)];
    let caller = lab.caller_of("caller", &first).peer("second", &addresses[1]).start().await.unwrap();
    caller.look_around(PATIENCE).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let answered: Arc<[AtomicU32; 2]> = Arc::default();
    let loops: Vec<_> = (0..8)
        .map(|_| {
            let (caller, is_over, answered) = (caller.clone(), is_over.clone(), answered.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let node: String = caller.call("demo.node", &()).await.expect("no call fails");
                    answered[usize::from(node == "second")].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..ROUNDS {
        let (node, name, index) = match round % 2 {
            0 => (&mut first, "first", 0),
            _ => (&mut second, "second", 1),
        };
        let stays = 1 - index;
        assert!(node.shutdown().await);
        // Whoever stays does the work meanwhile.
        let before = answered[stays].load(Ordering::Relaxed);
        eventually("the other one answers", || answered[stays].load(Ordering::Relaxed) > before + 20).await;
        let builder = lab.builder(name).listen(&addresses[index]).capability(slow).capability(self::node);
        *node = builder.capability(items).state(gate.clone()).start().await.unwrap();
        let back = answered[index].load(Ordering::Relaxed);
        eventually("the restarted one is used again", || answered[index].load(Ordering::Relaxed) > back + 20)
            .await;
    }
    is_over.store(true, Ordering::Relaxed);
    for calls in loops {
        calls.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_never_ends_is_given_up_after_the_drain_timeout() {
    // FC-072
    let (lab, gate) = (Lab::new(), Gate::new());
    let builder = lab.provider("provider").capability(slow).state(gate.clone());
    let provider = builder.drain_timeout(Duration::from_millis(200)).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let running = tokio::spawn(caller.call::<String>("demo.slow", &()).into_future());
    gate.someone_entered().await;
    let is_whole = timeout(PATIENCE, provider.shutdown()).await.expect("it ends");
    assert!(!is_whole);
    let error = timeout(PATIENCE, running).await.expect("its caller is told").unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert!(error.is_retryable() && error.may_have_run(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_shut_down_takes_no_connection_and_makes_no_call() {
    let (lab, gate) = (Lab::new(), Gate::new());
    let provider = provider(&lab, "provider", &gate).await;
    let address = provider.address().unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.call::<String>("demo.node", &()).await.unwrap();
    let mut subscription = provider.subscribe::<u32>("a.*").unwrap();
    assert!(provider.shutdown().await);
    assert!(timeout(PATIENCE, provider.shutdown()).await.expect("a second time is no trouble"));
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
    TcpListener::bind(address).expect("and the port is free at once");
    assert!(subscription.next().await.is_none());
    let peers = provider.peers();
    assert!(peers.iter().all(|peer| peer.state != LinkState::Linked), "{peers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_last_handle_is_dropped_closes_its_links() {
    let (lab, gate) = (Lab::new(), Gate::new());
    let provider = provider(&lab, "provider", &gate).await;
    let address = provider.address().unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.call::<String>("demo.node", &()).await.unwrap();
    let running = tokio::spawn(caller.call::<String>("demo.slow", &()).into_future());
    gate.someone_entered().await;
    let clone = provider.clone();
    drop(provider);
    assert_eq!(caller.call::<String>("demo.node", &()).await.unwrap(), "provider", "a clone keeps it up");
    drop(clone);
    let error = timeout(PATIENCE, running).await.expect("nothing hangs").unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    eventually("nobody listens", || TcpStream::connect(address).is_err()).await;
    eventually("the link is down", || caller.peers().iter().all(|peer| peer.state != LinkState::Linked))
        .await;
}
