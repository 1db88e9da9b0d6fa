//! Who wants which events, here and at the peers, and who gets one.
//!
//! An event goes from its publisher straight to the nodes that want it; nobody passes it on. Of each group exactly one
//! member gets it, so the publisher chooses the member, and tells each peer for whom the event is by a [`Share`].

mod queue;
mod rate;
mod seen;
mod settings;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Weak;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;
use hermes_peer_proto::protocol::limits::MAX_SUBSCRIPTIONS;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::MAX_SEGMENT;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Topic;
use hermes_peer_proto::wire::TopicPattern;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::queue::Delivery;
pub(crate) use self::queue::Event;
pub(crate) use self::queue::EventQueue;
pub(crate) use self::rate::RateLimited;
pub(crate) use self::settings::EventSettings;
pub(crate) use self::settings::SubscribeRefused;
pub(crate) use self::settings::next_hops;

use self::rate::Rates;
use self::seen::Seen;

/// Subscribers in this process. Each has a queue of its own.
const MAX_SUBSCRIBERS: usize = 4_096;

/// For whom at a node an event is. The default, all who subscribed without a group, need not be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Whether for those who subscribed without a group.
    pub(crate) single: bool,
    /// For one member of each of these groups.
    pub(crate) groups: Vec<String>,
}

impl Default for Share {
    fn default() -> Self {
        Self { single: true, groups: Vec::new() }
    }
}

/// Where an event goes.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Subscribers in this process.
    pub(crate) local: Vec<Arc<EventQueue>>,
    /// Peers, each once.
    pub(crate) peers: Vec<(NodeId, Share)>,
}

/// Who wants which events, and what keeps events in bounds.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    settings: EventSettings,
    table: Mutex<Table>,
    revision: watch::Sender<u64>,
    seen: Mutex<Seen>,
    rates: Mutex<Rates>,
}

#[derive(Debug, Default)]
struct Table {
    local: BTreeMap<u64, Local>,
    next: u64,
    peers: BTreeMap<NodeId, Vec<Interest>>,
    /// Whose turn it is in each group.
    turns: HashMap<String, usize>,
    closed: bool,
}

#[derive(Debug)]
struct Local {
    interest: Interest,
    queue: Arc<EventQueue>,
}

