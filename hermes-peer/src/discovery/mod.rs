//! Where other nodes are. Being seen is a hint where to dial and never a reason to trust.
//!
//! Sources run side by side and report what changes into one bounded channel; the peer table merges by node id.

pub(crate) mod local;
pub(crate) mod watch;

use futures_util::future::BoxFuture;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::NodeId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::transport::endpoint::Endpoint;

/// Changes that wait for the peer table: a burst of a whole local folder is taken in a few turns, and a source waits
/// where it would run ahead.
pub(crate) const CHANGES: usize = 64;

/// Who told where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceKind {
    /// The configuration file.
    File,
    /// This machine's folder of running nodes.
    Local,
    /// Multicast DNS.
    Mdns,
    /// A registry.
    Registry,
    /// The wide-area network.
    WideArea,
}

/// A node as a source saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// The node.
    pub(crate) node: NodeId,
    /// What it says its agent is; proven only by a handshake.
    pub(crate) agent: Option<AgentUri>,
    /// Where it can be dialled, the best first.
    pub(crate) endpoints: Vec<Endpoint>,
    /// What it is said to offer; the node itself tells what is true.
    pub(crate) capabilities: Vec<CapabilityName>,
    /// Who told.
    pub(crate) source: SourceKind,
    /// When.
    pub(crate) seen: Instant,
}

impl Sighting {
    /// Whether it says the same as another one, whenever that was.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        (&self.node, &self.agent, &self.endpoints, &self.capabilities)
            == (&other.node, &other.agent, &other.endpoints, &other.capabilities)
    }
}

/// What a source reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A node is there, or what is known about it changed.
    Seen(Sighting),
    /// The source no longer knows the node. No reason to close a good link.
    Gone(NodeId),
}

/// One way to learn where nodes are.
pub(crate) trait Source: Send {
    /// Which one.
    fn kind(&self) -> SourceKind;

    /// Reports changes until nobody listens or there is nothing more to report.
    fn run(self: Box<Self>, changes: mpsc::Sender<Change>) -> BoxFuture<'static, ()>;
}
