//! Nodes that have shut down leave no task, no socket and no descriptor. Alone in its process, whose descriptors it counts.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]
#![cfg(target_os = "linux")]

use std::time::Duration;

use hermes_peer::Failure;
use hermes_peer::capability;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::eventually;

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: u32) -> Result<u32, Failure> {
    Ok(input)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Starts nodes, uses them, and ends them: one is shut down, one dropped.
async fn one_round(lab: &Lab) {
    let provider = lab.provider("provider").capability(echo).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    let third = lab.builder("third").listen("127.0.0.1:0").peer("caller", "127.0.0.1:1");
    let third = third.peer("provider", &endpoint(&provider)).start().await.unwrap();
    let mut events = third.subscribe::<u32>("a.*").unwrap();
    for node in [&caller, &third] {
        assert_eq!(node.call::<u32>("demo.echo", &1).await.unwrap(), 1);
    }
    let session = caller.open_session().unwrap();
    caller.call::<u32>("demo.echo", &1).session(&session).await.unwrap();
    drop(session);
    assert!(provider.shutdown().await);
    drop(caller);
    drop(third);
    let ended = async { while events.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("a node that was dropped has ended");
}

#[test]
fn nothing_is_left_of_nodes_that_have_ended() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let lab = Lab::new();
        one_round(&lab).await;
        let handle = tokio::runtime::Handle::current();
        let tasks = || handle.metrics().num_alive_tasks();
        eventually("all tasks end", || tasks() == 0).await;
        let before = descriptors();
        for _ in 0..10 {
            one_round(&lab).await;
        }
        eventually("all tasks end", || tasks() == 0).await;
        eventually("all descriptors are closed", || descriptors() <= before).await;
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
}
