//! What ends a handshake or a link, by whose fault, and under which code.

use super::version::VersionRange;
use crate::security::IdentityError;
use crate::wire::AgentUri;
use crate::wire::AuthKind;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::Frame;
use crate::wire::MessageType;
use crate::wire::NodeId;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::TokenId;
use crate::wire::WireError;

/// Longest piece of a peer's message that a text of ours repeats, in characters: a line of a log.
const REPEATED: usize = 200;

/// The peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// Bytes that do not parse.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Another frame than the handshake calls for.
    #[error("{} on stream {stream} in the handshake, {} on stream 0 expected", got.name(), expected.name())]
    UnexpectedFrame {
        /// What the handshake calls for.
        expected: MessageType,
        /// What came.
        got: MessageType,
        /// On which stream.
        stream: StreamId,
    },
    /// A range of versions that contains none.
    #[error(
        "versions {min} to {max} announced, which is no range: the lowest is 1, the highest not below it"
    )]
    BadVersionRange {
        /// The lowest announced.
        min: u8,
        /// The highest announced.
        max: u8,
    },
    /// The acceptor chose a version that was not offered.
    #[error("version {picked} chosen, of {offered} offered")]
    WrongPick {
        /// What it chose.
        picked: u8,
        /// What this side offered.
        offered: VersionRange,
    },
    /// The acceptor's answer refers to a resume that was not asked for, or answers it wrongly.
    #[error("SYN_ACK answers the wish to resume wrongly: {why}")]
    WrongResume {
        /// What is wrong with it.
        why: &'static str,
    },
    /// More token ids than a node can hold.
    #[error("{count} token ids offered, at most {limit} are taken")]
    TooManyTokenIds {
        /// How many.
        count: usize,
        /// How many are taken.
        limit: usize,
    },
    /// The acceptor named no token, or one that was not offered.
    #[error("the token chosen was not offered")]
    WrongToken,
    /// A limit so low that nothing could be sent.
    #[error("{name} of {got} announced, at least {least} is needed")]
    BadLimit {
        /// Which limit.
        name: &'static str,
        /// What the peer announced.
        got: u32,
        /// What is needed.
        least: u32,
    },
    /// A message that has no place here.
    #[error("{} where it has no place", got.name())]
    UnexpectedMessage {
        /// What came.
        got: MessageType,
    },
    /// A frame on a stream that nobody opened.
    #[error("a frame on stream {stream}, which is not open")]
    UnknownStream {
        /// Its number.
        stream: u32,
    },
    /// A stream opened under a number that was used or passed over.
    #[error("stream {stream} opened twice or out of order")]
    StreamReused {
        /// Its number.
        stream: u32,
    },
    /// More streams than announced.
    #[error("more than {limit} streams open at once")]
    TooManyStreams {
        /// What we announced.
        limit: u32,
    },
    /// More bytes than granted.
    #[error("{got} bytes sent on stream {stream}, {limit} were granted")]
    WindowOverrun {
        /// The stream; 0 for events.
        stream: u32,
        /// Bytes so far.
        got: u64,
        /// Bytes granted so far.
        limit: u64,
    },
    /// A data frame longer than announced.
    #[error("a chunk of {got} bytes, {limit} are taken here")]
    ChunkTooLong {
        /// Its length.
        got: usize,
        /// What we announced.
        limit: u32,
    },
    /// A message longer than announced.
    #[error("a message of {got} bytes on stream {stream}, {limit} are taken here")]
    MessageTooLong {
        /// The stream; 0 for events.
        stream: u32,
        /// Its length.
        got: u64,
        /// What we announced.
        limit: u64,
    },
    /// A frame after the end.
    #[error("a frame on stream {stream} after its FIN")]
    AfterEnd {
        /// Its number.
        stream: u32,
    },
    /// A stream whose answer ends without RESPONSE or ERROR.
    #[error("stream {stream} ended without RESPONSE or ERROR")]
    EndWithoutAnswer {
        /// Its number.
        stream: u32,
    },
    /// An answer that does not end its stream.
    #[error("the answer on stream {stream} carries no FIN")]
    AnswerWithoutEnd {
        /// Its number.
        stream: u32,
    },
    /// A message that is not continued.
    #[error("a message on stream {stream} is cut short")]
    CutMessage {
        /// Its number.
        stream: u32,
    },
    /// Frames that carry nothing.
    #[error("too many empty frames on stream {stream}")]
    EmptyFrames {
        /// Its number.
        stream: u32,
    },
    /// Acknowledges more than was sent.
    #[error("{got} data frames acknowledged, {sent} were sent")]
    AckOfUnsent {
        /// The count in the acknowledgement.
        got: u64,
        /// Frames sent on this connection and before.
        sent: u64,
    },
    /// Resumes at a place that cannot be.
    #[error("resumes after data frame {got}; {acked} were acknowledged and {sent} sent")]
    ResumeOutOfRange {
        /// The count in the handshake.
        got: u64,
        /// Frames that had been acknowledged.
        acked: u64,
        /// Frames sent.
        sent: u64,
    },
    /// Parts of an advertisement in the wrong order.
    #[error("part {part} of an advertisement is out of order")]
    AdvertiseOutOfOrder {
        /// Which part.
        part: u32,
    },
    /// More capabilities than a peer may advertise.
    #[error("more than {limit} capabilities advertised")]
    TooManyCapabilities {
        /// The limit.
        limit: usize,
    },
    /// More patterns than a peer may subscribe to.
    #[error("more than {limit} subscriptions")]
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// The peer closed the connection and said why.
    #[error("the peer closed the connection: {}: {}", .0.code, .0.message)]
    Closed(Box<Fault>),
}

