//! Payloads of control frames.
//!
//! Each states a fact, never a change: a count so far, a limit so far, all that is provided. Stating it again does no
//! harm, so after a resume every statement that still holds is simply made anew.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::code::ErrorCode;
use super::error::WireError;
use super::id::AgentUri;
use super::id::Epoch;
use super::id::LinkId;
use super::id::NodeId;
use super::id::TopicPattern;
use super::info::CapabilityInfo;

/// Bytes of a nonce, of a proof by token and of a link's secret.
pub const SECRET_LEN: usize = 32;

/// What a later version may add to a message that has ended. A receiver that does not know the tag passes over an
/// optional field and refuses a mandatory one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the extension point is fixed for good")]
pub struct Field {
    /// Which field it is.
    pub tag: u16,
    /// Whether a receiver that does not know it must refuse the message.
    pub mandatory: bool,
    /// What it says.
    pub value: Vec<u8>,
}

/// How a node proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AuthKind {
    /// By the key of a certificate that carries the agent, on both sides.
    Mtls,
    /// By a secret that both know.
    Token,
}

impl AuthKind {
    /// The word in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mtls => "mtls",
            Self::Token => "token",
        }
    }
}

/// What a side is prepared to receive. Each binds the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "new limits travel as fields of the handshake"
)]
pub struct Announced {
    /// Longest message, envelope and body together, in bytes.
    pub max_message: u32,
    /// Longest payload of a data frame, in bytes.
    pub max_chunk: u32,
    /// Bytes that may be sent on a stream before the receiver grants more.
    pub stream_window: u32,
    /// Bytes that may be sent on all streams together before the receiver grants more.
    pub link_window: u32,
    /// Bytes of events that may be sent before the receiver grants more.
    pub event_window: u32,
    /// Streams that the other side may have open at once.
    pub max_streams: u32,
    /// A heartbeat is sent after this much silence, in milliseconds: what counts is the sender's own figure.
    pub heartbeat_ms: u32,
}

/// Handshake, first message, from the side that dials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added travels in `fields`")]
pub struct Syn {
    /// Lowest protocol version spoken.
    pub min_version: u8,
    /// Highest protocol version spoken.
    pub max_version: u8,
    /// Who dials.
    pub agent: AgentUri,
    /// The process that dials.
    pub node: NodeId,
    /// Its start.
    pub epoch: Epoch,
    /// 32 random bytes.
    pub nonce: [u8; SECRET_LEN],
    /// How both will prove who they are.
    pub auth: AuthKind,
    /// Ids of the tokens that the dialler holds, if the proof is by token. An id is a fingerprint and gives nothing away.
    pub token_ids: Vec<TokenId>,
    /// What the dialler takes.
    pub announced: Announced,
    /// The link to go on with, if any.
    pub resume: Option<Resume>,
    /// What later versions add.
    pub fields: Vec<Field>,
}

/// Names a token without giving it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a fingerprint is eight bytes")]
pub struct TokenId(pub [u8; 8]);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The wish to go on with a link over this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "what is added travels in the handshake's fields"
)]
pub struct Resume {
    /// Which link.
    pub link: LinkId,
    /// Data frames of the other side that the dialler has received on it.
    pub received: u64,
    /// Shows that the dialler holds the link's secret.
    pub proof: [u8; SECRET_LEN],
}

/// Handshake, second message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added travels in `fields`")]
pub struct SynAck {
    /// The version spoken from here on.
    pub version: u8,
    /// Who answers.
    pub agent: AgentUri,
    /// The process that answers.
    pub node: NodeId,
    /// Its start.
    pub epoch: Epoch,
    /// 32 random bytes.
    pub nonce: [u8; SECRET_LEN],
    /// Which of the dialler's tokens the proofs are keyed by.
    pub token_id: Option<TokenId>,
    /// What the answering side takes.
    pub announced: Announced,
    /// Hash over the capabilities that it provides, so that a dialler who knows them need not ask.
    pub capability_digest: [u8; SECRET_LEN],
    /// The link that this connection carries from here on.
    pub link: LinkId,
    /// How the wish to resume was answered.
    pub resumed: Resumed,
    /// What later versions add.
    pub fields: Vec<Field>,
}

/// The answer to a wish to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what is added travels in the handshake's fields"
)]
pub enum Resumed {
    /// Nothing was asked for: a new link.
    New,
    /// The link goes on; this many data frames of the dialler have been received on it.
    Yes {
        /// Data frames received.
        received: u64,
    },
    /// A new link: the old one cannot go on.
    No {
        /// Data frames received on the old link, where that is still known: what was acknowledged thereby did arrive.
        received: Option<u64>,
    },
}

/// Handshake, third message. It carries the initiator's proof only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added travels in `fields`")]
pub struct Established {
    /// What later versions add.
    pub fields: Vec<Field>,
}

