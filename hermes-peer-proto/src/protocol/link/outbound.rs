//! The sending half of a stream, and who sends next.

use std::collections::VecDeque;

use bytes::Bytes;
use bytes::BytesMut;

use super::window::Credit;
use crate::wire::Frame;
use crate::wire::MessageType;
use crate::wire::StreamId;

/// Bytes that may wait on a stream before its sender has to; a message is taken whole all the same. Two chunks, so that
/// there is always one to send while the next is made.
pub const SEND_AHEAD: usize = 64 * 1024;
/// Priorities go from 0 to 7, 7 first.
pub const MAX_PRIORITY: u8 = 7;
/// Priority of a stream that does not say otherwise.
pub const DEFAULT_PRIORITY: u8 = 3;

/// Bytes of one kind that wait to be cut into frames.
#[derive(Debug)]
struct Segment {
    message_type: MessageType,
    bytes: Waiting,
    fin: bool,
}

#[derive(Debug)]
enum Waiting {
    /// Grows while it waits: many small messages share a frame.
    Open(BytesMut),
    /// The bulk of a large body, never copied.
    Whole(Bytes),
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Self::Open(bytes) => bytes.len(),
            Self::Whole(bytes) => bytes.len(),
        }
    }

    fn take(&mut self, len: usize) -> Bytes {
        match self {
            Self::Open(bytes) => bytes.split_to(len).freeze(),
            Self::Whole(bytes) => bytes.split_to(len),
        }
    }
}

/// Messages of one stream on their way out.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) priority: u8,
    segments: VecDeque<Segment>,
    waiting: usize,
    pub(super) credit: Credit,
    /// It stands in a queue of the scheduler.
    pub(super) is_scheduled: bool,
    /// Its sender was told to wait.
    pub(super) is_full: bool,
    /// The last message was queued.
    pub(super) is_closed: bool,
    /// The last message was handed to the connection.
    pub(super) is_sent: bool,
    /// Some of it was handed to the connection.
    pub(super) has_begun: bool,
}

impl Outbound {
    pub(super) fn new(priority: u8, limit: u64) -> Self {
        Self {
            priority: priority.min(MAX_PRIORITY),
            segments: VecDeque::new(),
            waiting: 0,
            credit: Credit::new(limit),
            is_scheduled: false,
            is_full: false,
            is_closed: false,
            is_sent: false,
            has_begun: false,
        }
    }

    /// Appends a message. Small ones are copied together up to a frame; what a frame cannot hold stays as it is.
    pub(super) fn push(
        &mut self,
        message_type: MessageType,
        mut head: BytesMut,
        mut body: Bytes,
        fin: bool,
        chunk: usize,
    ) {
        self.waiting += head.len() + body.len();
        self.is_closed = fin;
        if let Some(Segment { message_type: last, bytes: Waiting::Open(open), fin: last_fin }) =
            self.segments.back_mut()
            && *last == message_type
            && message_type == MessageType::Stream
            && open.len() + head.len() + body.len() <= chunk
        {
            open.unsplit(head);
            open.extend_from_slice(&body);
            *last_fin = fin;
            return;
        }
        head.extend_from_slice(&body.split_to(body.len().min(chunk.saturating_sub(head.len()))));
        let has_more = !body.is_empty();
        self.segments.push_back(Segment { message_type, bytes: Waiting::Open(head), fin: fin && !has_more });
        if has_more {
            self.segments.push_back(Segment { message_type, bytes: Waiting::Whole(body), fin });
        }
    }

    /// The next frame, of at most `limit` bytes, and within the stream's window; `None` if nothing can be sent.
    pub(super) fn pop(&mut self, stream: StreamId, limit: usize) -> Option<Frame> {
        let segment = self.segments.front_mut()?;
        let credit = usize::try_from(self.credit.left()).unwrap_or(usize::MAX);
        let len = segment.bytes.len().min(limit).min(credit);
        if len == 0 && segment.bytes.len() > 0 {
            return None;
        }
        let payload = segment.bytes.take(len);
        let is_last = segment.bytes.len() == 0;
        let (message_type, fin) = (segment.message_type, segment.fin && is_last);
        if is_last {
            self.segments.pop_front();
        }
        self.waiting -= len;
        self.credit.take(len as u64);
        self.has_begun = true;
        self.is_sent |= fin;
        Some(Frame::data(message_type, stream, fin, payload))
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.segments.is_empty()
    }

    pub(super) fn takes_more(&self) -> bool {
        self.waiting < SEND_AHEAD
    }

