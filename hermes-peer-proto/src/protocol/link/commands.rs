//! What the application asks of a link.

use std::time::Instant;

use super::Link;
use super::Outgoing;
use super::ROLL_OVER;
use super::inbound::Received;
use super::outbound::DEFAULT_PRIORITY;
use super::stream::Phase;
use super::stream::Stream;
use crate::protocol::Notice;
use crate::wire::Advertise;
use crate::wire::Cancel;
use crate::wire::CapabilityInfo;
use crate::wire::ContentType;
use crate::wire::Envelope;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::Frame;
use crate::wire::GoAway;
use crate::wire::GoAwayReason;
use crate::wire::Interest;
use crate::wire::MAX_CAPABILITY;
use crate::wire::MAX_SEGMENT;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::Subscribe;
use crate::wire::encode_head;

/// A part of an advertisement is closed once it holds this much: two chunks, so that it delays data hardly more than
/// data does.
const ADVERTISE_PART: usize = 64 * 1024;

/// Why no stream was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenRefused {
    /// As many are open as the peer takes. [`Notice::Openable`] says when to try again.
    #[error("the peer takes {limit} streams at once")]
    TooMany {
        /// The peer's limit.
        limit: u32,
    },
    /// One side takes no new streams.
    #[error("the link takes no new streams")]
    GoingAway,
    /// The connection has to be made anew first.
    #[error("stream numbers are used up on this connection")]
    Exhausted,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendRefused {
    /// The stream has ended, or our half of it.
    #[error("the stream has ended")]
    Ended,
    /// The peer takes no message as long.
    #[error("a message of {got} bytes, the peer takes {limit}")]
    TooLarge {
        /// Bytes of envelope and body.
        got: u64,
        /// The peer's limit.
        limit: u64,
    },
    /// Too much waits already; [`Notice::Writable`] or [`Notice::EventsWritable`] says when to try again.
    #[error("too much waits to be sent")]
    Full,
}

/// What a stream has for its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a stream has a message, nothing yet, or nothing more")]
pub enum Read {
    /// The next message.
    Message(Received),
    /// Nothing yet: [`Notice::Readable`] says when.
    Pending,
    /// Nothing more will come.
    End,
}

impl Link {
    /// Opens a stream. Nothing is sent before the first message.
    ///
    /// # Errors
    /// [`OpenRefused`].
    pub fn open(&mut self, priority: u8) -> Result<StreamId, OpenRefused> {
        if self.peer_going_away || self.going_away.is_some() {
            return Err(OpenRefused::GoingAway);
        }
        let (limit, window) = (self.peer.max_streams, self.peer.stream_window);
        if self.own_open >= limit {
            self.is_open_wanted = true;
            return Err(OpenRefused::TooMany { limit });
        }
        while self.streams.contains_key(&StreamId(self.next_stream)) {
            self.next_stream += 2;
        }
        if self.next_stream >= ROLL_OVER && !self.is_exhaustion_told {
            self.is_exhaustion_told = true;
            self.notices.push_back(Notice::Exhausted);
        }
        if self.next_stream >= u32::MAX - 1 {
            return Err(OpenRefused::Exhausted);
        }
        let id = StreamId(self.next_stream);
        self.next_stream += 2;
        self.own_open += 1;
        self.unbegun.insert(id);
        let receive = u64::from(self.settings.announced.stream_window);
        self.streams.insert(id, Stream::new(priority, receive, u64::from(window)));
        Ok(id)
    }

