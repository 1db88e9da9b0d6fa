//! What the mesh is told before it starts, with the reason for each default.

use std::net::SocketAddr;
use std::time::Duration;

use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::protocol::VersionRange;
use hermes_peer_proto::protocol::limits::HANDSHAKE_TIMEOUT;
use hermes_peer_proto::protocol::limits::MAX_UNAUTHENTICATED;
use hermes_peer_proto::protocol::limits::MAX_UNAUTHENTICATED_PER_SOURCE;

use crate::mesh::admission::HandlerLimits;
use crate::transport::endpoint::Endpoint;
use crate::transport::memory::MemoryNetwork;
use crate::transport::tcp::TransportSettings;

/// How a node behaves in the mesh.
#[derive(Clone, Debug)]
pub(crate) struct MeshSettings {
    /// Where to listen; `None` for a node that only calls.
    pub(crate) listen: Option<SocketAddr>,
    /// Pipes inside this process in place of sockets: nodes listen and dial by node id.
    pub(crate) memory: Option<MemoryNetwork>,
    /// What others are told, if not where it listens.
    pub(crate) advertise: Vec<Endpoint>,
    pub(crate) link: LinkSettings,
    pub(crate) transport: TransportSettings,
    pub(crate) versions: VersionRange,
    /// Certificates come from the user's own development CA: peers are processes of the same user.
    pub(crate) is_same_user: bool,
    /// Known peers are dialled at once, not only when a call needs them.
    pub(crate) is_eager: bool,
    /// This node tells others on the machine that it is here, and looks for them.
    pub(crate) is_local: bool,
    pub(crate) call_timeout: Duration,
    pub(crate) provider_wait: Duration,
    pub(crate) max_hops: u8,
    pub(crate) max_connections: usize,
    pub(crate) unauthenticated: usize,
    pub(crate) unauthenticated_per_source: usize,
    pub(crate) handshake_timeout: Duration,
    pub(crate) reconnect_min: Duration,
    pub(crate) reconnect_max: Duration,
    pub(crate) link_park: Duration,
    pub(crate) secret_lifetime: Duration,
    pub(crate) drain_timeout: Duration,
    /// Of a capability that says nothing itself.
    pub(crate) handler_limits: HandlerLimits,
    /// Observations kept in memory.
    pub(crate) journal_records: usize,
}

impl Default for MeshSettings {
    fn default() -> Self {
        Self {
            listen: None,
            memory: None,
            advertise: Vec::new(),
            link: LinkSettings::default(),
            transport: TransportSettings::default(),
            versions: VersionRange::default(),
            is_same_user: false,
            is_eager: true,
            is_local: true,
            // A model's answer of medium length, and half of what most proxies allow.
            call_timeout: Duration::from_secs(30),
            // Long enough for agents that are started together, short enough for a person who mistyped a name.
            provider_wait: Duration::from_secs(5),
            max_hops: 16,
            max_connections: 1_024,
            unauthenticated: MAX_UNAUTHENTICATED,
            unauthenticated_per_source: MAX_UNAUTHENTICATED_PER_SOURCE,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(16),
            // Four times the default deadline of a call: later nobody waits for an answer any more.
            link_park: Duration::from_secs(120),
            secret_lifetime: Duration::from_secs(24 * 3600),
            drain_timeout: Duration::from_secs(30),
            handler_limits: HandlerLimits::default(),
            journal_records: 10_000,
        }
    }
}
