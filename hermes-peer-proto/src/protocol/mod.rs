//! Floor 1: the protocol's state machines. No I/O, no clock, no randomness: all three are arguments.

mod error;
pub mod handshake;
mod limits;
mod tiebreak;
mod version;

pub use error::{HandshakeError, Incompatible, PeerMisbehaved, Refused};
pub use limits::{
    DEFAULT_ANNOUNCED, HANDSHAKE_TIMEOUT, MAX_HANDSHAKE_PAYLOAD, MAX_UNAUTHENTICATED,
    MAX_UNAUTHENTICATED_PER_SOURCE, MIN_CHUNK, MIN_HEARTBEAT_MS,
};
pub use tiebreak::{Contender, Survivor, survivor};
pub use version::VersionRange;
