//! The peer table: one entry per node id, with everything that is known of it and how it is known.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::NodeId;

use crate::discovery::Sighting;
use crate::discovery::SourceKind;
use crate::link::LinkHandle;
use crate::mesh::route::Score;
use crate::transport::endpoint::Endpoint;

/// Peers that the table holds. Beyond it newly seen ones are not taken up; those that link always are.
const MAX_PEERS: usize = 10_000;
/// Addresses kept of one peer. Discovery must not grow a peer without bound.
const MAX_ADDRESSES: usize = 32;

/// Every peer that this node knows of.
#[derive(Debug, Default)]
pub(crate) struct PeerTable {
    peers: Mutex<HashMap<NodeId, Arc<Peer>>>,
}

/// Another node, as this one knows it.
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) state: Mutex<PeerFacts>,
    /// The link that carries new calls, connected or waiting for a connection.
    pub(crate) link: ArcSwapOption<LinkHandle>,
    /// What it provides to us, as it last said.
    pub(crate) advertised: ArcSwap<Vec<Arc<CapabilityInfo>>>,
    pub(crate) score: Score,
    /// Told when the link or the addresses change.
    pub(crate) changed: Notify,
}

/// What is known of a peer besides its link.
#[derive(Debug, Default)]
pub(crate) struct PeerFacts {
    pub(crate) agent: Option<AgentUri>,
    /// The agent that the configuration says it is: another one is refused.
    pub(crate) expected_agent: Option<AgentUri>,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) addresses: Vec<Address>,
    /// Capabilities that a file or record lists for it.
    pub(crate) listed: Vec<CapabilityName>,
    /// A task keeps dialling it.
    pub(crate) is_dialled: bool,
    /// Somebody wants it: dial now rather than at leisure.
    pub(crate) is_wanted: bool,
    /// Attempts since the last link.
    pub(crate) failures: u32,
    pub(crate) last_error: Option<String>,
    /// The last attempt failed for a reason that may pass by itself.
    pub(crate) is_retry_useful: bool,
    pub(crate) is_draining: bool,
    /// It has said what it provides.
    pub(crate) is_known: bool,
    pub(crate) linked_since: Option<Instant>,
    /// Who dialled the connection that is up, and how many connections its link has had.
    pub(crate) dialled_here: bool,
    pub(crate) connections: u32,
}

/// One place where a peer may be.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) endpoint: Endpoint,
    pub(crate) source: SourceKind,
    pub(crate) seen: Instant,
    /// The last time that a handshake there proved it to be this peer.
    pub(crate) proven: Option<Instant>,
    pub(crate) last_error: Option<String>,
}

impl PeerTable {
    pub(crate) fn get(&self, node: &NodeId) -> Option<Arc<Peer>> {
        self.peers.lock().get(node).cloned()
    }

    /// The entry for a node that has linked or is about to.
    pub(crate) fn entry(&self, node: &NodeId) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        peers.entry(node.clone()).or_insert_with(|| Arc::new(Peer::new(node.clone()))).clone()
    }

    /// Takes up what a source has seen. `None` if the table is full.
    pub(crate) fn sighted(&self, sighting: &Sighting, now: Instant) -> Option<Arc<Peer>> {
        let known = self.get(&sighting.node);
        let peer = match known {
            Some(peer) => peer,
            None if self.peers.lock().len() >= MAX_PEERS => return None,
            None => self.entry(&sighting.node),
        };
        peer.sighted(sighting, now);
        Some(peer)
    }

    /// A source no longer vouches for a peer. A good link is never closed for that.
    pub(crate) fn gone(&self, node: &NodeId, source: SourceKind) {
        let Some(peer) = self.get(node) else { return };
        let is_forgotten = {
            let mut facts = peer.state.lock();
            facts.addresses.retain(|address| address.source != source);
            facts.addresses.is_empty() && peer.link.load().is_none()
        };
        if is_forgotten {
            self.peers.lock().remove(node);
        }
        peer.changed.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<Arc<Peer>> {
        let mut all: Vec<_> = self.peers.lock().values().cloned().collect();
        all.sort_unstable_by(|one, other| one.node.cmp(&other.node));
        all
    }

    /// How many peers have a link that works.
    pub(crate) fn linked(&self) -> usize {
        self.peers.lock().values().filter(|peer| peer.is_linked()).count()
    }

    /// Forgets a peer that nothing is known of but a link that is over.
    pub(crate) fn forget_if_unknown(&self, peer: &Arc<Peer>) {
        let mut peers = self.peers.lock();
        if peer.link.load().is_none() && peer.state.lock().addresses.is_empty() {
            peers.remove(&peer.node);
        }
    }
}

impl Peer {
    fn new(node: NodeId) -> Self {
        Self {
            node,
            state: Mutex::default(),
            link: ArcSwapOption::empty(),
            advertised: ArcSwap::default(),
            score: Score::default(),
            changed: Notify::new(),
        }
    }

    fn sighted(&self, sighting: &Sighting, now: Instant) {
        let mut facts = self.state.lock();
        if facts.agent.is_none() {
            facts.agent.clone_from(&sighting.agent);
        }
        if sighting.source == SourceKind::File {
            facts.expected_agent.clone_from(&sighting.agent);
        }
        for name in &sighting.capabilities {
            if !facts.listed.contains(name) {
                facts.listed.push(name.clone());
            }
        }
        let mut unknown = Vec::new();
        for endpoint in &sighting.endpoints {
            let known = facts.addresses.iter_mut().find(|address| address.endpoint == *endpoint);
            match known {
                Some(address) => (address.source, address.seen) = (sighting.source, now),
                None => unknown.push(Address {
                    endpoint: endpoint.clone(),
                    source: sighting.source,
                    seen: now,
                    proven: None,
                    last_error: None,
                }),
            }
        }
        let room = MAX_ADDRESSES.saturating_sub(facts.addresses.len());
        facts.addresses.extend(unknown.into_iter().take(room));
        drop(facts);
        self.changed.notify_waiters();
    }

