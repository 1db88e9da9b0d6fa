//! The fifteen bytes before every payload.

use std::fmt;

use super::error::WireError;

/// Bytes of a header.
pub const HEADER_LEN: usize = 15;
/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"HRMS";
/// Lowest protocol version spoken: the base protocol.
pub const VERSION_MIN: u8 = 1;
/// Highest protocol version spoken: adds links that resume over a new connection.
pub const VERSION_MAX: u8 = 2;

const VERSION_AT: usize = 4;
const FLAGS_AT: usize = 5;
const TYPE_AT: usize = 6;
const STREAM_AT: usize = 7;
const LENGTH_AT: usize = 11;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum MessageType {
    /// Handshake, first message: who dials and what it speaks.
    Syn = 1,
    /// Handshake, second message: who answers, the version chosen, its proof.
    SynAck = 2,
    /// Handshake, third message: the initiator's proof.
    Established = 3,
    /// Opens a stream: a call.
    Request = 4,
    /// Ends the acceptor's half of a stream: the result.
    Response = 5,
    /// Items of a stream, in either direction.
    Stream = 6,
    /// A published event.
    Event = 7,
    /// A sign of life, with the sender's state.
    Heartbeat = 8,
    /// Ends a stream or, on stream 0, the connection with an error.
    Error = 9,
    /// How many data frames have been received.
    Ack = 10,
    /// How much may be sent.
    Window = 11,
    /// The opener no longer wants a stream's answer.
    Cancel = 12,
    /// The capabilities that the sender provides.
    Advertise = 13,
    /// The topics that the sender wants.
    Subscribe = 14,
    /// The sender takes no new streams.
    GoAway = 15,
}

impl MessageType {
    /// Every type, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Syn,
        Self::SynAck,
        Self::Established,
        Self::Request,
        Self::Response,
        Self::Stream,
        Self::Event,
        Self::Heartbeat,
        Self::Error,
        Self::Ack,
        Self::Window,
        Self::Cancel,
        Self::Advertise,
        Self::Subscribe,
        Self::GoAway,
    ];

    /// The number in the header.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in documents and tools.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "SYN",
            Self::SynAck => "SYN_ACK",
            Self::Established => "ESTABLISHED",
            Self::Request => "REQUEST",
            Self::Response => "RESPONSE",
            Self::Stream => "STREAM",
            Self::Event => "EVENT",
            Self::Heartbeat => "HEARTBEAT",
            Self::Error => "ERROR",
            Self::Ack => "ACK",
            Self::Window => "WINDOW",
            Self::Cancel => "CANCEL",
            Self::Advertise => "ADVERTISE",
            Self::Subscribe => "SUBSCRIBE",
            Self::GoAway => "GO_AWAY",
        }
    }

    /// Whether frames of this type carry messages of users: they are counted, acknowledged and sent again after a
    /// resume. An ERROR on stream 0 is the one exception: it ends the connection and is control.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Request | Self::Response | Self::Stream | Self::Event | Self::Error)
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            n @ 1..=15 => Some(Self::ALL[n as usize - 1]),
            _ => None,
        }
    }
}

/// The flag bits of a frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// The frame answers one of its type: on a HEARTBEAT.
    pub const ACK: Self = Self(1);
    /// The sender sends no more on this stream.
    pub const FIN: Self = Self(1 << 1);
    /// The stream ends with an error.
    pub const ERR: Self = Self(1 << 2);
    /// The payload is compressed. No version up to 2 negotiates compression, so a frame that carries it is refused.
    pub const COMPRESSED: Self = Self(1 << 3);
    /// The payload is encrypted for the receiver. No version up to 2 negotiates it, so a frame that carries it is refused.
    pub const ENCRYPTED: Self = Self(1 << 4);
    /// A control frame; without it a data frame.
    pub const CONTROL: Self = Self(1 << 7);

    const RESERVED: u8 = 0b0110_0000;

    /// These bits and the other's.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of the other are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The byte in the header.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags in a header's byte.
    ///
    /// # Errors
    /// [`WireError::ReservedFlags`] if a bit without meaning is set.
    pub const fn from_bits(bits: u8) -> Result<Self, WireError> {
        if bits & Self::RESERVED != 0 {
            return Err(WireError::ReservedFlags { got: bits });
        }
        Ok(Self(bits))
    }

    /// The names of the bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::ACK, "ACK"),
            (Self::FIN, "FIN"),
            (Self::ERR, "ERR"),
            (Self::COMPRESSED, "COMPRESSED"),
            (Self::ENCRYPTED, "ENCRYPTED"),
            (Self::CONTROL, "CONTROL"),
        ]
        .into_iter()
        .filter(move |(flag, _)| self.contains(*flag))
        .map(|(_, name)| name)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.write_str(if names.is_empty() { "-" } else { "" })?;
        f.write_str(&names.join("|"))
    }
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Protocol version spoken on the connection.
    pub version: u8,
    /// The flag bits.
    pub flags: Flags,
    /// What the payload is.
    pub message_type: MessageType,
    /// The stream it belongs to; 0 for the link.
    pub stream: u32,
    /// Bytes that follow the header.
    pub payload_len: u32,
}

