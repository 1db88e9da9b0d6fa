//! Floor 1: the state machines of handshake and link. No sockets, no clock, no tasks: frames, commands and the time go
//! in; frames, notices and the next time to call come out.

mod error;
pub mod limits;
mod link;
mod notice;

pub use error::PeerMisbehaved;
pub use limits::LinkSettings;
pub use link::{
    DEFAULT_PRIORITY, Ended, Link, MAX_PRIORITY, OpenRefused, Outgoing, Read, Received, SEND_AHEAD,
    SendRefused, UNCOUNTED,
};
pub use notice::Notice;
