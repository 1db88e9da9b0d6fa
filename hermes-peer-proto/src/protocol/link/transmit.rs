//! Frames out: control first, then what is sent again, then streams in turn.

use std::time::Instant;

use super::machine::Link;
use super::machine::RESUMABLE;
use super::outbound::DEFAULT_PRIORITY;
use super::outbound::SEND_AHEAD;
use super::window::counted;
use crate::protocol::Notice;
use crate::wire::Ack;
use crate::wire::Batch;
use crate::wire::Flags;
use crate::wire::Frame;
use crate::wire::HEADER_LEN;
use crate::wire::Heartbeat;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::Window;

/// Bytes that are encoded ahead of the socket: what is encoded can no longer be overtaken.
const WRITE_AHEAD: usize = 64 * 1024;

impl Link {
    /// Encodes what is ready to be sent, up to about 64 KiB in the batch. True if anything was added.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) -> bool {
        let Some(version) = self.version() else {
            return false;
        };
        let before = batch.len();
        self.transmit_control(now, version, batch);
        while batch.len() < WRITE_AHEAD {
            let Some(frame) = self.next_data(version) else {
                break;
            };
            batch.push(version, &frame);
        }
        self.transmit_ack(now, version, batch, batch.len() > before);
        let is_sent = batch.len() > before;
        let waits = self.own_open > 0;
        if let Some(connection) = &mut self.connection {
            connection.liveness.note_waiting(now, waits);
            if is_sent {
                connection.liveness.sent(now);
            }
        }
        is_sent
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) would add anything but an acknowledgement.
    pub fn has_output(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            !self.control.is_empty()
                || !self.cancels.is_empty()
                || !self.schedule.is_empty()
                || !self.windows_due.is_empty()
                || self.is_link_window_due
                || self.is_subscribe_due
                || self.heartbeat_reply.is_some()
                || self.advertise_next < self.advertised.len()
                || connection.liveness.has_beat()
        })
    }

    fn transmit_control(&mut self, now: Instant, version: u8, batch: &mut Batch) {
        if let Some(token) = self.heartbeat_reply.take() {
            let mut frame = self.heartbeat_frame(token);
            frame.flags = frame.flags.with(Flags::ACK);
            batch.push(version, &frame);
        }
        if let Some(token) =
            self.connection.as_mut().and_then(|connection| connection.liveness.take_beat(now))
        {
            batch.push(version, &self.heartbeat_frame(token));
        }
        while let Some(frame) = self.control.pop_front() {
            batch.push(version, &frame);
        }
        // What a cancel is about has to have arrived before it.
        while !self.retained.is_replaying()
            && let Some(frame) = self.cancels.pop_front()
        {
            batch.push(version, &frame);
        }
        if std::mem::take(&mut self.is_link_window_due) {
            let round_trip = self.round_trip();
            let window = Window {
                limit: self.link_grant.renew(now, None),
                events: self.events_in.grant().renew(now, round_trip),
            };
            batch.push(version, &Frame::control(MessageType::Window, StreamId::LINK, window.encode()));
        }
        for stream in std::mem::take(&mut self.windows_due) {
            if let Some(limit) = self.renew_window(now, stream) {
                let window = Window { limit, events: 0 };
                batch.push(version, &Frame::control(MessageType::Window, stream, window.encode()));
            }
        }
        if std::mem::take(&mut self.is_subscribe_due)
            && let Some((_, frame)) = &self.subscribed
        {
            batch.push(version, frame);
        }
        // One part at a time: a thousand schemas must not stand in the way of calls.
        if let Some(frame) = self.advertised.get(self.advertise_next) {
            batch.push(version, frame);
            self.advertise_next += 1;
        }
    }

    fn heartbeat_frame(&self, token: u64) -> Frame {
        let beat =
            Heartbeat { epoch: self.epoch, received: self.received.received(), token, load: self.load };
        Frame::control(MessageType::Heartbeat, StreamId::LINK, beat.encode())
    }

    fn transmit_ack(&mut self, now: Instant, version: u8, batch: &mut Batch, rides: bool) {
        if version >= RESUMABLE && self.received.is_due(now, rides) {
            let ack = Ack { received: self.received.received() };
            batch.push(version, &Frame::control(MessageType::Ack, StreamId::LINK, ack.encode()));
            self.received.told();
        }
    }

    /// The next data frame: one to send again, else one of the stream whose turn it is.
    fn next_data(&mut self, version: u8) -> Option<Frame> {
        let is_kept = version >= RESUMABLE;
        if is_kept {
            if let Some(frame) = self.retained.replay() {
                return Some(frame);
            }
            if !self.retained.has_room() {
                return None;
            }
        }
        let chunk = self.chunk();
        loop {
            let stream = self.schedule.next(chunk)?;
            let frame = match self.unbegun_before(stream) {
                _ if stream == StreamId::LINK => self.next_event(chunk),
                Some(earlier) => {
                    self.schedule.put_back(self.priority(stream), stream);
                    self.begin(earlier)
                }
                None => self.next_piece(stream, chunk),
            };
            let Some(frame) = frame else { continue };
            let number = if is_kept { self.retained.keep(frame.clone()) } else { 0 };
            self.note_sent(&frame, number);
            return Some(frame);
        }
    }

    /// One of our streams with a smaller number, if this one begins now and that one has not.
    fn unbegun_before(&self, stream: StreamId) -> Option<StreamId> {
        let first = *self.unbegun.first()?;
        (self.unbegun.contains(&stream) && first < stream).then_some(first)
    }

    fn priority(&self, stream: StreamId) -> u8 {
        self.streams.get(&stream).map_or(DEFAULT_PRIORITY, |entry| entry.outbound.priority)
    }

    /// An empty piece of a request: streams begin in the order of their numbers, whatever their priorities.
    fn begin(&mut self, stream: StreamId) -> Option<Frame> {
        self.unbegun.remove(&stream);
        self.streams.get_mut(&stream)?.outbound.has_begun = true;
        Some(Frame::data(MessageType::Request, stream, false, Default::default()))
    }

    fn next_event(&mut self, chunk: usize) -> Option<Frame> {
        self.events_out.is_scheduled = false;
        let frame = self.events_out.pop(StreamId::LINK, chunk)?;
        self.schedule.charge(DEFAULT_PRIORITY, frame.payload.len() + HEADER_LEN);
        if self.events_out.has_waiting() {
            self.schedule(StreamId::LINK);
        }
        if self.events_out.is_full && self.events_out.takes_more() {
            self.events_out.is_full = false;
            self.notices.push_back(Notice::EventsWritable);
        }
        Some(frame)
    }

    fn next_piece(&mut self, stream: StreamId, chunk: usize) -> Option<Frame> {
        let entry = self.streams.get_mut(&stream)?;
        let outbound = &mut entry.outbound;
        outbound.is_scheduled = false;
        if !outbound.has_waiting() {
            return None;
        }
        let used = outbound.credit.used();
        let free_of_charge = super::window::UNCOUNTED.saturating_sub(used);
        let limit = free_of_charge.saturating_add(self.link_credit.left()).min(chunk as u64) as usize;
        if limit == 0 {
            self.link_blocked.push(stream);
            return None;
        }
        let frame = outbound.pop(stream, limit)?;
        self.unbegun.remove(&stream);
        let len = frame.payload.len();
        self.link_credit.take(counted(used + len as u64) - counted(used));
        let priority = outbound.priority;
        let (has_waiting, is_writable) = (outbound.has_waiting(), outbound.is_full && outbound.takes_more());
        if is_writable {
            outbound.is_full = false;
            self.notices.push_back(Notice::Writable(stream));
        }
        self.schedule.charge(priority, len + HEADER_LEN);
        if has_waiting {
            self.schedule(stream);
        }
        Some(frame)
    }

    /// Bookkeeping for a data frame that has got its number.
    fn note_sent(&mut self, frame: &Frame, number: u64) {
        if frame.stream == StreamId::LINK {
            return;
        }
        if let Some(entry) = self.streams.get_mut(&frame.stream)
            && frame.message_type == MessageType::Request
            && entry.outbound.is_request_sent()
        {
            entry.request_sent = Some(number);
        }
        if frame.is_fin() {
            self.forget_if_sent(frame.stream);
        }
    }

    fn forget_if_sent(&mut self, stream: StreamId) {
        let is_own = stream.opener() == Some(self.side);
        let is_unread = self.streams.get(&stream).is_some_and(|entry| entry.inbound.has_message());
        // Our own stream's answer may still wait for its reader, who then forgets it.
        if !is_own || !is_unread {
            self.forget_if_over(stream);
        }
    }
}

const _: () = assert!(SEND_AHEAD >= WRITE_AHEAD, "a stream alone can fill a batch");
