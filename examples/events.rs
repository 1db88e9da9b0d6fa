//! Events: published once, delivered to everybody who subscribed, to one member of a group, and never in the way of the
//! publisher: a subscriber that is too slow is told how much it has missed.
//!
//! You should see each ticket at the desk, each ticket once among the workers (which of them takes it is chance), and what a
//! subscriber that slept has lost:
//!
//! ```text
//! desk:    ticket.created 1
//! desk:    ticket.created 2
//! desk:    ticket.created 3
//! workers: 3 tickets between two of them
//! sleeper: 1024 events waited, then 1976 were lost
//! ```

use std::time::Duration;

use hermes_peer::CallError;
use hermes_peer::Delivery;
use hermes_peer::Node;
use hermes_peer::Subscription;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let office = Node::builder("agent://default/demo/office").listen("127.0.0.1:0").start().await?;
    let mut desk = office.subscribe::<u32>("ticket.*")?;
    let mut worker = office.subscribe_in_group::<u32>("ticket.created", "workers")?;
    let mut colleague = office.subscribe_in_group::<u32>("ticket.created", "workers")?;
    let shop = Node::builder("agent://default/demo/shop").start().await?;

    // An event is for those who listen now: while nobody does, it goes to no node.
    while shop.publish("ticket.created", &1).await? == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in [2, 3] {
        shop.publish("ticket.created", &number).await?;
    }
    for _ in 0..3 {
        let Some(Delivery::Event(event)) = desk.next().await.transpose()? else { break };
        println!("desk:    {} {}", event.topic, event.value);
    }
    for _ in 0..3 {
        tokio::select! {
            delivery = worker.next() => delivery.transpose()?,
            delivery = colleague.next() => delivery.transpose()?,
        };
    }
    println!("workers: 3 tickets between two of them");

    let mut sleeper = shop.subscribe::<u32>("stock.*")?;
    for number in 0..3_000 {
        shop.publish("stock.changed", &number).await?;
    }
    let (waited, lost) = until_a_gap(&mut sleeper).await?;
    println!("sleeper: {waited} events waited, then {lost} were lost");
    Ok(())
}

/// How many events come before the first gap, and how many were lost in it.
async fn until_a_gap(subscription: &mut Subscription<u32>) -> Result<(u32, u64), CallError> {
    let mut events = 0;
    while let Some(delivery) = subscription.next().await.transpose()? {
        match delivery {
            Delivery::Event(_) => events += 1,
            Delivery::Lagged(lost) => return Ok((events, lost)),
        }
    }
    Ok((events, 0))
}
