//! The unit on the wire, free of how it is encoded.

use bytes::Bytes;

use super::header::Flags;
use super::header::Header;
use super::header::MessageType;
use super::id::StreamId;

/// One frame: a control statement of the link, or a piece of a stream's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the header's fields are fixed by the wire format")]
pub struct Frame {
    /// What the payload is.
    pub message_type: MessageType,
    /// The flag bits.
    pub flags: Flags,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// What follows the header.
    pub payload: Bytes,
}

impl Frame {
    /// A frame that states something about the link (stream 0) or about a stream. It is not counted.
    pub fn control(message_type: MessageType, stream: StreamId, payload: impl Into<Bytes>) -> Self {
        let flags = match message_type {
            MessageType::Error => Flags::CONTROL.with(Flags::ERR),
            _ => Flags::CONTROL,
        };
        Self { message_type, flags, stream, payload: payload.into() }
    }

    /// A frame with a piece of a stream's messages. `fin` says that it is the sender's last one on the stream.
    pub fn data(message_type: MessageType, stream: StreamId, fin: bool, payload: Bytes) -> Self {
        let fin_flag = if fin { Flags::FIN } else { Flags::NONE };
        let err_flag = if message_type == MessageType::Error { Flags::ERR } else { Flags::NONE };
        Self { message_type, flags: fin_flag.with(err_flag), stream, payload }
    }

    /// Whether the frame is counted and, on a link that resumes, sent again until acknowledged.
    pub fn is_data(&self) -> bool {
        !self.flags.contains(Flags::CONTROL)
    }

    /// Whether the sender sends no more on the stream.
    pub fn is_fin(&self) -> bool {
        self.flags.contains(Flags::FIN)
    }

    /// The header that stands before the payload on a connection that speaks `version`.
    ///
    /// # Panics
    /// If the payload is longer than a `u32` can say; the link cuts messages into chunks far below that.
    pub fn header(&self, version: u8) -> Header {
        let payload_len = u32::try_from(self.payload.len()).expect("chunks are far shorter than 4 GiB");
        Header {
            version,
            flags: self.flags,
            message_type: self.message_type,
            stream: self.stream.0,
            payload_len,
        }
    }
}
