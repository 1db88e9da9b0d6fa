//! Why a connection's driver ends.

use std::io;

use hermes_peer_proto::protocol::PeerMisbehaved;
use hermes_peer_proto::wire::WireError;

/// Why a driver came to its end.
#[derive(Debug)]
pub(crate) enum DriveEnd {
    /// The link is on another connection, or was ended: nothing to do.
    Superseded,
    /// This side closed it.
    Closed,
    /// The peer closed it without a word.
    ClosedByPeer,
    /// The connection broke.
    Lost(io::Error),
    /// The peer was silent for too long.
    Silent,
    /// Nothing could be written for too long.
    Stalled,
    /// The peer broke the protocol, or said that we did.
    Misbehaved(PeerMisbehaved),
}

impl DriveEnd {
    /// This side closes, and its last words are worth waiting for.
    pub(crate) fn is_by_this_side(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Misbehaved(error) => !matches!(error, PeerMisbehaved::Closed(_)),
            _ => false,
        }
    }
}

impl std::fmt::Display for DriveEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superseded => f.write_str("another connection carries the link"),
            Self::Closed => f.write_str("this node closed it"),
            Self::ClosedByPeer => f.write_str("the peer closed the connection"),
            Self::Lost(error) => write!(f, "the connection broke: {error}"),
            Self::Silent => f.write_str("the peer was silent for too long"),
            Self::Stalled => f.write_str("nothing could be written for 10 s"),
            Self::Misbehaved(error) => error.fmt(f),
        }
    }
}

impl From<WireError> for DriveEnd {
    fn from(error: WireError) -> Self {
        Self::Misbehaved(error.into())
    }
}
