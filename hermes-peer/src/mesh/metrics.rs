//! How much of each limit is in use: a snapshot for people, programs and exporters.

use serde::Serialize;

use hermes_peer_proto::wire::CapabilityName;

use crate::mesh::Mesh;
use crate::mesh::idempotency::IdempotencyCounters;

/// How much of each limit of a node is in use now.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Peers with a link that works. `limits.max_connections` bounds it.
    pub linked_peers: usize,
    /// Connections that have not proven who they are. `limits.unauthenticated` bounds it.
    pub unauthenticated: usize,
    /// Calls of this node that wait for an answer, all links together. `limits.streams_per_link` bounds them on each.
    pub calls_waiting: u32,
    /// Calls of peers that this node has not answered yet, all links together.
    pub calls_running: u32,
    /// Bytes received and not read yet, all links together. `limits.link_window` bounds them on each.
    pub held_bytes: u64,
    /// Data frames sent and not acknowledged, all links together. `limits.retained_messages` bounds them on each.
    pub unacknowledged: u64,
    /// Sessions that this node holds. `session.max_sessions` bounds it.
    pub sessions: usize,
    /// Events that subscribers on this node have lost, all together, since it started.
    pub events_lost: u64,
    /// Answered and running calls with an idempotency key. `idempotency.max_keys` bounds it.
    pub idempotency_keys: usize,
    /// Bytes of the answers kept for them. `idempotency.max_bytes` bounds it.
    pub idempotency_bytes: usize,
    /// What happened to calls with a key since the node started.
    pub idempotency: IdempotencyCounters,
    /// Each capability's handlers.
    pub capabilities: Vec<CapabilityLoad>,
}

/// How busy one capability's handlers are.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CapabilityLoad {
    /// Which one.
    pub name: CapabilityName,
    /// Handlers that run. The capability's concurrency bounds them.
    pub running: u32,
    /// Calls that wait for a handler. The capability's queue bounds them.
    pub waiting: u32,
}

impl Mesh {
    pub(crate) fn metrics(&self) -> Metrics {
        let links: Vec<_> = self.peers.all().iter().filter_map(|peer| peer.link.load_full()).collect();
        let mut capabilities: Vec<_> = self
            .handlers
            .load()
            .values()
            .map(|registered| CapabilityLoad {
                name: registered.info.name.clone(),
                running: registered.admission.running(),
                waiting: registered.admission.waiting(),
            })
            .collect();
        capabilities.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Metrics {
            linked_peers: links.iter().filter(|link| link.is_connected()).count(),
            unauthenticated: self.strangers.count(),
            calls_waiting: links.iter().map(|link| link.open_calls()).sum(),
            calls_running: links.iter().map(|link| link.running_calls()).sum(),
            held_bytes: links.iter().map(|link| link.held_bytes()).sum(),
            unacknowledged: links.iter().map(|link| link.unacknowledged()).sum(),
            sessions: self.sessions.count(),
            events_lost: self.subscriptions.lost(),
            idempotency_keys: self.idempotency.count(),
            idempotency_bytes: self.idempotency.bytes(),
            idempotency: self.idempotency.counters(),
            capabilities,
        }
    }
}