    /// Queues a message on a stream; `fin` makes it our last one there. An answer (RESPONSE or ERROR) always is, and
    /// ends the stream: input that still comes is passed over.
    ///
    /// # Errors
    /// [`SendRefused`]; the stream is as before.
    pub fn send(
        &mut self,
        stream: StreamId,
        message_type: MessageType,
        message: Outgoing,
        fin: bool,
    ) -> Result<(), SendRefused> {
        self.check_size(&message, self.peer.max_message)?;
        let chunk = self.chunk();
        let is_own = stream.opener() == Some(self.side);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Err(SendRefused::Ended);
        };
        let is_answer = matches!(message_type, MessageType::Response | MessageType::Error);
        let fin = fin || is_answer;
        if entry.phase != Phase::Open || entry.outbound.is_closed {
            return Err(SendRefused::Ended);
        }
        if !entry.outbound.takes_more() && !is_answer {
            entry.outbound.is_full = true;
            return Err(SendRefused::Full);
        }
        if message_type == MessageType::Error {
            // Items that wait would only delay the bad news.
            if !entry.outbound.has_begun {
                entry.outbound.clear();
            }
        }
        entry.outbound.push(message_type, message.head, message.body, fin, chunk);
        if fin && !is_own {
            self.stop_reading(stream);
        }
        self.schedule(stream);
        Ok(())
    }

    /// Whether a message would be taken now; if not, [`Notice::Writable`] says when to try again.
    ///
    /// # Errors
    /// [`SendRefused::Full`] or [`SendRefused::Ended`].
    pub fn is_writable(&mut self, stream: StreamId) -> Result<(), SendRefused> {
        let Some(entry) = self.streams.get_mut(&stream) else { return Err(SendRefused::Ended) };
        if entry.phase != Phase::Open || entry.outbound.is_closed {
            return Err(SendRefused::Ended);
        }
        entry.outbound.is_full = !entry.outbound.takes_more();
        if entry.outbound.is_full { Err(SendRefused::Full) } else { Ok(()) }
    }

    /// Answers a stream of the peer's with an error that has nothing but a code and a sentence. Harmless when the stream
    /// has ended.
    pub fn fail(&mut self, stream: StreamId, code: ErrorCode, message: &str) {
        let body = Fault::new(code, message).encode();
        let envelope = Envelope { content_type: ContentType::Postcard, ..Envelope::default() };
        if let Ok(head) = encode_head(&envelope, body.len()) {
            // The stream may have ended meanwhile: nobody waits for this then.
            let _ended = self.send(stream, MessageType::Error, Outgoing { head, body }, true);
        }
    }

    /// Ends our half of a stream without another message: the explicit end of streamed input.
    pub fn finish(&mut self, stream: StreamId) {
        let chunk = self.chunk();
        if let Some(entry) = self.streams.get_mut(&stream)
            && !entry.outbound.is_closed
        {
            entry.outbound.push(MessageType::Stream, Default::default(), Default::default(), true, chunk);
            self.schedule(stream);
        }
    }

    /// Takes the next message off a stream, which gives its bytes back to the windows. After [`Read::End`] the stream is
    /// forgotten.
    pub fn read(&mut self, stream: StreamId) -> Read {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Read::End;
        };
        if let Some(received) = entry.inbound.pop() {
            self.free(stream);
            return Read::Message(received);
        }
        if entry.phase == Phase::Open && !entry.inbound.is_finished() {
            return Read::Pending;
        }
        if stream.opener() == Some(self.side) {
            self.forget_if_over(stream);
        }
        Read::End
    }

    /// Gives up a stream that we opened: its answer is no longer wanted. Harmless when it has ended.
    pub fn cancel(&mut self, stream: StreamId, code: ErrorCode) {
        self.stop_reading(stream);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        if entry.phase == Phase::Ended {
            self.forget_if_over(stream);
            return;
        }
        entry.phase = Phase::Cancelled;
        if entry.outbound.has_begun {
            self.close_half(stream);
            self.say_cancel(stream, code);
        } else {
            // The peer never heard of it.
            self.remove(stream);
        }
    }

    /// Queues an event.
    ///
    /// # Errors
    /// [`SendRefused::Full`] if too much waits: the caller counts it as lost for this peer.
    /// [`SendRefused::TooLarge`]: an event fits into the peer's window for events as a whole.
    pub fn publish(&mut self, message: Outgoing) -> Result<(), SendRefused> {
        self.check_size(&message, self.peer.max_message.min(self.peer.event_window))?;
        if !self.events_out.takes_more() {
            self.events_out.is_full = true;
            return Err(SendRefused::Full);
        }
        let chunk = self.chunk();
        self.events_out.push(MessageType::Event, message.head, message.body, false, chunk);
        self.schedule(StreamId::LINK);
        Ok(())
    }

    /// Takes the next event.
    pub fn read_event(&mut self) -> Option<Received> {
        let received = self.events_in.pop()?;
        self.free_events();
        Some(received)
    }

    /// States all that we provide. It is said again on every new connection. A revision lower than the last stated is out
    /// of date and ignored: those who state it may overtake each other.
    pub fn advertise(&mut self, revision: u64, capabilities: Vec<CapabilityInfo>) {
        if revision < self.advertised_revision {
            return;
        }
        self.advertised_revision = revision;
        let mut parts: Vec<Vec<CapabilityInfo>> = vec![Vec::new()];
        let mut len = 0;
        for info in capabilities {
            let item_schema = info.item_schema.as_ref().map_or(0, String::len);
            let slots = (info.reads.len() + info.writes.len()) * MAX_SEGMENT;
            len += info.description.len() + info.input_schema.len() + info.output_schema.len() + item_schema;
            len += slots + MAX_CAPABILITY;
            if let Some(part) = parts.last_mut() {
                part.push(info);
            }
            if len >= ADVERTISE_PART {
                parts.push(Vec::new());
                len = 0;
            }
        }
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        self.advertised = (0..)
            .zip(parts)
            .map(|(part, capabilities)| {
                let statement = Advertise { revision, part, parts: count, capabilities };
                Frame::control(MessageType::Advertise, StreamId::LINK, statement.encode())
            })
            .collect();
        self.advertise_next = 0;
    }

    /// States all that we subscribe to. It is said again on every new connection. A revision lower than the last stated is
    /// out of date and ignored.
    pub fn subscribe(&mut self, revision: u64, subscriptions: Vec<Interest>) {
        if revision < self.subscribed_revision {
            return;
        }
        self.subscribed_revision = revision;
        let statement = Subscribe { revision, subscriptions };
        self.subscribed = Some(Frame::control(MessageType::Subscribe, StreamId::LINK, statement.encode()));
        self.is_subscribe_due = true;
    }

    /// Tells the peer that no new streams are taken. In the first of two phases, `final_word` false, streams on their way
    /// are still taken up; in the second, those that have not arrived by now are not, and the peer sends them elsewhere.
    pub fn go_away(&mut self, reason: GoAwayReason, message: &str, final_word: bool) {
        let last_stream = if final_word { self.peer_last } else { u32::MAX };
        self.going_away = Some(last_stream);
        let statement = GoAway { reason, last_stream, message: message.to_owned() };
        self.control.push_back(Frame::control(MessageType::GoAway, StreamId::LINK, statement.encode()));
    }

    /// Asks the peer for a sign of life.
    pub fn probe(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.liveness.want_beat();
        }
    }

    /// How busy we are, from 0 to 100; told with heartbeats.
    pub fn set_load(&mut self, load: u8) {
        self.load = load.min(100);
    }

    fn check_size(&self, message: &Outgoing, limit: u32) -> Result<(), SendRefused> {
        let (got, limit) = (message.head.len() as u64 + message.body.len() as u64, u64::from(limit));
        if got > limit { Err(SendRefused::TooLarge { got, limit }) } else { Ok(()) }
    }

    pub(super) fn say_cancel(&mut self, stream: StreamId, code: ErrorCode) {
        if self.connection.is_some() {
            self.cancels.push_back(Frame::control(MessageType::Cancel, stream, Cancel { code }.encode()));
        }
    }

    /// What comes on this stream from now on is counted and dropped.
    pub(super) fn stop_reading(&mut self, stream: StreamId) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.inbound.discard();
            self.free(stream);
        }
    }

    /// Drops what waits on our half and ends it.
    pub(super) fn close_half(&mut self, stream: StreamId) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        if entry.outbound.is_sent {
            return;
        }
        entry.outbound.clear();
        entry.outbound.is_closed = false;
        self.finish(stream);
    }

    pub(super) fn schedule(&mut self, stream: StreamId) {
        if stream == StreamId::LINK {
            if !self.events_out.is_scheduled {
                self.events_out.is_scheduled = true;
                self.schedule.add(DEFAULT_PRIORITY, stream);
            }
        } else if let Some(entry) = self.streams.get_mut(&stream)
            && !entry.outbound.is_scheduled
        {
            entry.outbound.is_scheduled = true;
            self.schedule.add(entry.outbound.priority, stream);
        }
    }

    /// Gives back to the windows what a stream no longer holds.
    pub(super) fn free(&mut self, stream: StreamId) {
        let window = u64::from(self.settings.announced.stream_window);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let released = entry.inbound.release();
        let (is_due, gained) = entry.inbound.free(window);
        if is_due && !self.windows_due.contains(&stream) {
            self.windows_due.push(stream);
        }
        self.free_link(gained);
        self.release_assembly(released);
    }

    pub(super) fn free_events(&mut self) {
        let window = u64::from(self.settings.announced.event_window);
        let (is_due, _) = self.events_in.free(window);
        self.is_link_window_due |= is_due;
    }

    pub(super) fn free_link(&mut self, bytes: u64) {
        self.link_freed += bytes;
        self.is_link_window_due |= bytes > 0 && self.link_grant.free(self.link_freed, self.link_received);
    }

    /// Memory for a message longer than a window: set aside whole before the window opens for it, so that messages that
    /// have begun can always be completed and never wait for each other.
    pub(super) fn reserve_assembly(&mut self, stream: StreamId) {
        let window = u64::from(self.settings.announced.stream_window);
        let budget = self.settings.assembly_bytes;
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some(bytes) = entry.inbound.wants_reservation(window) else {
            return;
        };
        if self.assembling > 0 && self.assembling + bytes > budget {
            if !self.assembly_queue.contains(&stream) {
                self.assembly_queue.push_back(stream);
            }
            return;
        }
        self.assembling += bytes;
        entry.inbound.reserve(bytes);
        self.free(stream);
    }

    pub(super) fn release_assembly(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.assembling -= bytes;
        for stream in std::mem::take(&mut self.assembly_queue) {
            self.reserve_assembly(stream);
        }
    }

    /// Forgets a stream when both halves are over and nothing waits to be read.
    pub(super) fn forget_if_over(&mut self, stream: StreamId) {
        let is_own = stream.opener() == Some(self.side);
        let is_over = self.streams.get(&stream).is_some_and(|entry| {
            let is_heard = if is_own { entry.phase == Phase::Ended } else { entry.inbound.is_finished() };
            is_heard && entry.outbound.is_sent && !entry.inbound.has_message()
        });
        if is_over {
            self.remove(stream);
        }
    }

    pub(super) fn remove(&mut self, stream: StreamId) {
        self.stop_reading(stream);
        let Some(mut entry) = self.streams.remove(&stream) else {
            return;
        };
        let released = entry.inbound.release();
        self.release_assembly(released);
        self.windows_due.retain(|due| *due != stream);
        self.unbegun.remove(&stream);
        if stream.opener() == Some(self.side) {
            self.own_open -= 1;
            if std::mem::take(&mut self.is_open_wanted) {
                self.notices.push_back(Notice::Openable);
            }
        } else {
            self.peer_open -= 1;
        }
    }

    #[cfg(any(test, feature = "testing"))]
    /// Starts the numbers of our streams elsewhere: the end of the range is far otherwise.
    pub fn skip_to_stream(&mut self, next: u32) {
        self.next_stream = next;
    }

    pub(super) fn renew_window(&mut self, now: Instant, stream: StreamId) -> Option<u64> {
        let round_trip = self.round_trip();
        let entry = self.streams.get_mut(&stream)?;
        Some(entry.inbound.grant().renew(now, round_trip))
    }
}
