//! Floor 1: the state machines of handshake and link. No sockets, no clock, no randomness, no tasks: frames, commands, the
//! time and random bytes go in; frames, notices and the next time to call come out.

mod error;
pub mod handshake;
pub mod limits;
mod link;
mod misbehaviour;
mod notice;
mod tiebreak;
mod version;

pub use error::{HandshakeError, Incompatible, Refused};
pub use limits::LinkSettings;
pub use link::{
    DEFAULT_PRIORITY, Ended, Link, MAX_PRIORITY, OpenRefused, Outgoing, Read, Received, SEND_AHEAD,
    SendRefused, UNCOUNTED,
};
pub use misbehaviour::PeerMisbehaved;
pub use notice::Notice;
pub use tiebreak::{Contender, Survivor, survivor};
pub use version::VersionRange;