impl PeerMisbehaved {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Wire(error) => error.code(),
            Self::WindowOverrun { .. } | Self::ChunkTooLong { .. } | Self::MessageTooLong { .. } => {
                ErrorCode::TooLarge
            }
            Self::TooManyStreams { .. }
            | Self::TooManyCapabilities { .. }
            | Self::TooManySubscriptions { .. } => ErrorCode::Overloaded,
            Self::Closed(fault) => fault.code,
            _ => ErrorCode::InvalidFrame,
        }
    }
}

/// Both sides keep to the protocol, and yet cannot speak with each other as they are set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incompatible {
    /// No version in common.
    #[error("this side speaks protocol versions {ours}, the peer {theirs}: update the older one")]
    Versions {
        /// What this side speaks.
        ours: VersionRange,
        /// What the peer speaks.
        theirs: VersionRange,
    },
    /// The peer insists on something that this side does not know.
    #[error("the peer's {message} has mandatory field {tag}, which is unknown here: update this side")]
    MandatoryField {
        /// The message that carries it.
        message: &'static str,
        /// The field's tag.
        tag: u16,
    },
    /// The sides are set up to prove themselves differently.
    #[error("this side is set up for auth mode {}, the peer for {}: set both to the same", ours.name(), theirs.name())]
    AuthKind {
        /// What this side is set up for.
        ours: AuthKind,
        /// What the peer is set up for.
        theirs: AuthKind,
    },
}

impl Incompatible {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Versions { .. } | Self::MandatoryField { .. } => ErrorCode::VersionUnsupported,
            Self::AuthKind { .. } => ErrorCode::Unauthenticated,
        }
    }
}

