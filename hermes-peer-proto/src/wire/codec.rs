//! Bytes to frames and back. The only place that knows both.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Buf;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;

use super::error::WireError;
use super::frame::Frame;
use super::header::HEADER_LEN;
use super::header::Header;
use super::id::StreamId;

/// Payloads up to this are copied behind their header; longer ones are handed to the socket as they are. Below it the
/// copy is cheaper than one more element of a vectored write.
const COPY_BELOW: usize = 4096;

/// Cuts a connection's bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    version: u8,
    max_payload: u32,
}

impl Decoder {
    /// A decoder for a connection that speaks `version` and on which a payload has at most `max_payload` bytes.
    pub fn new(version: u8, max_payload: u32) -> Self {
        Self { version, max_payload }
    }

    /// Takes the next whole frame off the front of `src`; `None` if more bytes are needed, which then stay in `src`.
    /// The payload shares `src`'s memory.
    ///
    /// # Errors
    /// [`WireError`] when the bytes cannot be a frame: the connection is beyond repair. A length over the limit is
    /// refused before anything is allocated for it.
    pub fn decode(&self, src: &mut BytesMut) -> Result<Option<Frame>, WireError> {
        let Some(raw) = src.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let header = Header::parse(raw)?;
        if header.version != self.version {
            return Err(WireError::WrongVersion { got: header.version, expected: self.version });
        }
        if header.payload_len > self.max_payload {
            return Err(WireError::TooLong { got: header.payload_len, limit: self.max_payload });
        }
        let payload_len = header.payload_len as usize;
        if src.len() < HEADER_LEN + payload_len {
            src.reserve(HEADER_LEN + payload_len - src.len());
            return Ok(None);
        }
        src.advance(HEADER_LEN);
        Ok(Some(Frame {
            message_type: header.message_type,
            flags: header.flags,
            stream: StreamId(header.stream),
            payload: src.split_to(payload_len).freeze(),
        }))
    }
}

/// Encoded frames on their way to the socket: small ones copied together, large payloads as they are.
#[derive(Debug, Default)]
pub struct Batch {
    parts: VecDeque<Bytes>,
    /// Encoded and not yet a part.
    open: BytesMut,
    len: usize,
}

impl Batch {
    /// Appends one frame as spoken in `version`.
    pub fn push(&mut self, version: u8, frame: &Frame) {
        let header = frame.header(version).encode();
        self.len += HEADER_LEN + frame.payload.len();
        self.open.put_slice(&header);
        if frame.payload.len() <= COPY_BELOW {
            self.open.put_slice(&frame.payload);
        } else {
            self.close_part();
            self.parts.push_back(frame.payload.clone());
        }
    }

    /// Bytes not yet taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives back memory that a burst has left behind.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    fn close_part(&mut self) {
        if !self.open.is_empty() {
            self.parts.push_back(self.open.split().freeze());
        }
    }
}

impl Buf for Batch {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&self.open, |part| part)
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let parts = self.parts.iter().map(|part| &part[..]);
        let open = (!self.open.is_empty()).then_some(&self.open[..]);
        let mut count = 0;
        for (slot, part) in dst.iter_mut().zip(parts.chain(open)) {
            *slot = IoSlice::new(part);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "{count} bytes taken of a batch of {}", self.len);
        self.len -= count;
        while let Some(part) = self.parts.front_mut() {
            if count < part.len() {
                part.advance(count);
                return;
            }
            count -= part.len();
            self.parts.pop_front();
        }
        if count == self.open.len() {
            // Keeps the allocation for the next frames, where `advance` would walk off its front.
            self.open.clear();
        } else {
            self.open.advance(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::header::MessageType;

    fn frame(len: usize) -> Frame {
        Frame::data(MessageType::Request, StreamId(1), true, Bytes::from(vec![7; len]))
    }

    fn encoded(frames: &[Frame]) -> BytesMut {
        let mut batch = Batch::default();
        frames.iter().for_each(|frame| batch.push(2, frame));
        let len = batch.len();
        BytesMut::from(&batch.copy_to_bytes(len)[..])
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_reserved() {
        // FC-031
        let mut src = encoded(&[frame(0)]);
        src[11..15].copy_from_slice(&u32::MAX.to_le_bytes());
        let capacity = src.capacity();
        assert_eq!(
            Decoder::new(2, 16_384).decode(&mut src),
            Err(WireError::TooLong { got: u32::MAX, limit: 16_384 })
        );
        assert_eq!(src.capacity(), capacity);
        let mut at_limit = encoded(&[frame(16_384)]);
        assert!(Decoder::new(2, 16_384).decode(&mut at_limit).unwrap().is_some());
    }

    #[test]
    fn another_version_than_the_connections_is_refused() {
        let mut src = encoded(&[frame(3)]);
        assert_eq!(
            Decoder::new(1, 16_384).decode(&mut src),
            Err(WireError::WrongVersion { got: 2, expected: 1 })
        );
    }

    #[test]
    fn large_payloads_are_not_copied() {
        let large = frame(COPY_BELOW + 1);
        let mut batch = Batch::default();
        batch.push(2, &large);
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(batch.chunks_vectored(&mut slices), 2);
        assert_eq!(slices[1].as_ptr(), large.payload.as_ptr());
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_the_bytes_are_cut(
            lens in prop::collection::vec(0usize..6000, 0..8),
            cut in 1usize..2000,
        ) {
            let frames: Vec<_> = lens.into_iter().map(frame).collect();
            let bytes = encoded(&frames);
            let (decoder, mut src, mut got) = (Decoder::new(2, 16_384), BytesMut::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                src.extend_from_slice(piece);
                while let Some(frame) = decoder.decode(&mut src).unwrap() {
                    got.push(frame);
                }
            }
            prop_assert!(src.is_empty());
            prop_assert_eq!(got, frames);
        }

        #[test]
        fn a_batch_gives_its_bytes_in_order_however_they_are_taken(
            lens in prop::collection::vec(0usize..6000, 1..8),
            take in 1usize..5000,
        ) {
            let frames: Vec<_> = lens.into_iter().map(frame).collect();
            let whole = encoded(&frames);
            let (mut batch, mut got) = (Batch::default(), Vec::new());
            for frame in &frames {
                batch.push(2, frame);
                let count = take.min(batch.len());
                got.extend_from_slice(&batch.copy_to_bytes(count));
            }
            let rest = batch.len();
            got.extend_from_slice(&batch.copy_to_bytes(rest));
            prop_assert_eq!(&got[..], &whole[..]);
            prop_assert!(batch.is_empty());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), magic: bool) {
            let mut src = BytesMut::from(&bytes[..]);
            if magic && src.len() > 4 { src[..4].copy_from_slice(b"HRMS"); }
            while let Ok(Some(_)) = Decoder::new(2, 1024).decode(&mut src) {}
        }
    }
}
