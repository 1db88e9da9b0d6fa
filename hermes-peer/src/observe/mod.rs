//! What happened on this node: a bounded record that the data path writes without ever waiting for a reader.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Serialize;
use serde::Serializer;
use tokio::sync::Notify;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::Topic;

/// Something that happened on a node.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Observation {
    /// Counts up by one on this node. A gap in what a reader gets is what it missed.
    pub number: u64,
    /// When, by this node's clock: microseconds since 1970.
    #[serde(serialize_with = "micros")]
    pub at: SystemTime,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A message was sent or received.
    Message(MessageSeen),
    /// The relation to a peer changed.
    Peer {
        /// Which peer.
        peer: NodeId,
        /// What it is now.
        state: PeerState,
        /// Why, for people.
        detail: String,
    },
}

/// The relation to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PeerState {
    /// A link is up.
    Linked,
    /// The link goes on over a new connection.
    Resumed,
    /// The connection is lost; the link waits for another.
    Suspended,
    /// There is no link any more.
    Down,
    /// The peer takes no new work.
    Draining,
    /// A connection or a dial was refused.
    Refused,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "there are two ways")]
pub enum Direction {
    /// From this node.
    Sent,
    /// To this node.
    Received,
}

/// What kind of message it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageKind {
    /// A call.
    Request,
    /// One item of a stream.
    Item,
    /// The result that ended a call.
    Response,
    /// The error that ended a call.
    Error,
    /// A published event.
    Event,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Item => "item",
            Self::Response => "response",
            Self::Error => "error",
            Self::Event => "event",
        })
    }
}

/// A message as an observer sees it: who to whom and about what, never its body.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MessageSeen {
    /// Which way.
    pub direction: Direction,
    /// What kind.
    pub message: MessageKind,
    /// The node at the other end.
    pub peer: NodeId,
    /// The agent at the other end.
    pub agent: AgentUri,
    /// The operation, unless it is an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityName>,
    /// What the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    /// The call that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The story that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<MessageId>,
    /// The collaboration that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Bytes of the body.
    pub bytes: usize,
    /// From the request to this message, of messages that follow a request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_millis", rename = "took_ms")]
    pub took: Option<Duration>,
    /// How the call ended, of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Slots whose values travelled with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots_read: Vec<SlotName>,
    /// Slots that it writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots_written: Vec<SlotName>,
}

fn micros<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    serializer.serialize_u64(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

fn optional_millis<S: Serializer>(took: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.map_or(0.0, |took| took.as_secs_f64() * 1000.0))
}

/// Keeps the last observations. Cheap to clone; all clones are one record.
#[derive(Clone, Debug)]
pub(crate) struct Observer(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    kept: Mutex<Kept>,
    capacity: usize,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Arc<Observation>>,
    next: u64,
    waiting: usize,
}

impl Observer {
    /// Keeps the last `capacity` observations; 0 keeps none.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Arc::new(Ring { kept: Mutex::default(), capacity, changed: Notify::new() }))
    }

    pub(crate) fn record(&self, what: What) {
        if self.0.capacity == 0 {
            return;
        }
        let mut kept = self.0.kept.lock();
        let observation = Observation { number: kept.next, at: SystemTime::now(), what };
        kept.next += 1;
        if kept.records.len() == self.0.capacity {
            kept.records.pop_front();
        }
        kept.records.push_back(Arc::new(observation));
        let is_awaited = std::mem::take(&mut kept.waiting) > 0;
        drop(kept);
        if is_awaited {
            self.0.changed.notify_waiters();
        }
    }

    /// What is kept of one session, oldest first.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<Arc<Observation>> {
        let belongs = |observation: &&Arc<Observation>| match &observation.what {
            What::Message(message) => message.session == Some(session),
            What::Peer { .. } => false,
        };
        self.0.kept.lock().records.iter().filter(belongs).cloned().collect()
    }

    /// All that is kept, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Observation>> {
        self.0.kept.lock().records.iter().cloned().collect()
    }

    /// What happens from now on.
    pub(crate) fn follow(&self) -> Observations {
        Observations { next: self.0.kept.lock().next, ring: self.0.clone() }
    }
}

/// Follows what happens on a node. A reader that is too slow misses the oldest: their number is told, and nobody waits
/// for it.
#[derive(Debug)]
pub struct Observations {
    ring: Arc<Ring>,
    next: u64,
}

impl Observations {
    /// The next observation, and how many were missed right before it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> (Arc<Observation>, u64) {
        loop {
            let changed = self.ring.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut kept = self.ring.kept.lock();
                let first = kept.next - kept.records.len() as u64;
                let missed = first.saturating_sub(self.next);
                let index = self.next.max(first) - first;
                if let Some(observation) = kept.records.get(usize::try_from(index).unwrap_or(usize::MAX)) {
                    self.next = first + index + 1;
                    return (observation.clone(), missed);
                }
                kept.waiting += 1;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn something(observer: &Observer) {
        let peer = "b-01".parse().unwrap();
        observer.record(What::Peer { peer, state: PeerState::Linked, detail: String::new() });
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_much_it_missed() {
        let observer = Observer::new(3);
        let mut reader = observer.follow();
        (0..5).for_each(|_| something(&observer));
        let (first, missed) = reader.next().await;
        assert_eq!((first.number, missed), (2, 2));
        let (second, missed) = reader.next().await;
        assert_eq!((second.number, missed), (3, 0));
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let observer = Observer::new(3);
        let mut reader = observer.follow();
        let waiting = tokio::spawn(async move { reader.next().await.0.number });
        tokio::task::yield_now().await;
        something(&observer);
        assert_eq!(waiting.await.unwrap(), 0);
    }
}
