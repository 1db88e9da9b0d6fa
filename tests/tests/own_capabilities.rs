//! A node that calls what it provides itself gets what any other caller would.

use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::ReplyPart;
use hermes_peer::capability;
use hermes_peer_tests::Lab;
use hermes_peer_tests::eventually;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

/// Numbers from 1 to n, and no more once nobody reads.
#[capability("demo.count")]
async fn count(n: u32, context: Context) -> Result<Items<u32>, Failure> {
    let (sender, items) = Items::channel(1);
    let is_cancelled = context.state::<Arc<AtomicBool>>()?;
    tokio::spawn(async move {
        for number in 1..=n {
            if context.is_cancelled() {
                break;
            }
            sender.send(number).await;
        }
        drop(sender);
        context.cancelled().await;
        is_cancelled.store(true, Ordering::SeqCst);
    });
    Ok(items)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_to_oneself_has_its_items_and_an_end() {
    let lab = Lab::new();
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let builder = lab.provider("provider").capability(count).state(is_cancelled.clone());
    let provider = builder.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    for node in [&provider, &caller] {
        let mut items = node.call("demo.count", &5).stream::<u32>().await.unwrap();
        let mut got = Vec::new();
        while let Some(item) = items.next().await {
            got.push(item.unwrap());
        }
        assert_eq!(got, [1, 2, 3, 4, 5], "{}", node.id());
        let mut parts = node.call("demo.count", &1).parts().await.unwrap();
        assert!(matches!(parts.next().await, Some(Ok(ReplyPart::Item(_)))), "{}", node.id());
        assert_eq!(parts.next().await.unwrap().unwrap(), ReplyPart::End(None), "{}", node.id());
        assert!(parts.next().await.is_none());
    }
    is_cancelled.store(false, Ordering::SeqCst);
    // Who reads no more ends the handler's work.
    let mut items = provider
        .call("demo.count", &1_000_000)
        .timeout(Duration::from_secs(300))
        .stream::<u32>()
        .await
        .unwrap();
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    drop(items);
    eventually("the handler learns that nobody reads", || is_cancelled.load(Ordering::SeqCst)).await;
}