    /// Whether the last piece of the request has been sent.
    pub(super) fn is_request_sent(&self) -> bool {
        self.credit.used() > 0
            && self.segments.front().is_none_or(|segment| segment.message_type != MessageType::Request)
    }

    /// Drops what waits.
    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.waiting = 0;
    }
}

/// Streams that have something to send, by priority: each level gets bytes in proportion to its rank, so the lowest is
/// slow and not starved, and within a level streams take turns chunk by chunk.
#[derive(Debug)]
pub(super) struct Schedule {
    levels: [Level; MAX_PRIORITY as usize + 1],
}

#[derive(Debug, Default)]
struct Level {
    ready: VecDeque<StreamId>,
    deficit: usize,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { levels: Default::default() }
    }

    pub(super) fn add(&mut self, priority: u8, stream: StreamId) {
        self.levels[usize::from(priority)].ready.push_back(stream);
    }

    /// Its turn comes again, before anybody else's of its level.
    pub(super) fn put_back(&mut self, priority: u8, stream: StreamId) {
        self.levels[usize::from(priority)].ready.push_front(stream);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.ready.is_empty())
    }

    /// Who sends next. Deficit round robin over the levels (Shreedhar and Varghese, 1995); a level's share is its
    /// priority plus one, in chunks.
    pub(super) fn next(&mut self, chunk: usize) -> Option<StreamId> {
        if self.is_empty() {
            return None;
        }
        loop {
            for level in self.levels.iter_mut().rev() {
                if level.deficit > 0
                    && let Some(stream) = level.ready.pop_front()
                {
                    return Some(stream);
                }
            }
            for (rank, level) in self.levels.iter_mut().enumerate() {
                // A level that was idle saves nothing up.
                level.deficit = if level.ready.is_empty() { 0 } else { level.deficit + (rank + 1) * chunk };
            }
        }
    }

    /// A stream of this priority has sent so much.
    pub(super) fn charge(&mut self, priority: u8, bytes: usize) {
        let level = &mut self.levels[usize::from(priority)];
        level.deficit = level.deficit.saturating_sub(bytes.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Envelope;
    use crate::wire::encode_head;

    fn push(outbound: &mut Outbound, message_type: MessageType, len: usize, fin: bool) {
        let head = encode_head(&Envelope::default(), len).unwrap();
        outbound.push(message_type, head, Bytes::from(vec![1; len]), fin, 1000);
    }

    #[test]
    fn small_items_share_a_frame_and_the_last_carries_fin() {
        let mut outbound = Outbound::new(3, 1 << 20);
        for last in 0..10 {
            push(&mut outbound, MessageType::Stream, 32, last == 9);
        }
        let frame = outbound.pop(StreamId(1), 1000).unwrap();
        assert_eq!((frame.payload.len(), frame.is_fin()), (340, true));
        assert_eq!(outbound.pop(StreamId(1), 1000), None);
    }

    #[test]
    fn a_large_body_is_cut_into_full_frames() {
        let mut outbound = Outbound::new(3, 1 << 20);
        push(&mut outbound, MessageType::Request, 2500, true);
        let frames: Vec<_> = std::iter::from_fn(|| outbound.pop(StreamId(1), 1000)).collect();
        assert_eq!(frames.iter().map(|frame| frame.payload.len()).collect::<Vec<_>>(), [1000, 1000, 503]);
        assert_eq!(frames.iter().map(Frame::is_fin).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn nothing_is_sent_past_the_window() {
        let mut outbound = Outbound::new(3, 700);
        push(&mut outbound, MessageType::Request, 2500, true);
        assert_eq!(outbound.pop(StreamId(1), 1000).unwrap().payload.len(), 700);
        assert_eq!(outbound.pop(StreamId(1), 1000), None);
        outbound.credit.raise(800);
        assert_eq!(outbound.pop(StreamId(1), 1000).unwrap().payload.len(), 100);
    }

    #[test]
    fn levels_share_in_proportion_and_none_starves() {
        let mut schedule = Schedule::new();
        let (mut low, mut high) = (0, 0);
        schedule.add(0, StreamId(1));
        schedule.add(7, StreamId(3));
        for _ in 0..900 {
            let stream = schedule.next(1000).unwrap();
            let (priority, count) = if stream == StreamId(1) { (0, &mut low) } else { (7, &mut high) };
            *count += 1;
            schedule.charge(priority, 1000);
            schedule.add(priority, stream);
        }
        assert_eq!((low, high), (100, 800));
    }
}
