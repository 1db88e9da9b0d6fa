//! The receiving half of a stream: pieces of messages in, whole messages out.

use std::collections::VecDeque;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;

use super::window::Grant;
use super::window::counted;
use crate::wire::Message;
use crate::wire::MessageType;
use crate::wire::Prelude;
use crate::wire::WireError;

/// Pieces shorter than this are copied behind what waits already: a peer that sends single bytes must not make us keep
/// a whole read buffer for each.
const COPY_BELOW: usize = 1024;
/// Empty frames in a row that a stream may carry. An honest sender has no use for any but the one that ends it.
pub(super) const MAX_EMPTY_FRAMES: u32 = 100;

/// A message and what kind it is; `last` is the end of the peer's half.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a reader needs and nothing else")]
pub struct Received {
    /// REQUEST, RESPONSE, STREAM or ERROR.
    pub message_type: MessageType,
    /// Envelope and body.
    pub message: Message,
}

/// Bytes received on a stream and not yet read.
#[derive(Debug)]
pub(super) struct Inbound {
    pieces: VecDeque<(MessageType, Bytes)>,
    /// What the next bytes to arrive belong to.
    tail: Tail,
    /// Whole messages among the pieces.
    whole: usize,
    fin: bool,
    empty_frames: u32,
    grant: Grant,
    received: u64,
    read: u64,
    /// Bytes given back to the link's window.
    link_freed: u64,
    /// Memory set aside for a message longer than the window.
    reserved: u64,
}

/// How far the message at the end has come.
#[derive(Debug, Default)]
struct Tail {
    /// Bytes of a prelude that was cut.
    prelude: Vec<u8>,
    /// Bytes still missing of envelope and body.
    missing: u64,
    /// Bytes that are here, prelude included.
    present: u64,
    /// Bytes of the whole message, prelude included; 0 while unknown.
    total: u64,
}

impl Inbound {
    pub(super) fn new(window: u64) -> Self {
        Self {
            pieces: VecDeque::new(),
            tail: Tail::default(),
            whole: 0,
            fin: false,
            empty_frames: 0,
            grant: Grant::new(window, 16 * window),
            received: 0,
            read: 0,
            link_freed: 0,
            reserved: 0,
        }
    }

    /// Takes one frame's payload. `keep` is false on a stream that nobody reads any more: its bytes are counted and
    /// dropped. Gives back how many bytes count against the link's window.
    pub(super) fn push(
        &mut self,
        message_type: MessageType,
        payload: Bytes,
        fin: bool,
        max_message: u64,
        keep: bool,
    ) -> Result<u64, PushError> {
        let len = payload.len() as u64;
        let before = counted(self.received);
        if self.received + len > self.grant.limit() {
            return Err(PushError::WindowOverrun { limit: self.grant.limit(), got: self.received + len });
        }
        if self.fin {
            return Err(PushError::AfterFin);
        }
        // An empty last frame has no message that it could be part of.
        if self.tail.present > 0
            && len > 0
            && self.pieces.back().is_some_and(|(last, _)| *last != message_type)
        {
            return Err(PushError::MixedTypes);
        }
        self.empty_frames = if len == 0 && !fin { self.empty_frames + 1 } else { 0 };
        if self.empty_frames > MAX_EMPTY_FRAMES {
            return Err(PushError::EmptyFrames);
        }
        self.received += len;
        if keep {
            self.scan(&payload, max_message)?;
            self.store(message_type, payload);
            if fin && self.tail.present > 0 {
                return Err(PushError::CutMessage);
            }
        } else {
            self.read = self.received;
        }
        self.fin = fin;
        Ok(counted(self.received) - before)
    }