/// The peer is not, or has not shown to be, who it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The proof does not hold: another key or token, a changed message, or somebody in between.
    #[error("the peer's proof ({}) does not hold: wrong key, changed messages or somebody in between", kind.name())]
    Proof {
        /// What it was to be made with.
        kind: AuthKind,
    },
    /// None of the peer's tokens is known here.
    #[error("none of the peer's tokens is known here, it tried {}", ids(tried))]
    UnknownTokens {
        /// Their ids.
        tried: Vec<TokenId>,
    },
    /// TLS brought no certificate of the peer.
    #[error("the peer presented no certificate")]
    NoCertificate,
    /// The certificate names no agent.
    #[error("the peer's certificate is refused")]
    Certificate(#[source] IdentityError),
    /// The peer claims to be another agent than its certificate says.
    #[error("the peer says that it is {found}, its certificate is for {expected}")]
    AgentMismatch {
        /// The certificate's agent.
        expected: AgentUri,
        /// The agent in its SYN or SYN_ACK.
        found: AgentUri,
    },
    /// Another agent answers than was dialled.
    #[error("{expected} was dialled, {found} answered")]
    WrongAgent {
        /// Who was dialled.
        expected: AgentUri,
        /// Who answered.
        found: AgentUri,
    },
    /// Another node answers than was dialled.
    #[error("node {expected} was dialled, {found} answered")]
    WrongNode {
        /// Who was dialled.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// The connection leads back to this process.
    #[error("the connection leads back to this node, {node}")]
    SelfConnection {
        /// This node.
        node: NodeId,
    },
    /// Another process uses this node's id.
    #[error("another process uses the node id {node} of this one: give each its own")]
    TwinNode {
        /// The id of both.
        node: NodeId,
    },
}

impl Refused {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::SelfConnection { .. } => ErrorCode::LoopDetected,
            _ => ErrorCode::Unauthenticated,
        }
    }
}

/// Why a handshake came to no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer broke the protocol.
    #[error(transparent)]
    Misbehaved(#[from] PeerMisbehaved),
    /// Nobody's fault but the set-up's.
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    /// The peer is not who it must be.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The peer refuses this side.
    #[error("the peer refused: {} ({})", .0.code, repeated(&.0.message))]
    RefusedByPeer(Fault),
}

impl From<WireError> for HandshakeError {
    fn from(error: WireError) -> Self {
        Self::Misbehaved(error.into())
    }
}

impl HandshakeError {
    /// The outcome's code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Misbehaved(cause) => cause.code(),
            Self::Incompatible(cause) => cause.code(),
            Self::Refused(cause) => cause.code(),
            Self::RefusedByPeer(fault) => fault.code,
        }
    }

    /// Whether the usual back-off is right. Otherwise nothing changes until somebody changes the set-up of either side:
    /// report it, and look again only now and then.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::RefusedByPeer(fault) => fault.code.is_retryable(),
            Self::Misbehaved(_) | Self::Incompatible(_) | Self::Refused(_) => false,
        }
    }

    /// The frame that tells the peer, to be sent before the connection is closed; none if it was the peer who refused. It
    /// says to a stranger what it may know: the code's sentence and, where the peer needs them to mend its set-up, both
    /// version ranges, the unknown field or the ids of its own tokens.
    pub fn refusal(&self) -> Option<Frame> {
        let text = match self {
            Self::RefusedByPeer(_) => return None,
            Self::Incompatible(Incompatible::Versions { ours, theirs }) => {
                format!("versions {ours} are spoken here, {theirs} were offered")
            }
            Self::Incompatible(Incompatible::MandatoryField { message, tag }) => {
                format!("mandatory field {tag} of {message} is unknown here")
            }
            Self::Incompatible(Incompatible::AuthKind { ours, theirs }) => {
                format!("auth mode {} is used here, {} was offered", ours.name(), theirs.name())
            }
            Self::Refused(Refused::UnknownTokens { tried }) => {
                format!("none of the tokens offered is known here: {}", ids(tried))
            }
            _ => self.code().sentence().to_owned(),
        };
        let fault = Fault::new(self.code(), text);
        Some(Frame::control(MessageType::Error, StreamId::LINK, fault.encode()))
    }
}

fn ids(tokens: &[TokenId]) -> String {
    if tokens.is_empty() {
        return "no token".to_owned();
    }
    tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A stranger's text, on one line.
fn repeated(message: &str) -> String {
    message.chars().take(REPEATED).flat_map(char::escape_debug).collect()
}
