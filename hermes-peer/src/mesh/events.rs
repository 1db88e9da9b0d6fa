//! Events on their way: from a publisher here to subscribers here and to the peers that want them, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Field;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::Message;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::Topic;

use hermes_peer_proto::security;
use hermes_peer_proto::security::Action;

use crate::link::LinkHandle;
use crate::mesh::handler::Body;
use crate::mesh::handler::Scope;
use crate::mesh::message::outgoing;
use crate::mesh::state::Mesh;
use crate::mesh::subscription::Event;
use crate::mesh::subscription::Share;
use crate::mesh::subscription::next_hops;
use crate::observe::Direction;
use crate::observe::MessageKind;
use crate::observe::MessageSeen;
use crate::observe::What;

/// Extra field of an event: for whom at the receiver it is, if not for all who subscribed without a group.
const SHARE: u16 = 1;
/// Extra field of an event without a topic: how many events were lost before it, by pattern and group.
const LAG: u16 = 2;

/// Events lost on the way to a peer and not told yet, by what they were wanted for.
pub(crate) type Lags = BTreeMap<NodeId, BTreeMap<Interest, u64>>;

/// An event that is to be published.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) topic: Topic,
    pub(crate) body: Body,
    pub(crate) key: Option<String>,
    pub(crate) session: Option<SessionId>,
    /// Hops of the event in whose handling this one is published.
    pub(crate) handling: Option<u8>,
    /// The call in whose handler it is published.
    pub(crate) parent: Option<Arc<Scope>>,
}

impl Mesh {
    /// Sends an event to all who want it. Gives how many nodes that were, this one included.
    ///
    /// # Errors
    /// `RATE_LIMITED` and `LOOP_DETECTED`.
    pub(crate) fn publish(&self, publication: Publication) -> Result<usize, Fault> {
        let Publication { topic, body, key, session, handling, parent } = publication;
        let now = Instant::now();
        let hops = next_hops(handling).map_err(|error| {
            tracing::warn!(%topic, "{error}");
            Fault::new(error.code(), error.to_string())
        })?;
        self.subscriptions.admit(&topic, now).map_err(|limited| {
            let mut fault = Fault::new(limited.code(), limited.to_string());
            fault.retry_after_ms = u64::try_from(limited.retry_after.as_millis()).ok();
            fault
        })?;
        let message_id = self.new_message_id();
        let mut envelope = Envelope::default();
        envelope.topic = Some(topic.clone());
        envelope.message_id = Some(message_id);
        envelope.idempotency_key = Some(key.unwrap_or_else(|| message_id.to_string()));
        envelope.hops = hops;
        envelope.session = session.or_else(|| parent.as_ref().and_then(|parent| parent.session));
        if let Some(parent) = parent {
            envelope.correlation_id = Some(parent.correlation_id);
            envelope.causation_id = Some(parent.message_id);
            envelope.trace = Some(parent.trace.clone());
        }
        envelope.content_type = body.content_type.clone();
        let targets = self.subscriptions.targets(&topic);
        let count = targets.peers.len() + usize::from(!targets.local.is_empty());
        if !targets.local.is_empty() {
            let key = envelope.idempotency_key.clone().unwrap_or_default();
            if self.subscriptions.is_new(&self.agent, &key, now) {
                let event = Arc::new(Event { topic, envelope: envelope.clone(), body: body.bytes.clone() });
                targets.local.iter().for_each(|queue| queue.push(event.clone()));
            }
        }
        // One that takes less than others keeps it from nobody else.
        let mut refused = None;
        for (node, share) in targets.peers {
            if let Err(fault) = self.send_event(&node, &share, envelope.clone(), &body) {
                refused.get_or_insert(fault);
            }
        }
        refused.map_or(Ok(count), Err)
    }

    fn send_event(
        &self,
        node: &NodeId,
        share: &Share,
        mut envelope: Envelope,
        body: &Body,
    ) -> Result<(), Fault> {
        let Some(link) = self.peers.get(node).and_then(|peer| peer.link.load_full()) else { return Ok(()) };
        if *share != Share::default() {
            envelope.extra.push(Field { tag: SHARE, mandatory: false, value: encode(share) });
        }
        let topic = envelope.topic.clone();
        let message = outgoing(&envelope, body)?;
        // What was lost before is told first: the gap stands where it was.
        let sent = if self.tell_lag(&link) { link.publish(message) } else { Err(SendRefused::Full) };
        match sent {
            Ok(()) => {
                self.observe_event(Direction::Sent, &link, &envelope, body.bytes.len());
                Ok(())
            }
            Err(SendRefused::TooLarge { got, limit }) => Err(Fault::new(
                ErrorCode::TooLarge,
                format!("the event has {got} bytes, {node} takes {limit} (`limits.max_message` there)"),
            )),
            Err(_) => {
                if let Some(topic) = topic {
                    let lost = self.subscriptions.wanted_by(node, &topic, share);
                    let mut lags = self.lags.lock();
                    let lags = lags.entry(node.clone()).or_default();
                    lost.into_iter().for_each(|interest| *lags.entry(interest).or_default() += 1);
                }
                Ok(())
            }
        }
    }

