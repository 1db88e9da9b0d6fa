//! The node itself: its tables, and what its links hand upward.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::protocol::handshake::Local;
use hermes_peer_proto::security::Credentials;
use hermes_peer_proto::security::Policy;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SECRET_LEN;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::StreamId;

use crate::discovery::local::Announcement;
use crate::link::LinkHandle;
use crate::link::Upward;
use crate::mesh::dispatch::Registered;
use crate::mesh::events::Lags;
use crate::mesh::idempotency::Idempotency;
use crate::mesh::order::Order;
use crate::mesh::participation::SessionUse;
use crate::mesh::peers::Peer;
use crate::mesh::peers::PeerTable;
use crate::mesh::route::Provider;
use crate::mesh::session::Sessions;
use crate::mesh::settings::MeshSettings;
use crate::mesh::strangers::LogGate;
use crate::mesh::strangers::Strangers;
use crate::mesh::subscription::Subscriptions;
use crate::observe::Direction;
use crate::observe::MessageKind;
use crate::observe::MessageSeen;
use crate::observe::Observer;
use crate::observe::PeerState;
use crate::observe::What;
use crate::transport::reload::TlsContext;
use crate::transport::tls::TlsConnection;

/// A node in the mesh. Held by everything that acts for it.
pub(crate) struct Mesh {
    pub(crate) node: NodeId,
    pub(crate) agent: AgentUri,
    pub(crate) epoch: Epoch,
    pub(crate) settings: MeshSettings,
    pub(crate) address: OnceLock<SocketAddr>,
    pub(crate) observer: Observer,
    pub(crate) peers: PeerTable,
    pub(crate) sessions: Sessions,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) policy: ArcSwap<Policy>,
    pub(crate) tracker: TaskTracker,
    pub(crate) shutdown: CancellationToken,
    pub(super) tls: TlsContext,
    pub(super) tokens: Option<Arc<TokenSet>>,
    pub(super) handlers: ArcSwap<HashMap<CapabilityName, Arc<Registered>>>,
    /// Who provides what, among the peers that are linked.
    pub(super) providers: ArcSwap<HashMap<CapabilityName, Vec<Provider>>>,
    pub(super) revision: AtomicU64,
    /// Told when providers change, or an attempt to reach one has failed.
    /// Events that peers have lost and do not know of yet.
    pub(super) lags: Mutex<Lags>,
    pub(super) news: Notify,
    pub(super) strangers: Strangers,
    pub(super) stranger_log: LogGate,
    pub(super) is_draining: AtomicBool,
    pub(super) announcement: Mutex<Option<Announcement>>,
    pub(super) myself: OnceLock<std::sync::Weak<Self>>,
}

/// An answer as observers see it.
pub(crate) struct AnswerSeen<'a> {
    pub(crate) direction: Direction,
    pub(crate) kind: MessageKind,
    pub(crate) peer: &'a NodeId,
    pub(crate) agent: &'a AgentUri,
    pub(crate) capability: &'a CapabilityName,
    pub(crate) message_id: MessageId,
    pub(crate) trace_id: MessageId,
    pub(crate) session: Option<SessionId>,
    pub(crate) bytes: usize,
    pub(crate) took: Duration,
    pub(crate) code: Option<ErrorCode>,
    pub(crate) slots_written: Vec<SlotName>,
}

impl Mesh {
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// An id that sorts by time and is unique (UUID version 7).
    pub(crate) fn new_message_id(&self) -> MessageId {
        MessageId::from_bytes(uuid::Uuid::now_v7().into_bytes())
    }

    pub(super) fn nonce(&self) -> [u8; SECRET_LEN] {
        let mut nonce = [0; SECRET_LEN];
        let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
        random.fill(&mut nonce).expect("the system's random source works, or TLS would not either");
        nonce
    }

    /// What this node says of itself in a handshake on this connection.
    pub(super) fn local(&self, connection: &TlsConnection) -> Local {
        let credentials = match (connection.prover(), &self.tokens) {
            (Some(key), _) => Credentials::Mtls { key },
            (None, tokens) => {
                let tokens =
                    tokens.clone().expect("a node has a certificate or tokens: its start sees to that");
                Credentials::Token(tokens)
            }
        };
        Local {
            agent: self.agent.clone(),
            node: self.node.clone(),
            epoch: self.epoch,
            announced: self.settings.link.announced,
            credentials,
            capability_digest: [0; SECRET_LEN],
            versions: self.settings.versions,
        }
    }

    pub(super) fn upward(self: &Arc<Self>) -> Arc<dyn Upward> {
        self.clone()
    }