    /// The link, if it can carry a call now.
    pub(crate) fn ready_link(&self) -> Option<Arc<LinkHandle>> {
        self.link.load_full().filter(|link| link.is_connected())
    }

    /// The link that calls go over: of two that were made at the same moment not the one that goes.
    pub(crate) fn calling_link(&self) -> Option<Arc<LinkHandle>> {
        self.link.load_full().filter(|link| link.takes_calls())
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.ready_link().is_some()
    }

    /// Addresses in the order of trying: proven ones first, the latest proof first, then the latest seen.
    pub(crate) fn addresses(&self) -> Vec<Endpoint> {
        let mut addresses = self.state.lock().addresses.clone();
        addresses.sort_by_key(|address| std::cmp::Reverse((address.proven, address.seen)));
        addresses.into_iter().map(|address| address.endpoint).collect()
    }

    /// A file names it: it is dialled whether it is needed or not.
    pub(crate) fn is_configured(&self) -> bool {
        self.state.lock().addresses.iter().any(|address| address.source == SourceKind::File)
    }

    /// An attempt failed. True if it failed for another reason than the last one.
    pub(crate) fn note_failure(&self, endpoint: &Endpoint, error: &str, is_retry_useful: bool) -> bool {
        let mut facts = self.state.lock();
        let is_news = facts.last_error.as_deref() != Some(error);
        facts.last_error = Some(error.to_owned());
        facts.is_retry_useful = is_retry_useful;
        if let Some(address) = facts.addresses.iter_mut().find(|address| address.endpoint == *endpoint) {
            address.last_error = Some(error.to_owned());
        }
        is_news
    }

    pub(crate) fn note_proof(&self, endpoint: &Endpoint, now: Instant) {
        let mut facts = self.state.lock();
        if let Some(address) = facts.addresses.iter_mut().find(|address| address.endpoint == *endpoint) {
            address.proven = Some(now);
            address.last_error = None;
        }
    }

    /// Whether it may provide this, as far as is known without a link.
    pub(crate) fn may_provide(&self, capability: &CapabilityName) -> bool {
        let facts = self.state.lock();
        !facts.addresses.is_empty() && (facts.listed.is_empty() || facts.listed.contains(capability))
    }

    /// Whether it provides this and takes no new calls.
    pub(crate) fn is_draining_from(&self, capability: &CapabilityName) -> bool {
        self.state.lock().is_draining && self.advertised.load().iter().any(|info| info.name == *capability)
    }

    /// Asks for a link now.
    pub(crate) fn want(&self) {
        self.state.lock().is_wanted = true;
        self.changed.notify_waiters();
    }

    pub(crate) fn view(&self, now: Instant) -> PeerView {
        let facts = self.state.lock();
        let link = self.link.load_full();
        let state = match &link {
            Some(link) if link.is_connected() && facts.is_draining => LinkState::Draining,
            Some(link) if link.is_connected() => LinkState::Linked,
            Some(_) => LinkState::Suspended,
            None if facts.failures > 0 => LinkState::Unreachable,
            None => LinkState::Known,
        };
        let age = |at: Instant| now.saturating_duration_since(at).as_secs_f64();
        PeerView {
            node_id: self.node.clone(),
            agent: facts.agent.clone(),
            state,
            version: link.as_ref().and_then(|link| link.version()),
            round_trip_ms: link
                .as_ref()
                .and_then(|link| link.round_trip())
                .map(|time| time.as_secs_f64() * 1e3),
            load: link.as_ref().map(|link| link.peer_load()),
            linked_for_s: facts.linked_since.map(age),
            addresses: facts
                .addresses
                .iter()
                .map(|address| AddressView {
                    address: address.endpoint.to_string(),
                    source: address.source,
                    seen_s_ago: age(address.seen),
                    proven_s_ago: address.proven.map(age),
                    error: address.last_error.clone(),
                })
                .collect(),
            capabilities: self.advertised.load().iter().map(|info| info.name.clone()).collect(),
            error: facts.last_error.clone(),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("node", &self.node).finish_non_exhaustive()
    }
}

/// How things stand with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LinkState {
    /// Known and not tried yet.
    Known,
    /// A link is up.
    Linked,
    /// A link is up and takes no new calls.
    Draining,
    /// The connection is lost; the link waits for another.
    Suspended,
    /// Every attempt has failed so far.
    Unreachable,
}

/// A peer, for people and programs to look at.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeerView {
    /// Its name.
    pub node_id: NodeId,
    /// Its logical identity, once known.
    pub agent: Option<AgentUri>,
    /// How things stand.
    pub state: LinkState,
    /// Protocol version spoken.
    pub version: Option<u8>,
    /// Smoothed round trip, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// How busy it says it is, from 0 to 100.
    pub load: Option<u8>,
    /// Seconds since the link came up.
    pub linked_for_s: Option<f64>,
    /// Where it may be, and how that is known.
    pub addresses: Vec<AddressView>,
    /// What it provides to us.
    pub capabilities: Vec<CapabilityName>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// One place where a peer may be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AddressView {
    /// Host and port.
    pub address: String,
    /// Who told us.
    pub source: SourceKind,
    /// When, in seconds before now.
    pub seen_s_ago: f64,
    /// When a handshake there last proved it to be this peer, in seconds before now.
    pub proven_s_ago: Option<f64>,
    /// Why the last attempt there failed.
    pub error: Option<String>,
}
