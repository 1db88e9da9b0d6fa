use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::StreamExt;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use tokio::time::advance;

use super::*;

fn subscriptions(change: impl FnOnce(&mut EventSettings)) -> Arc<Subscriptions> {
    let mut settings = EventSettings::default();
    change(&mut settings);
    Arc::new(Subscriptions::new(settings))
}

fn topic(topic: &str) -> Topic {
    topic.parse().unwrap()
}

fn interest(pattern: &str, group: Option<&str>) -> Interest {
    Interest { pattern: pattern.parse().unwrap(), group: group.map(str::to_owned) }
}

fn subscribe(table: &Arc<Subscriptions>, pattern: &str, group: Option<&str>) -> LocalSubscription {
    table.subscribe(pattern.parse().unwrap(), group.map(str::to_owned)).unwrap()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn event(number: u64, bytes: usize) -> Arc<Event> {
    let mut envelope = Envelope::default();
    envelope.composed_at = Some(number);
    Arc::new(Event { topic: topic("a.b"), envelope, body: Bytes::from(vec![0; bytes]) })
}

fn publish(table: &Subscriptions, number: u64) -> Vec<(NodeId, Share)> {
    let targets = table.targets(&topic("a.b"));
    targets.local.iter().for_each(|queue| queue.push(event(number, 1)));
    targets.peers
}

#[derive(Debug, PartialEq)]
enum Got {
    Event(u64),
    Lagged(u64),
}

fn next(subscription: &mut LocalSubscription) -> Option<Got> {
    match subscription.next().now_or_never()?? {
        Delivery::Event(event) => Some(Got::Event(event.envelope.composed_at.unwrap())),
        Delivery::Lagged(count) => Some(Got::Lagged(count)),
    }
}

fn all(subscription: &mut LocalSubscription) -> Vec<Got> {
    std::iter::from_fn(|| next(subscription)).collect()
}

#[test]
fn a_slow_subscriber_is_told_of_each_gap_at_its_place_and_slows_nobody() {
    // FC-056
    let table = subscriptions(|settings| settings.queue_events = 3);
    let mut slow = subscribe(&table, "a.*", None);
    let mut fast = subscribe(&table, "a.*", None);
    let mut seen_fast = Vec::new();
    for number in 0..5 {
        publish(&table, number);
        seen_fast.extend(all(&mut fast));
    }
    assert_eq!(next(&mut slow), Some(Got::Event(0)));
    publish(&table, 5);
    publish(&table, 6);
    assert_eq!(all(&mut slow), [Got::Event(1), Got::Event(2), Got::Lagged(2), Got::Event(5), Got::Lagged(1)]);
    publish(&table, 7);
    assert_eq!(all(&mut slow), [Got::Event(7)]);
    assert_eq!(seen_fast, (0..5).map(Got::Event).collect::<Vec<_>>());
    assert_eq!((slow.queue.lost(), fast.queue.lost()), (3, 0));
}

#[test]
fn received_and_lagged_add_up_to_what_was_published_at_any_pace() {
    // FC-056
    for pace in 1..20 {
        let table = subscriptions(|settings| settings.queue_events = 7);
        let mut subscriber = subscribe(&table, "**", None);
        let mut got = Vec::new();
        for number in 0..1_000 {
            publish(&table, number);
            if number % pace == 0 {
                got.extend(next(&mut subscriber));
            }
        }
        got.extend(all(&mut subscriber));
        // Each event comes where the gaps before it say.
        let mut expected = 0;
        for got in got {
            match got {
                Got::Event(number) => {
                    assert_eq!(number, expected, "pace {pace}");
                    expected += 1;
                }
                Got::Lagged(count) => expected += count,
            }
        }
        assert_eq!(expected, 1_000, "pace {pace}");
    }
}

#[test]
fn a_queue_is_bounded_by_bytes_and_a_large_event_still_gets_through() {
    let table = subscriptions(|settings| settings.queue_bytes = 10_000);
    let mut subscriber = subscribe(&table, "**", None);
    for number in 0..4 {
        subscriber.queue.push(event(number, 4_000));
    }
    assert_eq!(all(&mut subscriber), [Got::Event(0), Got::Event(1), Got::Lagged(2)]);
    for number in 2..4 {
        subscriber.queue.push(event(number, 4_000));
    }
    assert_eq!(all(&mut subscriber), [Got::Event(2), Got::Event(3)], "what was taken gives its room back");
    subscriber.queue.push(event(4, 1_000_000));
    subscriber.queue.push(event(5, 1));
    assert_eq!(all(&mut subscriber), [Got::Event(4), Got::Lagged(1)]);
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_and_sees_the_end() {
    let table = subscriptions(|_| {});
    let mut subscriber = subscribe(&table, "**", None);
    let waiting = tokio::spawn(async move {
        let first = subscriber.next().await;
        (first.is_some(), subscriber.next().await.is_none(), subscriber)
    });
    tokio::task::yield_now().await;
    publish(&table, 1);
    tokio::task::yield_now().await;
    table.close();
    let (first, end, _subscriber) = waiting.await.unwrap();
    assert!(first && end);
    assert!(subscribe(&table, "**", None).next().await.is_none(), "a late subscriber does not wait for ever");
}

#[test]
fn neighbours_are_told_each_interest_once_and_only_when_it_changes() {
    let table = subscriptions(|_| {});
    let first = subscribe(&table, "a.*", None);
    let second = subscribe(&table, "a.*", None);
    let group = subscribe(&table, "a.*", Some("g"));
    assert_eq!(table.interest(), (2, vec![interest("a.*", None), interest("a.*", Some("g"))]));
    drop(first);
    assert_eq!(table.interest().0, 2);
    drop(second);
    drop(group);
    assert_eq!(table.interest(), (4, vec![]));
    assert!(*table.revision().borrow() == 4);
    assert!(table.targets(&topic("a.b")).local.is_empty());
}

#[test]
fn an_event_goes_only_where_somebody_wants_it_and_to_each_peer_once() {
    let table = subscriptions(|_| {});
    table.set_peer(node("n1"), vec![interest("a.*", None), interest("a.b", None), interest("**", None)]);
    table.set_peer(node("n2"), vec![interest("x.*", None)]);
    assert_eq!(publish(&table, 0), [(node("n1"), Share::default())]);
    table.set_peer(node("n2"), vec![interest("*.b", None)]);
    table.remove_peer(&node("n1"));
    assert_eq!(publish(&table, 0), [(node("n2"), Share::default())]);
}

#[test]
fn each_group_gets_an_event_once_and_its_members_take_turns() {
    let table = subscriptions(|_| {});
    let mut local = [subscribe(&table, "a.*", Some("g")), subscribe(&table, "a.b", Some("g"))];
    let mut other = [subscribe(&table, "**", Some("h")), subscribe(&table, "**", Some("h"))];
    table.set_peer(
        node("n1"),
        vec![interest("a.*", Some("g")), interest("a.b", Some("g")), interest("a.*", None)],
    );
    table.set_peer(node("n2"), vec![interest("a.*", Some("g"))]);
    let mut remote = [0, 0];
    for number in 0..40 {
        for (peer, share) in publish(&table, number) {
            assert_eq!(share.single, peer == node("n1"), "n1 always has a subscriber of its own");
            remote[usize::from(peer == node("n2"))] +=
                share.groups.iter().filter(|group| *group == "g").count();
        }
    }
    let counts = |members: &mut [LocalSubscription; 2]| members.each_mut().map(|member| all(member).len());
    assert_eq!((counts(&mut local), remote), ([10, 10], [10, 10]));
    assert_eq!(counts(&mut other), [20, 20], "another group takes turns of its own");
}

#[test]
fn a_peers_event_reaches_those_whom_its_share_names() {
    let table = subscriptions(|_| {});
    let mut single = subscribe(&table, "a.*", None);
    let mut members = [subscribe(&table, "a.*", Some("g")), subscribe(&table, "a.*", Some("g"))];
    let mut receive = |share: Share| {
        table.receivers(&topic("a.b"), &share).iter().for_each(|queue| queue.push(event(1, 1)));
        (all(&mut single).len(), members.each_mut().map(|member| all(member).len()).iter().sum::<usize>())
    };
    assert_eq!(receive(Share::default()), (1, 0));
    assert_eq!(receive(Share { single: false, groups: vec!["g".into(), "unknown".into()] }), (0, 1));
    assert_eq!(receive(Share { single: true, groups: vec!["g".into()] }), (1, 1));
}

#[test]
fn what_a_peer_has_lost_is_told_at_its_place_to_those_who_wanted_it() {
    // FC-056
    let table = subscriptions(|_| {});
    let mut wanted = subscribe(&table, "a.*", None);
    let mut other = subscribe(&table, "a.b", None);
    let mut members = [subscribe(&table, "a.*", Some("g")), subscribe(&table, "a.*", Some("g"))];
    publish(&table, 1);
    members.iter_mut().for_each(|member| drop(all(member)));
    table.report_lag(&interest("a.*", None), 5);
    table.report_lag(&interest("a.*", None), 2);
    table.report_lag(&interest("a.*", Some("g")), 4);
    table.report_lag(&interest("nobody.*", Some("h")), 4);
    wanted.queue.push(event(2, 1));
    assert_eq!(all(&mut wanted), [Got::Event(1), Got::Lagged(7), Got::Event(2)]);
    assert_eq!(all(&mut other), [Got::Event(1)]);
    let told: Vec<_> = members.each_mut().map(all).into_iter().flatten().collect();
    assert_eq!(told, [Got::Lagged(4)], "one member is told, so that the sum is right");
}

#[test]
fn turns_of_groups_that_are_gone_are_forgotten() {
    let table = subscriptions(|_| {});
    for number in 0..100 {
        let member = subscribe(&table, "**", Some(&format!("g{number}")));
        publish(&table, 1);
        drop(member);
    }
    assert!(table.table.lock().turns.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_came_before_is_known_for_two_minutes() {
    // FC-058
    let table = subscriptions(|_| {});
    let agent: AgentUri = "agent://default/support/a".parse().unwrap();
    let other: AgentUri = "agent://default/support/b".parse().unwrap();
    assert!(table.is_new(&agent, "k", Instant::now()));
    assert!(!table.is_new(&agent, "k", Instant::now()));
    assert!(table.is_new(&other, "k", Instant::now()), "nobody can use up another agent's keys");
    advance(Duration::from_millis(119_999)).await;
    assert!(!table.is_new(&agent, "k", Instant::now()));
    advance(Duration::from_millis(1)).await;
    assert!(table.is_new(&agent, "k", Instant::now()));
    for key in 0..70_000 {
        assert!(table.is_new(&agent, &key.to_string(), Instant::now()));
    }
    assert_eq!(table.seen.lock().count(), 65_536);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_is_too_fast_on_a_topic_is_told_and_other_topics_go_on() {
    // FC-058
    let table = subscriptions(|settings| {
        settings.publish_rate = 100;
        settings.publish_burst = 10;
    });
    for _ in 0..10 {
        table.admit(&topic("a.b"), Instant::now()).unwrap();
    }
    let refused = table.admit(&topic("a.b"), Instant::now()).unwrap_err();
    assert_eq!((refused.code(), refused.retry_after), (ErrorCode::RateLimited, Duration::from_millis(10)));
    table.admit(&topic("a.c"), Instant::now()).unwrap();
    advance(refused.retry_after).await;
    table.admit(&topic("a.b"), Instant::now()).unwrap();
    assert!(table.admit(&topic("a.b"), Instant::now()).is_err());

    for number in 0..5_000 {
        let _ = table.admit(&topic(&format!("t.n{number}")), Instant::now());
    }
    let full = format!("{:?}", table.rates.lock()).matches("Bucket").count();
    assert_eq!(full, 4_096 + 1, "topics without end share one bucket");
    advance(Duration::from_secs(1)).await;
    table.admit(&topic("t.n4999"), Instant::now()).unwrap();
    assert_eq!(format!("{:?}", table.rates.lock()).matches("Bucket").count(), 2, "quiet topics make room");
}

#[test]
fn events_that_breed_events_end_after_eight_hops() {
    // FC-058
    let mut deliveries = 0;
    let mut handling = None;
    while let Ok(hops) = next_hops(handling) {
        deliveries += 1;
        handling = Some(hops);
    }
    assert_eq!(deliveries, 9);
    assert_eq!(next_hops(Some(u8::MAX)), Err(crate::mesh::subscription::settings::TooManyHops));
}

#[test]
fn subscribers_are_bounded() {
    let table = subscriptions(|_| {});
    let refused = table.subscribe("**".parse().unwrap(), Some("g".repeat(64))).unwrap_err();
    assert_eq!(refused, SubscribeRefused::GroupName { length: 64 });
    let many: Vec<_> = (0..1_024).map(|number| subscribe(&table, &format!("a.n{number}"), None)).collect();
    let refused = table.subscribe("**".parse().unwrap(), None).unwrap_err();
    assert_eq!(refused, SubscribeRefused::TooMany { limit: 1_024, of: "topic patterns" });
    let again = subscribe(&table, "a.n1", None);
    drop((many, again));
}