    /// A link is up, or goes on.
    pub(super) fn linked(self: &Arc<Self>, peer: &Arc<Peer>, link: &Arc<LinkHandle>, is_resumed: bool) {
        {
            let mut facts = peer.state.lock();
            facts.linked_since = Some(tokio::time::Instant::now());
            facts.failures = 0;
            facts.last_error = None;
            facts.is_draining = false;
        }
        let identity = link.peer();
        if is_resumed {
            tracing::debug!(peer = %peer.node, "link resumed");
            self.observe_peer(&peer.node, PeerState::Resumed, identity.agent().as_str());
        } else {
            tracing::info!(peer = %peer.node, agent = %identity.agent(), "peer up");
            self.observe_peer(&peer.node, PeerState::Linked, identity.agent().as_str());
            peer.score.start_over();
            self.advertise_to(link);
            self.subscribe_to(link);
        }
        peer.changed.notify_waiters();
        self.news.notify_waiters();
    }

    pub(super) fn observe_peer(&self, peer: &NodeId, state: PeerState, detail: &str) {
        self.observer.record(What::Peer { peer: peer.clone(), state, detail: detail.to_owned() });
    }

    pub(super) fn observe_call(
        &self,
        peer: &Peer,
        order: &Order,
        message_id: MessageId,
        slots_read: Vec<SlotName>,
    ) {
        let Some(link) = peer.link.load_full() else { return };
        self.observer.record(What::Message(MessageSeen {
            direction: Direction::Sent,
            message: MessageKind::Request,
            peer: peer.node.clone(),
            agent: link.peer().agent().clone(),
            capability: Some(order.capability.clone()),
            topic: None,
            message_id: Some(message_id),
            trace_id: Some(order.parent.as_ref().map_or(message_id, |parent| parent.correlation_id)),
            session: order.session.as_ref().map(SessionUse::id),
            bytes: order.body.bytes.len(),
            took: None,
            code: None,
            slots_read,
            slots_written: Vec::new(),
        }));
    }

    pub(super) fn observe_answer(&self, seen: AnswerSeen<'_>) {
        self.observer.record(What::Message(MessageSeen {
            direction: seen.direction,
            message: seen.kind,
            peer: seen.peer.clone(),
            agent: seen.agent.clone(),
            capability: Some(seen.capability.clone()),
            topic: None,
            message_id: Some(seen.message_id),
            trace_id: Some(seen.trace_id),
            session: seen.session,
            bytes: seen.bytes,
            took: Some(seen.took),
            code: seen.code,
            slots_read: Vec::new(),
            slots_written: seen.slots_written,
        }));
    }

    /// The peer at the other end of a link, if the link is its current one.
    pub(super) fn peer_of(&self, link: &LinkHandle) -> Option<Arc<Peer>> {
        let peer = self.peers.get(link.peer().node())?;
        let is_current = peer.link.load().as_ref().is_some_and(|current| current.is_same(link));
        is_current.then_some(peer)
    }
}

impl Upward for Mesh {
    fn request(&self, link: &LinkHandle, stream: StreamId) {
        if let Some(mesh) = self.myself.get().and_then(std::sync::Weak::upgrade) {
            mesh.serve(link, stream);
        }
    }

    fn advertised(&self, link: &LinkHandle, capabilities: Vec<CapabilityInfo>) {
        let Some(peer) = self.peer_of(link) else { return };
        // What a later version says must be understood is not: that capability alone is left out.
        let is_understood = |info: &CapabilityInfo| !info.extra.iter().any(|field| field.mandatory);
        let understood = capabilities.into_iter().filter(is_understood).map(Arc::new).collect();
        peer.advertised.store(Arc::new(understood));
        // In this order: whoever sees that the peer is known finds in the index what it provides.
        self.rebuild_providers();
        peer.state.lock().is_known = true;
        self.news.notify_waiters();
    }

    fn subscribed(&self, link: &LinkHandle, interests: Vec<Interest>) {
        if self.peer_of(link).is_some() {
            self.set_interests(link, interests);
        }
    }

    fn events(&self, link: &LinkHandle, events: Vec<Received>) {
        for event in events {
            self.event_arrived(link, &event.message);
        }
    }

    fn events_writable(&self, link: &LinkHandle) {
        self.tell_lag(link);
    }

    fn going_away(&self, link: &LinkHandle, statement: GoAway) {
        let Some(peer) = self.peer_of(link) else { return };
        if statement.reason == GoAwayReason::Draining {
            peer.state.lock().is_draining = true;
            self.observe_peer(&peer.node, PeerState::Draining, &statement.message);
        }
        self.rebuild_providers();
    }

    fn exhausted(&self, link: &LinkHandle) {
        // The next dial resumes the link, on which numbers then start over.
        if let Some(peer) = self.peer_of(link) {
            link.detach();
            peer.changed.notify_waiters();
        }
    }
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mesh").field("node", &self.node).field("agent", &self.agent).finish_non_exhaustive()
    }
}