    /// Tells a peer how many events it lost. False if there is something to tell and no room for it yet.
    pub(crate) fn tell_lag(&self, link: &LinkHandle) -> bool {
        let mut lags = self.lags.lock();
        let Some(lost) = lags.get(link.peer().node()) else { return true };
        let lost: Vec<(Interest, u64)> =
            lost.iter().map(|(interest, count)| (interest.clone(), *count)).collect();
        let mut envelope = Envelope::default();
        envelope.lagged = lost.iter().map(|(_, count)| count).sum();
        envelope.extra.push(Field { tag: LAG, mandatory: false, value: encode(&lost) });
        let told = outgoing(&envelope, &Body::raw(bytes::Bytes::new()))
            .is_ok_and(|message| link.publish(message).is_ok());
        if told {
            lags.remove(link.peer().node());
        }
        told
    }

    /// An event has come from a peer.
    pub(crate) fn event_arrived(&self, link: &LinkHandle, message: &Message) {
        let Ok(envelope) = Envelope::decode(&message.envelope) else {
            tracing::debug!(peer = %link.peer().node(), "an event does not parse and is passed over");
            return;
        };
        let field =
            |tag: u16| envelope.extra.iter().find(|field| field.tag == tag).map(|field| &field.value[..]);
        if envelope.lagged > 0 {
            let of_all =
                || self.subscriptions.interest().1.into_iter().map(|of| (of, envelope.lagged)).collect();
            let lost = field(LAG).and_then(decode::<Vec<(Interest, u64)>>).unwrap_or_else(of_all);
            lost.iter().for_each(|(interest, count)| self.subscriptions.report_lag(interest, *count));
        }
        let Some(topic) = envelope.topic.clone() else { return };
        let publisher = link.peer().agent();
        let who = security::Caller {
            agent: publisher,
            node: link.peer().node(),
            is_same_user: self.settings.is_same_user,
        };
        if !self.policy.load().decide(&who, Action::Publish { topic: &topic }).allowed {
            if let Some(unsaid) = self.stranger_log.turn() {
                tracing::warn!(%publisher, %topic, unsaid, "an event is passed over: policy does not allow it");
            }
            return;
        }
        let key = envelope.idempotency_key.clone().unwrap_or_default();
        if !key.is_empty() && !self.subscriptions.is_new(publisher, &key, Instant::now()) {
            return;
        }
        let share = field(SHARE).and_then(decode::<Share>).unwrap_or_default();
        self.observe_event(Direction::Received, link, &envelope, message.body.len());
        // The body shares the memory of a whole read: what waits in queues must be its own.
        let body = bytes::Bytes::copy_from_slice(&message.body);
        let event = Arc::new(Event { topic: topic.clone(), envelope, body });
        self.subscriptions.receivers(&topic, &share).iter().for_each(|queue| queue.push(event.clone()));
    }

    /// What a peer subscribes to, as far as policy lets it.
    pub(crate) fn set_interests(&self, link: &LinkHandle, interests: Vec<Interest>) {
        let who = security::Caller {
            agent: link.peer().agent(),
            node: link.peer().node(),
            is_same_user: self.settings.is_same_user,
        };
        let policy = self.policy.load();
        let may = |interest: &Interest| {
            policy.decide(&who, Action::Subscribe { pattern: &interest.pattern }).allowed
        };
        self.subscriptions.set_peer(link.peer().node().clone(), interests.into_iter().filter(may).collect());
    }

    /// Tells a peer what is subscribed to here.
    pub(crate) fn subscribe_to(&self, link: &LinkHandle) {
        let (revision, interests) = self.subscriptions.interest();
        link.subscribe(revision, interests);
    }

    /// Tells every peer whenever that changes.
    pub(crate) async fn look_after_interests(self: Arc<Self>) {
        let mut revision = self.subscriptions.revision();
        // Something may have been subscribed to, and a link come up, before this task had its first turn.
        revision.mark_changed();
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                changed = revision.changed() => if changed.is_err() { return },
            }
            for peer in self.peers.all() {
                if let Some(link) = peer.link.load_full() {
                    self.subscribe_to(&link);
                }
            }
        }
    }

    fn observe_event(&self, direction: Direction, link: &LinkHandle, envelope: &Envelope, bytes: usize) {
        self.observer.record(What::Message(MessageSeen {
            direction,
            message: MessageKind::Event,
            peer: link.peer().node().clone(),
            agent: link.peer().agent().clone(),
            capability: None,
            topic: envelope.topic.clone(),
            message_id: envelope.message_id,
            trace_id: envelope.correlation_id.or(envelope.message_id),
            session: envelope.session,
            bytes,
            took: None,
            code: None,
            slots_read: Vec::new(),
            slots_written: Vec::new(),
        }));
    }
}

fn encode(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("names and numbers are what postcard can always write")
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}
