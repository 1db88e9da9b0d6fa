//! What a peer did that the protocol does not allow.

use super::version::VersionRange;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::MessageType;
use crate::wire::StreamId;
use crate::wire::WireError;

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