    /// Walks over the preludes in a payload, so that it is known which messages are whole.
    fn scan(&mut self, mut bytes: &[u8], max_message: u64) -> Result<(), PushError> {
        while !bytes.is_empty() {
            if self.tail.total == 0 {
                let known = self.tail.prelude.len();
                let parsed = if known == 0 {
                    Prelude::parse(bytes)?
                } else {
                    self.tail.prelude.extend(bytes.iter().take(10));
                    Prelude::parse(&self.tail.prelude)?
                };
                let Some((prelude, len)) = parsed else {
                    if known == 0 {
                        self.tail.prelude.extend_from_slice(bytes);
                    }
                    self.tail.present = self.tail.prelude.len() as u64;
                    return Ok(());
                };
                if prelude.total() > max_message {
                    return Err(PushError::MessageTooLong { got: prelude.total(), limit: max_message });
                }
                bytes = &bytes[len - known..];
                self.tail = Tail {
                    prelude: Vec::new(),
                    missing: prelude.total(),
                    present: len as u64,
                    total: len as u64 + prelude.total(),
                };
            }
            let step = self.tail.missing.min(bytes.len() as u64);
            self.tail.missing -= step;
            self.tail.present += step;
            bytes = &bytes[step as usize..];
            if self.tail.missing == 0 {
                self.whole += 1;
                self.tail = Tail::default();
            }
        }
        Ok(())
    }

    fn store(&mut self, message_type: MessageType, payload: Bytes) {
        match self.pieces.back_mut() {
            _ if payload.is_empty() => {}
            Some((last_type, last)) if *last_type == message_type && payload.len() < COPY_BELOW => {
                // Usually nobody else holds the piece, and the bytes are appended where they are.
                let mut joined = BytesMut::from(std::mem::take(last));
                joined.extend_from_slice(&payload);
                *last = joined.freeze();
            }
            _ => self.pieces.push_back((message_type, payload)),
        }
    }

    /// The next whole message.
    pub(super) fn pop(&mut self) -> Option<Received> {
        self.whole = self.whole.checked_sub(1)?;
        let message_type = self.pieces.front()?.0;
        let mut front = Vec::new();
        let (prelude, prelude_len) = match Prelude::parse(&self.pieces.front()?.1) {
            Ok(Some(parsed)) => parsed,
            _ => {
                front.extend(self.pieces.iter().flat_map(|(_, piece)| piece.iter().copied()).take(10));
                Prelude::parse(&front).ok().flatten()?
            }
        };
        self.take(prelude_len);
        let message = Message {
            envelope: self.take(prelude.envelope_len as usize),
            body: self.take(prelude.body_len as usize),
        };
        self.read += prelude_len as u64 + prelude.total();
        Some(Received { message_type, message })
    }

    /// The next `len` bytes, shared where they lie in one piece.
    fn take(&mut self, len: usize) -> Bytes {
        match self.pieces.front_mut() {
            _ if len == 0 => return Bytes::new(),
            Some((_, piece)) if piece.len() > len => return piece.split_to(len),
            Some((_, piece)) if piece.len() == len => {
                let whole = std::mem::take(piece);
                self.pieces.pop_front();
                return whole;
            }
            _ => {}
        }
        let mut joined = BytesMut::with_capacity(len);
        while joined.len() < len {
            let Some((_, piece)) = self.pieces.front_mut() else {
                break;
            };
            let step = piece.len().min(len - joined.len());
            joined.extend_from_slice(&piece[..step]);
            piece.advance(step);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        joined.freeze()
    }

    pub(super) fn has_message(&self) -> bool {
        self.whole > 0
    }

    pub(super) fn is_between_messages(&self) -> bool {
        self.tail.present == 0
    }

    pub(super) fn is_finished(&self) -> bool {
        self.fin
    }

    /// Nothing of it will be read: everything is given back.
    pub(super) fn discard(&mut self) {
        self.pieces.clear();
        self.whole = 0;
        self.tail = Tail::default();
        self.read = self.received;
    }

    /// Bytes of a message longer than the window that has begun, if no memory was set aside for it yet.
    pub(super) fn wants_reservation(&self, window: u64) -> Option<u64> {
        (self.tail.total > window && self.reserved == 0).then_some(self.tail.total)
    }

    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved = bytes;
    }

    /// Memory that is no longer needed because the message it was set aside for was read.
    pub(super) fn release(&mut self) -> u64 {
        if self.reserved > 0 && self.tail.total == 0 && self.whole == 0 {
            std::mem::take(&mut self.reserved)
        } else {
            0
        }
    }

    /// What no longer occupies memory that windows guard: what was read, and what has come of a message for which the
    /// memory is accounted elsewhere or bounded by the window anyway. Without the latter a message longer than the
    /// window could never become whole.
    fn freed(&self, window: u64) -> u64 {
        let is_accounted = self.tail.total <= window || self.reserved > 0;
        self.read + if is_accounted { self.tail.present } else { 0 }
    }