/// How many data frames the sender has received on this link so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "one number")]
pub struct Ack {
    /// Data frames received, all connections of the link together.
    pub received: u64,
}

/// How many bytes may be sent so far, counted from the start of the stream or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Window {
    /// On a stream: its bytes. On stream 0: the bytes of all streams together.
    pub limit: u64,
    /// On stream 0: the bytes of events. On a stream: 0.
    pub events: u64,
}

/// The opener no longer wants the stream's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "one code")]
pub struct Cancel {
    /// Why: `CANCELLED` or `DEADLINE_EXCEEDED`.
    pub code: ErrorCode,
}

/// A sign of life, and the sender's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added takes a type of its own")]
pub struct Heartbeat {
    /// The sender's start.
    pub epoch: Epoch,
    /// Data frames received, as in an acknowledgement.
    pub received: u64,
    /// Sent back by the receiver unchanged, with the ACK flag: the round trip is measured by it.
    pub token: u64,
    /// How busy the sender is, from 0 to 100.
    pub load: u8,
}

/// One part of all that the sender provides. A new revision replaces the former one when its last part is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "capabilities carry their own extension fields"
)]
pub struct Advertise {
    /// Greater than the one before.
    pub revision: u64,
    /// Which part this is, from 0.
    pub part: u32,
    /// How many parts there are, at least 1.
    pub parts: u32,
    /// The capabilities of this part.
    pub capabilities: Vec<CapabilityInfo>,
}

/// All topics that the sender wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added takes a type of its own")]
pub struct Subscribe {
    /// Greater than the one before; a smaller one is out of date and ignored.
    pub revision: u64,
    /// The patterns, each once.
    pub subscriptions: Vec<Interest>,
}

/// One pattern that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added takes a type of its own")]
pub struct Interest {
    /// Topics wanted.
    pub pattern: TopicPattern,
    /// The group that shares the events: one member gets each.
    pub group: Option<String>,
}

/// The sender takes no new streams on this connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added takes a type of its own")]
pub struct GoAway {
    /// Why.
    pub reason: GoAwayReason,
    /// The greatest stream of the receiver's that was taken up; later ones were not touched and are safe to send
    /// elsewhere. The maximum while the sender does not know yet.
    pub last_stream: u32,
    /// For people.
    pub message: String,
}

/// Why a connection takes no new streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum GoAwayReason {
    /// The node is shutting down.
    Draining,
    /// Another connection between the two nodes carries the link.
    Duplicate,
    /// The certificate in use has expired or was revoked.
    Unauthenticated,
    /// The receiver floods.
    RateLimited,
    /// The receiver broke the protocol.
    Misbehaved,
}

/// An error as it travels: payload of an ERROR frame on stream 0, body of an ERROR message on a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added travels in `details`")]
pub struct Fault {
    /// What kind of error.
    pub code: ErrorCode,
    /// What failed, where, whose fault, what to do. Without secrets: a stranger may read it.
    pub message: String,
    /// For programs: a JSON text, or empty.
    pub details: String,
    /// When to try again, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Whether the handler may have run.
    pub may_have_run: bool,
    /// The node where it happened, if that is not the sender.
    pub node: Option<NodeId>,
}

impl Fault {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: String::new(),
            retry_after_ms: None,
            may_have_run: false,
            node: None,
        }
    }

    /// When to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// A payload that is one postcard value.
pub trait Payload: Serialize + DeserializeOwned {
    /// What it is called in documents and errors.
    const NAME: &'static str;

    /// The payload's bytes.
    ///
    /// # Panics
    /// Never: these types hold nothing that postcard cannot write.
    fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("payload types hold only what postcard can write")
            .into()
    }

    /// Reads the value at the front and gives back what follows it.
    ///
    /// # Errors
    /// [`WireError::Malformed`] if it does not parse.
    fn take(bytes: &[u8]) -> Result<(Self, &[u8]), WireError> {
        postcard::take_from_bytes(bytes).map_err(|error| WireError::malformed(Self::NAME, error))
    }

    /// Reads a whole payload.
    ///
    /// # Errors
    /// [`WireError::Malformed`] if it does not parse, [`WireError::TrailingBytes`] if something follows.
    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (value, rest) = Self::take(bytes)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(WireError::TrailingBytes {
                what: Self::NAME,
                count: rest.len(),
            })
        }
    }
}

macro_rules! payloads {
    ($($name:ident $text:literal)*) => { $(impl Payload for $name { const NAME: &'static str = $text; })* };
}

payloads! {
    Syn "SYN"
    SynAck "SYN_ACK"
    Established "ESTABLISHED"
    Ack "ACK"
    Window "WINDOW"
    Cancel "CANCEL"
    Heartbeat "HEARTBEAT"
    Advertise "ADVERTISE"
    Subscribe "SUBSCRIBE"
    GoAway "GO_AWAY"
    Fault "ERROR"
}