impl Header {
    /// Reads a header. Its version is not judged here: that is the connection's to know.
    ///
    /// # Errors
    /// A [`WireError`] that names the first field that is wrong.
    pub fn parse(raw: &[u8; HEADER_LEN]) -> Result<Self, WireError> {
        let [m0, m1, m2, m3, version, flags, message_type, s0, s1, s2, s3, l0, l1, l2, l3] = *raw;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(WireError::BadMagic { got: [m0, m1, m2, m3] });
        }
        let message_type =
            MessageType::from_number(message_type).ok_or(WireError::UnknownType { got: message_type })?;
        let header = Self {
            version,
            flags: Flags::from_bits(flags)?,
            message_type,
            stream: u32::from_le_bytes([s0, s1, s2, s3]),
            payload_len: u32::from_le_bytes([l0, l1, l2, l3]),
        };
        header.check_flags()?;
        Ok(header)
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut raw = [0; HEADER_LEN];
        raw[..VERSION_AT].copy_from_slice(&MAGIC);
        raw[VERSION_AT] = self.version;
        raw[FLAGS_AT] = self.flags.bits();
        raw[TYPE_AT] = self.message_type.number();
        raw[STREAM_AT..LENGTH_AT].copy_from_slice(&self.stream.to_le_bytes());
        raw[LENGTH_AT..].copy_from_slice(&self.payload_len.to_le_bytes());
        raw
    }

    /// CONTROL stands exactly on frames that are not counted, so that a reader who knows no types still counts right.
    fn check_flags(&self) -> Result<(), WireError> {
        let is_data =
            self.message_type.is_data() && !(self.message_type == MessageType::Error && self.stream == 0);
        let fits = is_data != self.flags.contains(Flags::CONTROL)
            && !self.flags.contains(Flags::COMPRESSED)
            && !self.flags.contains(Flags::ENCRYPTED)
            && (self.message_type == MessageType::Heartbeat || !self.flags.contains(Flags::ACK))
            && (self.message_type == MessageType::Error) == self.flags.contains(Flags::ERR)
            && (is_data || !self.flags.contains(Flags::FIN));
        if fits {
            Ok(())
        } else {
            Err(WireError::WrongFlags { got: self.flags.bits(), message_type: self.message_type.number() })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A REQUEST on stream 3 that is the caller's last word, with 5 bytes to follow.
    const GOLDEN: [u8; HEADER_LEN] = [
        0x48, 0x52, 0x4d, 0x53, // magic
        0x02, // version
        0x02, // FIN
        0x04, // REQUEST
        0x03, 0x00, 0x00, 0x00, // stream 3
        0x05, 0x00, 0x00, 0x00, // payload of 5 bytes
    ];

    #[test]
    fn the_header_has_the_documented_bytes() {
        let header = Header {
            version: 2,
            flags: Flags::FIN,
            message_type: MessageType::Request,
            stream: 3,
            payload_len: 5,
        };
        assert_eq!(header.encode(), GOLDEN);
        assert_eq!(Header::parse(&GOLDEN), Ok(header));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let with = |at: usize, byte: u8| {
            let mut raw = GOLDEN;
            raw[at] = byte;
            Header::parse(&raw)
        };
        assert_eq!(with(0, 0x49), Err(WireError::BadMagic { got: *b"IRMS" }));
        assert_eq!(with(5, 0x20), Err(WireError::ReservedFlags { got: 0x20 }));
        assert_eq!(with(6, 16), Err(WireError::UnknownType { got: 16 }));
        assert_eq!(with(6, 0), Err(WireError::UnknownType { got: 0 }));
        for flags in [0x80, 0x08, 0x10, 0x01, 0x04] {
            assert_eq!(with(5, flags), Err(WireError::WrongFlags { got: flags, message_type: 4 }));
        }
    }

    proptest! {
        #[test]
        fn a_header_that_parses_encodes_to_the_same_bytes(raw: [u8; HEADER_LEN], seed in 0usize..3) {
            let mut raw = raw;
            if seed > 0 { raw[..4].copy_from_slice(&MAGIC); raw[6] %= 16; }
            if let Ok(header) = Header::parse(&raw) {
                prop_assert_eq!(header.encode(), raw);
            }
        }
    }
}
