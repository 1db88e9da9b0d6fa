//! Floor 0: bytes on the wire and what they say.
//!
//! ```text
//!  0     4  5  6  7        11       15
//!  +-----+--+--+--+--------+--------+----------------------------+
//!  |HRMS |v |f |t | stream | length | payload (length bytes)     |
//!  +-----+--+--+--+--------+--------+----------------------------+
//!         |  |  |   little-endian
//!         |  |  message type
//!         |  flags: ACK FIN ERR COMPRESSED ENCRYPTED . . CONTROL
//!         protocol version
//! ```
//!
//! Payloads of control frames are postcard values ([`Payload`]). Data frames carry pieces of a stream's messages, each of
//! which is a [`Prelude`], an [`Envelope`] and a body. `docs/PROTOCOL.md` has all of it in numbered sentences.

mod code;
mod codec;
mod control;
mod envelope;
mod error;
mod frame;
mod header;
mod id;
mod info;
mod message;

pub use code::{ErrorCode, UnknownCode};
pub use codec::{Batch, Decoder};
pub use control::{
    Ack, Advertise, Announced, AuthKind, Cancel, Established, Fault, Field, GoAway, GoAwayReason, Heartbeat,
    Interest, Payload, Resume, Resumed, SECRET_LEN, Subscribe, Syn, SynAck, TokenId, Window,
};
pub use envelope::{
    ContentType, Envelope, Hop, MAX_ENVELOPE, MAX_KEY, MAX_TRACE_STATE, Merge, Outcome, SlotValue, Target,
    Trace,
};
pub use error::WireError;
pub use frame::Frame;
pub use header::{Flags, HEADER_LEN, Header, MAGIC, MessageType, VERSION_MAX, VERSION_MIN};
pub use id::{
    AgentUri, CapabilityName, Epoch, InvalidName, LinkId, MAX_CAPABILITY, MAX_SEGMENT, MAX_TOPIC, MessageId,
    NodeId, SessionId, Side, SlotName, StreamId, Topic, TopicPattern,
};
pub use info::{Access, CapabilityInfo, CapabilityVersion, Facts, InvalidVersion};
pub use message::{Message, Prelude, encode_head};
