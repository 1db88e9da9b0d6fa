//! Events between nodes: they go where somebody wants them, once, and a slow subscriber is told what it missed.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer::CallError;
use hermes_peer::Delivery;
use hermes_peer::ErrorCode;
use hermes_peer::Event;
use hermes_peer::Node;
use hermes_peer::Subscription;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

/// Far longer than an event takes on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the publisher knows of all that `subscriber` has subscribed to up to now.
async fn is_known(publisher: &Node, subscriber: &Node) {
    let topic = format!("known.{}", subscriber.id().as_str().replace('-', "_"));
    let mut mark = subscriber.subscribe::<Value>(&topic).unwrap();
    let waiting = async {
        while publisher.publish(&topic, &()).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        mark.next().await.unwrap().unwrap();
    };
    timeout(PATIENCE, waiting).await.expect("the publisher learns of the subscription");
}

async fn event<T: DeserializeOwned>(subscription: &mut Subscription<T>) -> Event<T> {
    match timeout(PATIENCE, subscription.next()).await.expect("an event comes") {
        Some(Ok(Delivery::Event(event))) => event,
        Some(Ok(Delivery::Lagged(count))) => panic!("{count} events are lost"),
        Some(Err(error)) => panic!("{error}"),
        None => panic!("the subscription has ended"),
    }
}

async fn topics(subscription: &mut Subscription<Value>, until: &str) -> Vec<String> {
    let mut topics = Vec::new();
    loop {
        let event = event(subscription).await;
        if event.topic.as_str() == until {
            return topics;
        }
        topics.push(event.topic.as_str().to_owned());
    }
}

