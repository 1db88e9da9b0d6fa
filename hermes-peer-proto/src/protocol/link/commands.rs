//! What the application asks of a link: messages on streams, and events.

use super::inbound::Received;
use super::machine::Link;
use super::machine::Outgoing;
use super::machine::ROLL_OVER;
use super::outbound::DEFAULT_PRIORITY;
use super::stream::Phase;
use super::stream::Stream;
use crate::protocol::Notice;
use crate::wire::Cancel;
use crate::wire::ContentType;
use crate::wire::Envelope;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::Frame;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::encode_head;

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
        if self.is_going_away() {
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
}
