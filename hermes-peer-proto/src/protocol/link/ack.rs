//! What was received, what is kept until acknowledged, what is sent again (version 2).

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use crate::protocol::PeerMisbehaved;
use crate::wire::Frame;

/// An acknowledgement goes out after this many data frames at the latest: a third of what a peer may have
/// unacknowledged, so that it need not stop.
const ACK_FRAMES: u64 = 64;
/// ... or after this many bytes,
const ACK_BYTES: u64 = 256 * 1024;
/// ... or after this time, so that a peer does not keep a few frames for long.
const ACK_DELAY: Duration = Duration::from_millis(25);
/// An acknowledgement rides on what goes out anyway once this many frames wait for one. Earlier, its 18 bytes would cost
/// more than they save.
const ACK_RIDES: u64 = 16;

/// Data frames received on the link, all its connections together.
#[derive(Debug, Default)]
pub(super) struct ReceiveCount {
    received: u64,
    acked: u64,
    bytes: u64,
    due: Option<Instant>,
}

impl ReceiveCount {
    pub(super) fn count(&mut self, now: Instant, payload_len: usize) {
        self.received += 1;
        self.bytes += payload_len as u64;
        self.due.get_or_insert(now + ACK_DELAY);
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// When an acknowledgement is due; `None` if there is nothing to acknowledge.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether an acknowledgement has to go out now, or should since something `rides` out anyway.
    pub(super) fn is_due(&self, now: Instant, rides: bool) -> bool {
        let frames = self.received - self.acked;
        frames >= ACK_FRAMES
            || self.bytes >= ACK_BYTES
            || (rides && frames >= ACK_RIDES)
            || self.due.is_some_and(|due| due <= now)
    }

    /// The count was told.
    pub(super) fn told(&mut self) {
        self.acked = self.received;
        self.bytes = 0;
        self.due = None;
    }
}

/// Data frames sent and not yet acknowledged. They are kept as they were sent; their payloads share the memory of the
/// messages.
#[derive(Debug)]
pub(super) struct Retained {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Frames acknowledged: the number of the last frame before the first one kept.
    acked: u64,
    /// How many of the kept frames this connection has carried.
    on_connection: usize,
    max_frames: usize,
    max_bytes: usize,
}

impl Retained {
    pub(super) fn new(max_frames: usize, max_bytes: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, acked: 0, on_connection: 0, max_frames, max_bytes }
    }

    /// Whether another frame may be sent. A single one always may: a chunk larger than the bound would else never go.
    pub(super) fn has_room(&self) -> bool {
        self.frames.is_empty() || (self.frames.len() < self.max_frames && self.bytes < self.max_bytes)
    }

    /// Keeps a frame that is sent for the first time. Gives back its number.
    pub(super) fn keep(&mut self, frame: Frame) -> u64 {
        self.bytes += frame.payload.len();
        self.frames.push_back(frame);
        self.on_connection += 1;
        self.sent()
    }

    /// Frames sent, all connections together.
    pub(super) fn sent(&self) -> u64 {
        self.acked + self.frames.len() as u64
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// The peer has received this many.
    pub(super) fn acknowledge(&mut self, received: u64) -> Result<(), PeerMisbehaved> {
        if received > self.acked + self.on_connection as u64 {
            return Err(PeerMisbehaved::AckOfUnsent {
                got: received,
                sent: self.acked + self.on_connection as u64,
            });
        }
        while self.acked < received {
            let Some(frame) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= frame.payload.len();
            self.acked += 1;
            self.on_connection = self.on_connection.saturating_sub(1);
        }
        Ok(())
    }

    /// A new connection: the peer has received this many, the rest is sent again.
    pub(super) fn reconnect(&mut self, received: u64) -> Result<(), PeerMisbehaved> {
        if received < self.acked || received > self.sent() {
            return Err(PeerMisbehaved::ResumeOutOfRange {
                got: received,
                acked: self.acked,
                sent: self.sent(),
            });
        }
        self.on_connection = self.frames.len();
        self.acknowledge(received)?;
        self.on_connection = 0;
        Ok(())
    }

    /// Whether something is still to be sent again.
    pub(super) fn is_replaying(&self) -> bool {
        self.on_connection < self.frames.len()
    }

    /// The next frame to send again, before anything new.
    pub(super) fn replay(&mut self) -> Option<Frame> {
        let frame = self.frames.get(self.on_connection)?.clone();
        self.on_connection += 1;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::MessageType;
    use crate::wire::StreamId;

    fn frame(mark: u8) -> Frame {
        Frame::data(MessageType::Stream, StreamId(1), false, Bytes::from(vec![mark; 10]))
    }

    #[test]
    fn after_a_reconnect_exactly_what_was_not_received_is_sent_again_in_order() {
        let mut retained = Retained::new(200, 1 << 20);
        (0..5).for_each(|mark| assert_eq!(retained.keep(frame(mark)), u64::from(mark) + 1));
        retained.acknowledge(1).unwrap();
        retained.reconnect(3).unwrap();
        assert_eq!(retained.replay(), Some(frame(3)));
        assert_eq!(retained.replay(), Some(frame(4)));
        assert_eq!(retained.replay(), None);
        assert_eq!(retained.sent(), 5);
    }

    #[test]
    fn acknowledging_what_was_not_sent_is_misbehaviour() {
        let mut retained = Retained::new(200, 1 << 20);
        retained.keep(frame(0));
        assert!(retained.acknowledge(2).is_err());
        retained.acknowledge(1).unwrap();
        assert!(retained.reconnect(0).is_err(), "the peer forgot what it had acknowledged");
    }

    #[test]
    fn frames_and_bytes_are_bounded_and_one_frame_always_fits() {
        let mut retained = Retained::new(2, 15);
        assert!(retained.has_room());
        retained.keep(frame(0));
        assert!(retained.has_room());
        retained.keep(frame(1));
        assert!(!retained.has_room());
        retained.acknowledge(2).unwrap();
        assert!(retained.has_room());
        let mut tiny = Retained::new(2, 1);
        assert!(tiny.has_room());
        tiny.keep(frame(0));
        assert!(!tiny.has_room());
    }
}