async fn three(lab: &Lab) -> (Node, Node, Node) {
    let publisher = lab.provider("publisher").start().await.unwrap();
    let one = lab.caller_of("one", &publisher).start().await.unwrap();
    let two = lab.caller_of("two", &publisher).start().await.unwrap();
    (publisher, one, two)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_goes_to_those_whose_pattern_covers_its_topic() {
    let lab = Lab::new();
    let (publisher, one, two) = three(&lab).await;
    let subscribe = |node: &Node, pattern: &str| node.subscribe::<Value>(pattern).unwrap();
    let mut exact = subscribe(&one, "ticket.created");
    let mut star = subscribe(&one, "ticket.*");
    let mut rest = subscribe(&two, "ticket.**");
    let mut local = subscribe(&publisher, "ticket.*");
    // Each hears of the end.
    let mut ends: Vec<_> = [&one, &two, &publisher].map(|node| subscribe(node, "ticket.end.of.it")).into();
    is_known(&publisher, &one).await;
    is_known(&publisher, &two).await;
    let sent =
        ["ticket.created", "ticket.closed", "ticket.created.again", "tickets.created", "ticket.created"];
    let mut counts = Vec::new();
    for topic in sent {
        counts.push(publisher.publish(topic, &topic).await.unwrap());
    }
    assert_eq!(counts, [3, 3, 1, 0, 3], "how many nodes each went to, this one included");
    assert_eq!(publisher.publish("ticket.end.of.it", &()).await.unwrap(), 3);
    for end in &mut ends {
        event(end).await;
    }
    let mut next = Vec::new();
    for subscription in [&mut exact, &mut star, &mut local] {
        let mut seen = Vec::new();
        while let Ok(Some(Ok(Delivery::Event(event)))) = timeout(Duration::ZERO, subscription.next()).await {
            assert_eq!(event.value, Value::from(event.topic.as_str()), "the value is what was published");
            seen.push(event.topic.as_str().to_owned());
        }
        next.push(seen);
    }
    assert_eq!(next[0], ["ticket.created", "ticket.created"]);
    assert_eq!(next[1], ["ticket.created", "ticket.closed", "ticket.created"]);
    assert_eq!(next[2], next[1]);
    let all = topics(&mut rest, "ticket.end.of.it").await;
    assert_eq!(all, ["ticket.created", "ticket.closed", "ticket.created.again", "ticket.created"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_group_one_member_gets_each_event_on_whichever_node_it_is() {
    const EVENTS: u32 = 300;
    let lab = Lab::new();
    let (publisher, one, two) = three(&lab).await;
    let member = |node: &Node| node.subscribe_in_group::<u32>("job.*", "workers").unwrap();
    // Two members on one node share what that node gets.
    let members = vec![member(&one), member(&two), member(&two), member(&publisher)];
    let mut single = one.subscribe::<u32>("job.*").unwrap();
    let mut other_group = two.subscribe_in_group::<u32>("job.**", "auditors").unwrap();
    is_known(&publisher, &one).await;
    is_known(&publisher, &two).await;
    for number in 0..EVENTS {
        publisher.publish("job.new", &number).await.unwrap();
    }
    for number in 0..EVENTS {
        assert_eq!(event(&mut single).await.value, number);
        assert_eq!(event(&mut other_group).await.value, number, "another group has its own member for each");
    }
    // All are delivered now: both nodes have got the last one, and those before it.
    let mut all = Vec::new();
    for mut member in members {
        let mut share = 0;
        while let Ok(Some(Ok(Delivery::Event(event)))) = timeout(Duration::ZERO, member.next()).await {
            all.push(event.value);
            share += 1;
        }
        assert!(share >= EVENTS / 10, "work is shared: one member got {share}");
    }
    all.sort_unstable();
    assert_eq!(all, (0..EVENTS).collect::<Vec<_>>(), "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_a_key_that_came_before_is_dropped() {
    // FC-058
    let lab = Lab::new();
    let (publisher, one, _two) = three(&lab).await;
    let mut remote = one.subscribe::<u32>("ticket.*").unwrap();
    let mut local = publisher.subscribe::<u32>("ticket.*").unwrap();
    is_known(&publisher, &one).await;
    for number in 0..3 {
        publisher.publish("ticket.created", &number).key("same").await.unwrap();
    }
    publisher.publish("ticket.created", &9).key("another").await.unwrap();
    // The same key of another agent is another key.
    let mut from_one = publisher.subscribe::<u32>("one.*").unwrap();
    is_known(&one, &publisher).await;
    one.publish("one.created", &7).key("same").await.unwrap();
    for subscription in [&mut remote, &mut local] {
        let (first, second) = (event(subscription).await, event(subscription).await);
        assert_eq!((first.value, first.key.as_str()), (0, "same"));
        assert_eq!((second.value, second.key.as_str()), (9, "another"));
    }
    assert_eq!(event(&mut from_one).await.value, 7);
    for key in [String::new(), "k".repeat(256)] {
        let refused = publisher.publish("ticket.created", &1).key(key).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidInput);
    }
}

/// Answers each event on `hears` with one on `says`; counts what it hears and says how it ended.
fn answering(
    node: &Node,
    hears: &str,
    says: &'static str,
    heard: &Arc<AtomicU32>,
) -> tokio::task::JoinHandle<CallError> {
    let subscription = node.subscribe::<u32>(hears).unwrap();
    let (node, heard) = (node.clone(), heard.clone());
    tokio::spawn(async move {
        let ended = subscription.for_each(async |delivery| {
            let Delivery::Event(event) = delivery else { return Ok::<_, CallError>(()) };
            heard.fetch_add(1, Ordering::SeqCst);
            node.publish(says, &(event.value + 1)).await.map(drop)
        });
        ended.await.expect_err("it ends by the refusal of an event")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_answer_each_others_events_come_to_an_end() {
    // FC-058
    let lab = Lab::new();
    let (a, b, _) = three(&lab).await;
    let heard = Arc::new(AtomicU32::new(0));
    let first = answering(&a, "x.*", "y.1", &heard);
    let second = answering(&b, "y.*", "x.1", &heard);
    is_known(&a, &b).await;
    is_known(&b, &a).await;
    a.publish("x.1", &0).await.unwrap();
    let error = timeout(PATIENCE, async {
        tokio::select! { e = first => e, e = second => e }
    })
    .await;
    let error = error.expect("the storm ends").unwrap();
    assert_eq!(error.code(), ErrorCode::LoopDetected);
    assert_eq!(heard.load(Ordering::SeqCst), 9, "the first and the eight that follow from it");
    // Other topics go on.
    let mut other = b.subscribe::<u32>("z.*").unwrap();
    is_known(&a, &b).await;
    a.publish("z.1", &1).await.unwrap();
    assert_eq!((event(&mut other).await.hops, heard.load(Ordering::SeqCst)), (0, 9));
}

/// Reads until all that was published is accounted for; gives how many came, and how many were lost.
async fn account_for(subscription: &mut Subscription<(u32, String)>, published: u32) -> (u32, u64) {
    let (mut received, mut lost, mut next) = (0, 0, 0);
    let reading = async {
        while u64::from(received) + lost < u64::from(published) {
            match subscription.next().await.unwrap().unwrap() {
                Delivery::Event(event) => {
                    assert_eq!(event.value.0, next, "a gap stands where it was");
                    received += 1;
                    next += 1;
                }
                Delivery::Lagged(count) => {
                    lost += count;
                    next += u32::try_from(count).unwrap();
                }
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("all events are received or told as lost");
    let more = timeout(Duration::from_millis(50), subscription.next()).await;
    assert!(more.is_err(), "more than were published: {more:?}");
    (received, lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_read_is_told_what_it_missed_and_slows_nobody() {
    // FC-056
    const EVENTS: u32 = 6_000;
    let lab = Lab::new();
    let (publisher, fast, slow) = three(&lab).await;
    let mut read = fast.subscribe::<(u32, String)>("tick.*").unwrap();
    let mut unread = slow.subscribe::<(u32, String)>("tick.*").unwrap();
    let mut beside = slow.subscribe::<(u32, String)>("tick.*").unwrap();
    is_known(&publisher, &fast).await;
    is_known(&publisher, &slow).await;
    let text = "x".repeat(200);
    for number in 0..EVENTS {
        publisher.publish("tick.1", &(number, &text)).await.unwrap();
        // As fast as those who read can take them.
        for reader in [&mut read, &mut beside] {
            assert_eq!(event(reader).await.value.0, number, "who reads gets all");
        }
    }
    let (received, lost) = account_for(&mut unread, EVENTS).await;
    assert_eq!(received, 1_024, "what its queue holds");
    assert_eq!(lost, u64::from(EVENTS) - 1_024);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_link_could_not_take_is_told_exactly() {
    // FC-056
    const EVENTS: u32 = 15_000;
    let lab = Lab::new();
    let (publisher, one, two) = three(&lab).await;
    let mut first = one.subscribe::<(u32, String)>("tick.*").unwrap();
    let mut second = two.subscribe::<(u32, String)>("tick.**").unwrap();
    let mut calm = two.subscribe::<u32>("calm.*").unwrap();
    is_known(&publisher, &one).await;
    is_known(&publisher, &two).await;
    let text = "x".repeat(1_000);
    for number in 0..EVENTS {
        publisher.publish("tick.1", &(number, &text)).await.unwrap();
    }
    let (one, two) = tokio::join!(account_for(&mut first, EVENTS), account_for(&mut second, EVENTS));
    for (received, lost) in [one, two] {
        assert!(received > 0 && lost > 0, "{received} received, {lost} lost: the test means to lose some");
    }
    publisher.publish("calm.1", &1).await.unwrap();
    assert_eq!(event(&mut calm).await.value, 1, "a topic that was not lost has no gap");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_events_on_a_topic_are_refused_to_the_publisher() {
    // FC-058
    let lab = Lab::new();
    let publisher = lab.builder("publisher").start().await.unwrap();
    let mut refused = None;
    for number in 0..500_000 {
        if let Err(error) = publisher.publish("tick.1", &number).await {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("500,000 at once are too many");
    assert!(number >= 20_000, "a burst is allowed: {number}");
    assert_eq!(error.code(), ErrorCode::RateLimited);
    assert!(error.is_retryable() && error.retry_after().is_some());
    assert!(error.message().contains("`tick.1`"), "{error}");
    publisher.publish("tick.2", &1).await.expect("another topic has its own rate");
    tokio::time::sleep(error.retry_after().unwrap() + Duration::from_millis(5)).await;
    publisher.publish("tick.1", &1).await.expect("it is allowed again when it said");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_are_known_again_to_a_publisher_that_was_restarted() {
    // FC-029
    let lab = Lab::new();
    let publisher = lab.provider("publisher").start().await.unwrap();
    let address = endpoint(&publisher);
    let subscriber = lab.caller_of("one", &publisher).start().await.unwrap();
    let mut subscription = subscriber.subscribe::<u32>("ticket.*").unwrap();
    is_known(&publisher, &subscriber).await;
    publisher.publish("ticket.created", &1).await.unwrap();
    assert_eq!(event(&mut subscription).await.value, 1);
    publisher.shutdown().await;
    drop(publisher);
    let publisher = lab.builder("publisher").listen(&address).start().await.unwrap();
    is_known(&publisher, &subscriber).await;
    publisher.publish("ticket.created", &2).await.unwrap();
    assert_eq!(event(&mut subscription).await.value, 2, "one subscription, no event twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_dropped_is_no_longer_served() {
    let lab = Lab::new();
    let (publisher, one, _two) = three(&lab).await;
    let subscription = one.subscribe::<u32>("ticket.*").unwrap();
    is_known(&publisher, &one).await;
    assert_eq!(publisher.publish("ticket.created", &1).await.unwrap(), 1);
    drop(subscription);
    let waiting = async {
        while publisher.publish("ticket.created", &1).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("the publisher learns of the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_another_type_is_an_error_and_the_next_ones_come() {
    let lab = Lab::new();
    let (publisher, one, _two) = three(&lab).await;
    let mut subscription = one.subscribe::<u32>("ticket.*").unwrap();
    is_known(&publisher, &one).await;
    publisher.publish("ticket.a", "text").await.unwrap();
    publisher.publish("ticket.b", &2).await.unwrap();
    let error = timeout(PATIENCE, subscription.next()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidInput);
    assert_eq!(event(&mut subscription).await.value, 2);
    one.shutdown().await;
    assert!(subscription.next().await.is_none(), "the end of the node is the end of the subscription");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_events_and_groups_are_checked() {
    let lab = Lab::new();
    let node = lab.builder("node").start().await.unwrap();
    let code = |error: CallError| error.code();
    assert_eq!(node.publish("no topic", &1).await.map_err(code), Err(ErrorCode::InvalidInput));
    assert_eq!(node.publish("ticket.*", &1).await.map_err(code), Err(ErrorCode::InvalidInput));
    assert_eq!(node.subscribe::<u32>("a..b").map(drop).map_err(code), Err(ErrorCode::InvalidInput));
    for group in [String::new(), "g".repeat(64)] {
        let refused = node.subscribe_in_group::<u32>("a.*", &group).map(drop).map_err(code);
        assert_eq!(refused, Err(ErrorCode::InvalidInput));
    }
    let patterns: HashSet<_> = (0..1_024).map(|n| format!("a.n{n}")).collect();
    let kept: Vec<_> = patterns.iter().map(|pattern| node.subscribe::<u32>(pattern).unwrap()).collect();
    assert_eq!(node.subscribe::<u32>("b.1").map(drop).map_err(code), Err(ErrorCode::Overloaded));
    drop(kept);
    node.subscribe::<u32>("b.1").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_too_large_for_one_subscriber_still_goes_to_the_others() {
    let lab = Lab::new();
    let publisher = lab.provider("publisher").start().await.unwrap();
    let mut subscribers = Vec::new();
    // In whichever order they are served, one that takes it comes after one that does not.
    for (name, max_message) in [("a", 2_048), ("b", 1 << 20), ("c", 2_048), ("d", 1 << 20)] {
        let node = lab.caller_of(name, &publisher).max_message(max_message).start().await.unwrap();
        let subscription = node.subscribe::<String>("news.made").unwrap();
        is_known(&publisher, &node).await;
        subscribers.push((node, max_message, subscription));
    }
    let error = publisher.publish("news.made", &"x".repeat(4_096)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooLarge, "{error}");
    for (_node, max_message, subscription) in &mut subscribers {
        if *max_message > 4_096 {
            assert_eq!(event(subscription).await.value.len(), 4_096);
        }
    }
}