enum Member<'a> {
    Local(&'a Arc<EventQueue>),
    Peer(&'a NodeId),
}

impl Subscriptions {
    /// Nobody wants anything yet.
    pub(crate) fn new(settings: EventSettings) -> Self {
        let rates = Mutex::new(Rates::new(settings.publish_rate, settings.publish_burst));
        let revision = watch::Sender::new(0);
        Self { settings, table: Mutex::default(), revision, seen: Mutex::default(), rates }
    }

    /// A subscriber in this process, until the subscription is dropped.
    ///
    /// # Errors
    /// [`SubscribeRefused`] if there are too many or the group's name has no or too many bytes.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        pattern: TopicPattern,
        group: Option<String>,
    ) -> Result<LocalSubscription, SubscribeRefused> {
        if let Some(length) =
            group.as_ref().map(String::len).filter(|length| !(1..=MAX_SEGMENT).contains(length))
        {
            return Err(SubscribeRefused::GroupName { length });
        }
        let interest = Interest { pattern, group };
        let queue = Arc::new(EventQueue::new(self.settings.queue_events, self.settings.queue_bytes));
        let mut table = self.table.lock();
        if table.local.len() >= MAX_SUBSCRIBERS {
            return Err(SubscribeRefused::TooMany { limit: MAX_SUBSCRIBERS, of: "subscribers" });
        }
        let is_new = !table.is_wanted(&interest);
        if is_new && table.interest().len() >= MAX_SUBSCRIPTIONS {
            return Err(SubscribeRefused::TooMany { limit: MAX_SUBSCRIPTIONS, of: "topic patterns" });
        }
        if table.closed {
            queue.close();
        }
        let id = table.next;
        table.next += 1;
        table.local.insert(id, Local { interest, queue: queue.clone() });
        if is_new {
            self.revision.send_modify(|revision| *revision += 1);
        }
        drop(table);
        Ok(LocalSubscription { id, queue, table: Arc::downgrade(self) })
    }

    /// What this node tells its neighbours: each pattern and group once, with the revision of the list.
    pub(crate) fn interest(&self) -> (u64, Vec<Interest>) {
        let table = self.table.lock();
        (*self.revision.borrow(), table.interest())
    }

    /// Changes when [`interest`](Self::interest) does.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// What a peer wants, in place of what it wanted before.
    pub(crate) fn set_peer(&self, peer: NodeId, mut interests: Vec<Interest>) {
        interests.sort();
        interests.dedup();
        interests.truncate(MAX_SUBSCRIPTIONS);
        let mut table = self.table.lock();
        table.peers.insert(peer, interests);
        table.forget_turns();
    }

    /// The peer is gone, and wants nothing.
    pub(crate) fn remove_peer(&self, peer: &NodeId) {
        let mut table = self.table.lock();
        table.peers.remove(peer);
        table.forget_turns();
    }

    /// Who gets an event that is published here: all who want it, and of each group the member whose turn it is. A peer
    /// counts as one member, however many it has.
    pub(crate) fn targets(&self, topic: &Topic) -> Targets {
        let mut guard = self.table.lock();
        let Table { local, peers, turns, .. } = &mut *guard;
        let mut targets = Targets::default();
        let mut shares: BTreeMap<&NodeId, Share> = BTreeMap::new();
        let mut groups: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
        for Local { interest, queue } in local.values().filter(|local| local.interest.pattern.covers(topic)) {
            match &interest.group {
                None => targets.local.push(queue.clone()),
                Some(group) => groups.entry(group).or_default().push(Member::Local(queue)),
            }
        }
        for (node, interests) in &*peers {
            for interest in interests.iter().filter(|interest| interest.pattern.covers(topic)) {
                let Some(group) = &interest.group else {
                    shares.insert(node, Share::default());
                    continue;
                };
                let members = groups.entry(group).or_default();
                if !matches!(members.last(), Some(Member::Peer(last)) if *last == node) {
                    members.push(Member::Peer(node));
                }
            }
        }
        for (group, members) in groups {
            match members[take_turn(turns, group, members.len())] {
                Member::Local(queue) => targets.local.push(queue.clone()),
                Member::Peer(node) => shares
                    .entry(node)
                    .or_insert_with(|| Share { single: false, groups: Vec::new() })
                    .groups
                    .push(group.to_owned()),
            }
        }
        targets.peers = shares.into_iter().map(|(node, share)| (node.clone(), share)).collect();
        targets
    }

    /// Who gets an event that came from a peer, which has chosen this node for `share`.
    pub(crate) fn receivers(&self, topic: &Topic, share: &Share) -> Vec<Arc<EventQueue>> {
        let mut guard = self.table.lock();
        let Table { local, turns, .. } = &mut *guard;
        let mut receivers = Vec::new();
        let mut groups: BTreeMap<&str, Vec<&Arc<EventQueue>>> = BTreeMap::new();
        for Local { interest, queue } in local.values().filter(|local| local.interest.pattern.covers(topic)) {
            match &interest.group {
                None if share.single => receivers.push(queue.clone()),
                Some(group) if share.groups.contains(group) => groups.entry(group).or_default().push(queue),
                _ => {}
            }
        }
        for (group, members) in groups {
            receivers.push(members[take_turn(turns, group, members.len())].clone());
        }
        receivers
    }

    /// A peer has lost `count` events that this node wanted by `interest`: told to those who want the same, at this
    /// place among their events. In a group it is told to one, so that the sum over its members is right.
    pub(crate) fn report_lag(&self, interest: &Interest, count: u64) {
        let mut guard = self.table.lock();
        let Table { local, turns, .. } = &mut *guard;
        let wanted = local.values().filter(|local| local.interest == *interest);
        let queues: Vec<_> = wanted.map(|local| &local.queue).collect();
        match &interest.group {
            None => queues.iter().for_each(|queue| queue.push_lag(count)),
            Some(group) if !queues.is_empty() => {
                queues[take_turn(turns, group, queues.len())].push_lag(count);
            }
            Some(_) => {}
        }
    }

    /// For what a peer wants an event on the topic of which it has this share: what it misses if the event is lost.
    pub(crate) fn wanted_by(&self, peer: &NodeId, topic: &Topic, share: &Share) -> Vec<Interest> {
        let is_meant = |interest: &&Interest| {
            let has_share = match &interest.group {
                None => share.single,
                Some(group) => share.groups.contains(group),
            };
            has_share && interest.pattern.covers(topic)
        };
        let table = self.table.lock();
        table.peers.get(peer).into_iter().flatten().filter(is_meant).cloned().collect()
    }

    /// Events that subscribers here have lost, all together.
    pub(crate) fn lost(&self) -> u64 {
        self.table.lock().local.values().map(|local| local.queue.lost()).sum()
    }

    /// Whether an event is seen for the first time. Keys belong to the agent that publishes; they are remembered for
    /// 2 minutes, and the last 65,536 of them.
    pub(crate) fn is_new(&self, publisher: &AgentUri, key: &str, now: Instant) -> bool {
        self.seen.lock().insert(publisher, key, now)
    }

    /// Whether this node may publish another event on the topic now.
    ///
    /// # Errors
    /// [`RateLimited`] if there were too many.
    pub(crate) fn admit(&self, topic: &Topic, now: Instant) -> Result<(), RateLimited> {
        self.rates.lock().admit(topic, now)
    }

    /// The end of the node: subscribers get what is in their queues, and then the end.
    pub(crate) fn close(&self) {
        let mut table = self.table.lock();
        table.closed = true;
        table.local.values().for_each(|local| local.queue.close());
    }

    fn unsubscribe(&self, id: u64) {
        let mut table = self.table.lock();
        let Some(local) = table.local.remove(&id) else {
            return;
        };
        table.forget_turns();
        if !table.is_wanted(&local.interest) {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }
}

impl Table {
    fn interest(&self) -> Vec<Interest> {
        let mut interests: Vec<_> = self.local.values().map(|local| local.interest.clone()).collect();
        interests.sort();
        interests.dedup();
        interests
    }

    fn is_wanted(&self, interest: &Interest) -> bool {
        self.local.values().any(|local| local.interest == *interest)
    }

    fn forget_turns(&mut self) {
        let Self { local, peers, turns, .. } = self;
        turns.retain(|group, _| {
            let wanted = local.values().map(|local| &local.interest).chain(peers.values().flatten());
            wanted.into_iter().any(|interest| interest.group.as_ref() == Some(group))
        });
    }
}

fn take_turn(turns: &mut HashMap<String, usize>, group: &str, members: usize) -> usize {
    if let Some(turn) = turns.get_mut(group) {
        *turn = turn.wrapping_add(1);
        return *turn % members;
    }
    turns.insert(group.to_owned(), 0);
    0
}

/// A subscriber's end of its queue. Dropped, it ends the subscription.
#[derive(Debug)]
pub(crate) struct LocalSubscription {
    id: u64,
    queue: Arc<EventQueue>,
    table: Weak<Subscriptions>,
}

/// Ends when the node has stopped.
impl Stream for LocalSubscription {
    type Item = Delivery;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        self.queue.poll_next(cx)
    }
}

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            table.unsubscribe(self.id);
        }
    }
}

#[cfg(test)]
mod tests;
