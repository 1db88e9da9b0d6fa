//! A message on its stream: two lengths, the envelope, the body.

use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;

use super::envelope::Envelope;
use super::envelope::MAX_ENVELOPE;
use super::envelope::put;
use super::error::WireError;

/// Most bytes that the two lengths take.
const MAX_PRELUDE: usize = 10;
const WHAT: &str = "message";

/// What stands at the front of each message on its stream: how long its two parts are. Known before either is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "fixed by the wire format")]
pub struct Prelude {
    /// Bytes of the envelope.
    pub envelope_len: u32,
    /// Bytes of the body.
    pub body_len: u32,
}

impl Prelude {
    /// Reads a prelude at the front of `bytes`, with how many bytes it took; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`WireError::Malformed`] if a length is no `u32` or the envelope's is over its limit.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some((envelope_len, first)) = varint(bytes)? else {
            return Ok(None);
        };
        let Some((body_len, second)) = varint(&bytes[first..])? else {
            return Ok(None);
        };
        if envelope_len as usize > MAX_ENVELOPE {
            return Err(WireError::Malformed { what: WHAT, why: "its envelope is longer than 65,536 bytes" });
        }
        Ok(Some((Self { envelope_len, body_len }, first + second)))
    }

    /// Bytes of envelope and body together.
    pub fn total(&self) -> u64 {
        u64::from(self.envelope_len) + u64::from(self.body_len)
    }
}

/// A LEB128 `u32`, as postcard writes it.
fn varint(bytes: &[u8]) -> Result<Option<(u32, usize)>, WireError> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value)
                .map_err(|_| WireError::Malformed { what: WHAT, why: "a length is over 4 GiB" })?;
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 5 {
        Ok(None)
    } else {
        Err(WireError::Malformed { what: WHAT, why: "a length is too long" })
    }
}

/// The front of a message whose body has `body_len` bytes: prelude and envelope.
///
/// # Errors
/// [`WireError::Malformed`] if the envelope is longer than [`MAX_ENVELOPE`], [`WireError::TooLong`] if the body's length
/// is no `u32`.
pub fn encode_head(envelope: &Envelope, body_len: usize) -> Result<BytesMut, WireError> {
    let body_len =
        u32::try_from(body_len).map_err(|_| WireError::TooLong { got: u32::MAX, limit: u32::MAX })?;
    let mut encoded = BytesMut::with_capacity(64);
    envelope.encode_into(&mut encoded);
    if encoded.len() > MAX_ENVELOPE {
        return Err(WireError::Malformed { what: WHAT, why: "its envelope is longer than 65,536 bytes" });
    }
    let mut head = BytesMut::with_capacity(MAX_PRELUDE + encoded.len());
    put(&mut head, &u32::try_from(encoded.len()).unwrap_or(u32::MAX));
    put(&mut head, &body_len);
    head.put_slice(&encoded);
    Ok(head)
}

/// A whole message as it came off its stream, its envelope still closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a message is an envelope and a body")]
pub struct Message {
    /// The envelope's bytes.
    pub envelope: Bytes,
    /// The body.
    pub body: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prelude_is_read_only_when_it_is_whole() {
        let head = encode_head(&Envelope { hops: 3, ..Envelope::default() }, 300).unwrap();
        // Mask 1 << 13 takes two bytes, the hop count one.
        assert_eq!(&head[..], [3, 0xac, 0x02, 0x80, 0x40, 3]);
        for cut in 0..3 {
            assert_eq!(Prelude::parse(&head[..cut]), Ok(None));
        }
        assert_eq!(Prelude::parse(&head), Ok(Some((Prelude { envelope_len: 3, body_len: 300 }, 3))));
    }

    #[test]
    fn lengths_that_lie_are_refused_at_the_prelude() {
        // FC-031
        assert!(Prelude::parse(&[0x80, 0x80, 0x80, 0x80, 0x80]).is_err());
        assert!(Prelude::parse(&[0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
        assert!(Prelude::parse(&[0x81, 0x80, 0x04, 0]).is_err(), "an envelope of 65,537 bytes");
        assert!(Prelude::parse(&[0x80, 0x80, 0x04, 0]).is_ok(), "an envelope of 65,536 bytes");
    }
}