    /// Brings the windows up to date: whether the stream's is due to be told, and by how much the link's is freed.
    pub(super) fn free(&mut self, window: u64) -> (bool, u64) {
        let freed = self.freed(window);
        let link_freed = counted(freed).max(self.link_freed);
        let gained = link_freed - self.link_freed;
        self.link_freed = link_freed;
        (self.grant.free(freed, self.received) && !self.fin, gained)
    }

    pub(super) fn grant(&mut self) -> &mut Grant {
        &mut self.grant
    }

    /// Bytes here that are neither read nor given back.
    pub(super) fn held(&self) -> u64 {
        self.received - self.read
    }
}

/// Why a payload cannot belong to its stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PushError {
    WindowOverrun { limit: u64, got: u64 },
    AfterFin,
    EmptyFrames,
    CutMessage,
    MixedTypes,
    MessageTooLong { got: u64, limit: u64 },
    Wire(WireError),
}

impl From<WireError> for PushError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Envelope;
    use crate::wire::encode_head;

    fn message(len: usize) -> Vec<u8> {
        let envelope = Envelope { hops: (len % 3) as u8, ..Envelope::default() };
        let mut bytes = encode_head(&envelope, len).unwrap().to_vec();
        bytes.extend((0..len).map(|i| (i * 7 + len) as u8));
        bytes
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_they_were_cut(
            lens in prop::collection::vec(0usize..3000, 1..12),
            cuts in prop::collection::vec(1usize..2500, 1..8),
        ) {
            let bytes: Vec<u8> = lens.iter().flat_map(|len| message(*len)).collect();
            let mut inbound = Inbound::new(1 << 20);
            let (mut rest, mut cut, mut got) = (&bytes[..], cuts.iter().cycle(), Vec::new());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*cut.next().unwrap()));
                let payload = Bytes::copy_from_slice(piece);
                inbound.push(MessageType::Stream, payload, after.is_empty(), 1 << 20, true).unwrap();
                rest = after;
                if got.len() % 2 == 0 {
                    got.extend(inbound.pop());
                }
            }
            got.extend(std::iter::from_fn(|| inbound.pop()));
            let bodies: Vec<_> = got.iter().map(|received| received.message.body.to_vec()).collect();
            let expected: Vec<_> = lens.iter().map(|len| {
                let whole = message(*len);
                whole[whole.len() - len..].to_vec()
            }).collect();
            prop_assert_eq!(bodies, expected);
            prop_assert_eq!(inbound.held(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
        ) {
            let mut inbound = Inbound::new(1 << 20);
            for payload in payloads {
                if inbound.push(MessageType::Stream, payload.into(), false, 1000, true).is_err() { break; }
                while inbound.pop().is_some() {}
            }
        }
    }

    #[test]
    fn what_breaks_a_promise_to_the_receiver_is_refused() {
        let mut inbound = Inbound::new(10);
        let push = |inbound: &mut Inbound, bytes: Vec<u8>, fin| {
            inbound.push(MessageType::Stream, bytes.into(), fin, 1000, true)
        };
        assert_eq!(
            push(&mut inbound, vec![0; 11], false),
            Err(PushError::WindowOverrun { limit: 10, got: 11 })
        );
        assert_eq!(
            push(&mut inbound, vec![0, 0xe9, 0x07], false),
            Err(PushError::MessageTooLong { got: 1001, limit: 1000 })
        );
        let mut inbound = Inbound::new(1000);
        assert_eq!(push(&mut inbound, vec![0, 5, 1], true), Err(PushError::CutMessage));
        let mut inbound = Inbound::new(1000);
        assert!(push(&mut inbound, vec![0, 0], true).is_ok());
        assert_eq!(push(&mut inbound, vec![0, 0], false), Err(PushError::AfterFin));
        let mut inbound = Inbound::new(1000);
        let last = (0..=MAX_EMPTY_FRAMES).map(|_| push(&mut inbound, Vec::new(), false)).last();
        assert_eq!(last, Some(Err(PushError::EmptyFrames)));
    }
}
