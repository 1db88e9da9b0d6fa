//! Streams in both directions: items that come out of a handler one by one, and items that go into it while it answers.
//!
//! You should see a countdown, and then a running total that answers each number before the next is sent:
//!
//! ```text
//! countdown 3
//! countdown 2
//! countdown 1
//! sent 5, total 5
//! sent 7, total 12
//! sent 30, total 42
//! ```

use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::capability;

/// Counts down, ten steps in a second.
#[capability("example.countdown")]
async fn countdown(from: u32, _context: Context) -> Result<Items<u32>, Failure> {
    // One item ahead of the caller at most: a caller that is slow slows this down, and one that goes away ends it.
    let (sender, items) = Items::channel(1);
    tokio::spawn(async move {
        for number in (1..=from).rev() {
            if !sender.send(number).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    Ok(items)
}

/// Adds up the numbers that come in, and says the total after each.
#[capability("example.total")]
async fn total(mut numbers: Incoming<u64>, _context: Context) -> Result<Items<u64>, Failure> {
    let (sender, totals) = Items::channel(1);
    tokio::spawn(async move {
        let mut sum = 0;
        while let Some(number) = numbers.next().await {
            match number {
                Ok(number) => sum += number,
                Err(failure) => return sender.fail(failure).await,
            }
            if !sender.send(sum).await {
                return;
            }
        }
    });
    Ok(totals)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Node::builder("agent://default/demo/numbers").listen("127.0.0.1:0");
    let _provider = provider.capability(countdown).capability(total).start().await?;
    let caller = Node::builder("agent://default/demo/caller").start().await?;

    let mut numbers = caller.call("example.countdown", &3).stream::<u32>().await?;
    while let Some(number) = numbers.next().await {
        println!("countdown {}", number?);
    }

    let (sender, mut totals) = caller.call("example.total", &()).exchange::<u64, u64>().await?;
    for number in [5, 7, 30] {
        sender.send(&number).await?;
        let sum = totals.next().await.ok_or("an answer to each number")??;
        println!("sent {number}, total {sum}");
    }
    sender.finish();
    assert!(totals.next().await.is_none(), "the end of the input is the end of the answer");
    Ok(())
}
