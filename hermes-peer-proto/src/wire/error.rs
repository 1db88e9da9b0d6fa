//! What can be wrong with bytes.

use super::code::ErrorCode;

/// Bytes that are not what `docs/PROTOCOL.md` says. Always the sender's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first four bytes are not `HRMS`.
    #[error("frame starts with {got:02x?} instead of 48 52 4d 53 (\"HRMS\")")]
    BadMagic {
        /// The bytes that stood there.
        got: [u8; 4],
    },
    /// The frame's version is not the one spoken on this connection.
    #[error("frame of protocol version {got} on a connection that speaks {expected}")]
    WrongVersion {
        /// The version in the header.
        got: u8,
        /// The version negotiated.
        expected: u8,
    },
    /// A flag bit that has no meaning is set.
    #[error("reserved flag bits set in {got:#010b}")]
    ReservedFlags {
        /// The whole flags byte.
        got: u8,
    },
    /// A flag that this message type cannot carry, or lacks.
    #[error("flags {got:#010b} do not fit message type {message_type}")]
    WrongFlags {
        /// The whole flags byte.
        got: u8,
        /// Number of the message type.
        message_type: u8,
    },
    /// No message type has this number.
    #[error("unknown message type {got}")]
    UnknownType {
        /// The number in the header.
        got: u8,
    },
    /// The header announces more than the receiver takes.
    #[error("payload of {got} bytes, at most {limit} are taken here")]
    TooLong {
        /// Announced length, in bytes.
        got: u32,
        /// The limit, in bytes.
        limit: u32,
    },
    /// A payload or envelope that does not parse.
    #[error("{what} does not decode: {why}")]
    Malformed {
        /// The structure that was expected.
        what: &'static str,
        /// What stood in the way.
        why: &'static str,
    },
    /// Bytes are left over after a complete structure.
    #[error("{count} bytes too many after {what}")]
    TrailingBytes {
        /// The structure that ended.
        what: &'static str,
        /// How many bytes follow.
        count: usize,
    },
}

impl WireError {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLong { .. } => ErrorCode::TooLarge,
            _ => ErrorCode::InvalidFrame,
        }
    }

    pub(crate) fn malformed(what: &'static str, error: postcard::Error) -> Self {
        let why = match error {
            postcard::Error::DeserializeUnexpectedEnd => "it ends too early",
            postcard::Error::DeserializeBadVarint => "a number is too long",
            postcard::Error::DeserializeBadUtf8 => "text is not UTF-8",
            postcard::Error::DeserializeBadBool | postcard::Error::DeserializeBadOption => {
                "a presence byte is neither 0 nor 1"
            }
            postcard::Error::DeserializeBadEnum => "a variant is unknown",
            _ => "a field has a value that is not allowed",
        };
        Self::Malformed { what, why }
    }
}
