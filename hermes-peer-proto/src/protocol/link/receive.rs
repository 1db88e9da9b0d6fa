//! Frames in.

use std::time::Instant;

use super::inbound::PushError;
use super::machine::Link;
use super::stream::Phase;
use super::stream::Stream;
use crate::protocol::Notice;
use crate::protocol::PeerMisbehaved;
use crate::protocol::limits::MAX_ADVERTISED;
use crate::protocol::limits::MAX_SUBSCRIPTIONS;
use crate::wire::Ack;
use crate::wire::Advertise;
use crate::wire::Cancel;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::Flags;
use crate::wire::Frame;
use crate::wire::GoAway;
use crate::wire::Heartbeat;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::Subscribe;
use crate::wire::Window;

impl Link {
    /// Takes one frame off the connection.
    ///
    /// # Errors
    /// [`PeerMisbehaved`]: the peer broke the protocol. The driver tells it why and closes the connection.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame) -> Result<(), PeerMisbehaved> {
        self.handle_life(now);
        if frame.is_data() {
            let limit = self.settings.announced.max_chunk;
            if frame.payload.len() > limit as usize {
                return Err(PeerMisbehaved::ChunkTooLong { got: frame.payload.len(), limit });
            }
            if self.is_resumable() {
                self.received.count(now, frame.payload.len());
            }
            return if frame.stream == StreamId::LINK {
                self.event_data(frame)
            } else {
                self.stream_data(frame)
            };
        }
        match frame.message_type {
            MessageType::Heartbeat => self.heartbeat(now, &frame),
            MessageType::Ack => self.ack(&frame),
            MessageType::Window => self.window(&frame),
            MessageType::Cancel => self.cancelled(&frame),
            MessageType::Advertise => self.advertisement(&frame),
            MessageType::Subscribe => self.subscription(&frame),
            MessageType::GoAway => self.peer_goes_away(&frame),
            MessageType::Error => Err(PeerMisbehaved::Closed(Box::new(Fault::decode(&frame.payload)?))),
            unexpected => Err(PeerMisbehaved::UnexpectedMessage { got: unexpected }),
        }
    }

    /// Bytes came in that are not a whole frame yet: they are life all the same.
    pub fn handle_life(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.liveness.heard(now);
        }
    }

    fn stream_data(&mut self, frame: Frame) -> Result<(), PeerMisbehaved> {
        let stream = frame.stream;
        let is_own = stream.opener() == Some(self.side);
        if !self.streams.contains_key(&stream) {
            if is_own || frame.message_type != MessageType::Request {
                return Err(PeerMisbehaved::UnknownStream { stream: stream.0 });
            }
            self.open_for_peer(stream)?;
        }
        let is_expected = match frame.message_type {
            MessageType::Request => !is_own,
            MessageType::Response | MessageType::Error => is_own,
            MessageType::Stream => true,
            _ => false,
        };
        if !is_expected {
            return Err(PeerMisbehaved::UnexpectedMessage { got: frame.message_type });
        }
        if is_own { self.answer_data(frame) } else { self.request_data(frame) }
    }

    fn open_for_peer(&mut self, stream: StreamId) -> Result<(), PeerMisbehaved> {
        let starts_over = self.peer_may_roll
            && self.peer_last >= super::machine::ROLL_OVER
            && stream.0 < super::machine::ROLL_OVER;
        if stream.0 <= self.peer_last && !starts_over {
            return Err(PeerMisbehaved::StreamReused { stream: stream.0 });
        }
        if self.peer_open >= self.settings.announced.max_streams {
            return Err(PeerMisbehaved::TooManyStreams { limit: self.settings.announced.max_streams });
        }
        if starts_over {
            self.peer_may_roll = false;
        }
        self.peer_last = stream.0;
        self.peer_open += 1;
        let send_window = self.peer.stream_window;
        let receive = u64::from(self.settings.announced.stream_window);
        let mut entry = Stream::new(super::outbound::DEFAULT_PRIORITY, receive, u64::from(send_window));
        if self.going_away.is_some_and(|last| stream.0 > last) {
            // The peer has been told, or is being told, that this one is not taken: no end is owed for it.
            entry.phase = Phase::Ended;
            entry.outbound.is_closed = true;
            entry.outbound.is_sent = true;
        }
        self.streams.insert(stream, entry);
        Ok(())
    }

    /// A piece of a request, or of its streamed input.
    fn request_data(&mut self, frame: Frame) -> Result<(), PeerMisbehaved> {
        let stream = frame.stream;
        let fin = frame.is_fin();
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        let is_read = entry.phase == Phase::Open && !entry.outbound.is_closed;
        let had_message = entry.inbound.has_message();
        let was_request_whole = entry.request_sent.is_some();
        let is_end_only = fin && frame.payload.is_empty();
        if (frame.message_type == MessageType::Request) == was_request_whole && !is_end_only {
            // One REQUEST first, and after it nothing but STREAM.
            return Err(PeerMisbehaved::UnexpectedMessage { got: frame.message_type });
        }
        match self.push(frame, is_read) {
            // The opener gave the stream up in the middle of a message.
            Err(PushError::CutMessage) => {
                self.cancel_for_peer(stream, ErrorCode::Cancelled);
                return Ok(());
            }
            other => other.map_err(|error| misbehaved(stream, error))?,
        }
        if let Some(entry) = self.streams.get_mut(&stream)
            && is_read
        {
            let has_message = entry.inbound.has_message();
            if fin && !has_message && !was_request_whole {
                // The opener gave the stream up before it had said what it wanted.
                self.cancel_for_peer(stream, ErrorCode::Cancelled);
            } else if has_message && !was_request_whole {
                // On the acceptor's side the mark says only that the request has come.
                entry.request_sent = Some(0);
                self.notices.push_back(Notice::Request(stream));
            } else if was_request_whole && ((has_message && !had_message) || fin) {
                self.notices.push_back(Notice::Readable(stream));
            }
        }
        self.forget_if_over(stream);
        Ok(())
    }

    /// A piece of an answer.
    fn answer_data(&mut self, frame: Frame) -> Result<(), PeerMisbehaved> {
        let (stream, fin, message_type) = (frame.stream, frame.is_fin(), frame.message_type);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        let is_read = entry.phase == Phase::Open;
        let had_message = entry.inbound.has_message();
        if fin && message_type == MessageType::Stream {
            return Err(PeerMisbehaved::EndWithoutAnswer { stream: stream.0 });
        }
        self.push(frame, is_read).map_err(|error| misbehaved(stream, error))?;
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        if message_type != MessageType::Stream && !fin && is_read && entry.inbound.is_between_messages() {
            return Err(PeerMisbehaved::AnswerWithoutEnd { stream: stream.0 });
        }
        let has_news = is_read && (fin || (entry.inbound.has_message() && !had_message));
        if fin {
            entry.phase = Phase::Ended;
            if !entry.outbound.is_sent {
                self.close_half(stream);
            }
            if !is_read {
                self.forget_if_over(stream);
            }
        }
        if has_news {
            self.notices.push_back(Notice::Readable(stream));
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame, keep: bool) -> Result<(), PushError> {
        let stream = frame.stream;
        let fin = frame.is_fin();
        let max_message = u64::from(self.settings.announced.max_message);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        let counted = entry.inbound.push(frame.message_type, frame.payload, fin, max_message, keep)?;
        self.link_received += counted;
        if self.link_received > self.link_grant.limit() {
            return Err(PushError::WindowOverrun { limit: self.link_grant.limit(), got: self.link_received });
        }
        self.reserve_assembly(stream);
        self.free(stream);
        Ok(())
    }

    fn event_data(&mut self, frame: Frame) -> Result<(), PeerMisbehaved> {
        if frame.message_type != MessageType::Event || frame.is_fin() {
            return Err(PeerMisbehaved::UnexpectedMessage { got: frame.message_type });
        }
        let had_event = self.events_in.has_message();
        let max_event = u64::from(self.settings.announced.event_window);
        self.events_in
            .push(frame.message_type, frame.payload, false, max_event, true)
            .map_err(|error| misbehaved(StreamId::LINK, error))?;
        self.free_events();
        if self.events_in.has_message() && !had_event {
            self.notices.push_back(Notice::Events);
        }
        Ok(())
    }

    fn heartbeat(&mut self, now: Instant, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let beat = Heartbeat::decode(&frame.payload)?;
        self.peer_load = beat.load.min(100);
        if self.is_resumable() {
            self.acknowledged(beat.received)?;
        }
        if !frame.flags.contains(Flags::ACK) {
            // Only the latest is answered, so a flood of them costs no memory.
            self.heartbeat_reply = Some(beat.token);
        } else if let Some(connection) = &mut self.connection {
            connection.liveness.answered(now, beat.token);
        }
        Ok(())
    }

    fn ack(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        if !self.is_resumable() {
            return Err(PeerMisbehaved::UnexpectedMessage { got: MessageType::Ack });
        }
        self.acknowledged(Ack::decode(&frame.payload)?.received)
    }

    fn acknowledged(&mut self, received: u64) -> Result<(), PeerMisbehaved> {
        self.retained.acknowledge(received)
    }

    fn window(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let window = Window::decode(&frame.payload)?;
        if frame.stream == StreamId::LINK {
            if self.link_credit.raise(window.limit) {
                for stream in std::mem::take(&mut self.link_blocked) {
                    self.schedule(stream);
                }
            }
            if self.events_out.credit.raise(window.events) && self.events_out.has_waiting() {
                self.schedule(StreamId::LINK);
            }
        } else if let Some(entry) = self.streams.get_mut(&frame.stream)
            && entry.outbound.credit.raise(window.limit)
            && entry.outbound.has_waiting()
        {
            self.schedule(frame.stream);
        }
        // A window for a stream that has ended comes too late and does no harm.
        Ok(())
    }

    fn cancelled(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let Cancel { code } = Cancel::decode(&frame.payload)?;
        if frame.stream.opener() == Some(self.side) {
            return Err(PeerMisbehaved::UnexpectedMessage { got: MessageType::Cancel });
        }
        // The opener and the end may cross: nothing is left to cancel then.
        self.cancel_for_peer(frame.stream, code);
        Ok(())
    }

    /// The opener gave the stream up: it is answered by an error that nobody reads, so that both sides know it is over.
    fn cancel_for_peer(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(entry) = self.streams.get_mut(&stream) else { return };
        if entry.phase != Phase::Open || entry.outbound.is_closed {
            return;
        }
        entry.outbound.clear();
        let was_running = entry.request_sent.is_some();
        self.fail(stream, code, "the caller gave the call up");
        if was_running {
            self.notices.push_back(Notice::Cancelled(stream, code));
        }
    }

    fn advertisement(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let statement = Advertise::decode(&frame.payload)?;
        if statement.revision < self.advertise_revision {
            return Ok(());
        }
        if statement.part == 0 {
            self.advertise_parts.clear();
            self.advertise_part = 0;
        } else if statement.revision != self.advertise_revision || statement.part != self.advertise_part {
            return Err(PeerMisbehaved::AdvertiseOutOfOrder { part: statement.part });
        }
        self.advertise_revision = statement.revision;
        self.advertise_part += 1;
        self.advertise_parts.extend(statement.capabilities);
        if self.advertise_parts.len() > MAX_ADVERTISED {
            return Err(PeerMisbehaved::TooManyCapabilities { limit: MAX_ADVERTISED });
        }
        if self.advertise_part == statement.parts {
            self.notices.push_back(Notice::Advertised(std::mem::take(&mut self.advertise_parts)));
        }
        Ok(())
    }

    fn subscription(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let statement = Subscribe::decode(&frame.payload)?;
        if statement.subscriptions.len() > MAX_SUBSCRIPTIONS {
            return Err(PeerMisbehaved::TooManySubscriptions { limit: MAX_SUBSCRIPTIONS });
        }
        if statement.revision >= self.subscribe_revision {
            self.subscribe_revision = statement.revision;
            self.notices.push_back(Notice::Subscribed(statement.subscriptions));
        }
        Ok(())
    }

    fn peer_goes_away(&mut self, frame: &Frame) -> Result<(), PeerMisbehaved> {
        let statement = GoAway::decode(&frame.payload)?;
        self.peer_going_away = true;
        let mut not_taken: Vec<_> = self
            .streams
            .iter()
            .filter(|(id, entry)| {
                id.opener() == Some(self.side)
                    && self.is_opened_after(**id, statement.last_stream)
                    && entry.phase != Phase::Ended
            })
            .map(|(id, entry)| (*id, entry.phase))
            .collect();
        not_taken.sort_unstable_by_key(|(id, _)| *id);
        for (stream, phase) in not_taken {
            if phase == Phase::Open {
                self.notices.push_back(Notice::NotTaken(stream));
            }
            if let Some(entry) = self.streams.get_mut(&stream) {
                entry.phase = Phase::Ended;
                if entry.outbound.has_begun {
                    self.close_half(stream);
                    self.forget_if_over(stream);
                } else {
                    self.remove(stream);
                }
            }
        }
        self.notices.push_back(Notice::GoAway(statement));
        Ok(())
    }
}

fn misbehaved(stream: StreamId, error: PushError) -> PeerMisbehaved {
    let stream = stream.0;
    match error {
        PushError::WindowOverrun { limit, got } => PeerMisbehaved::WindowOverrun { stream, got, limit },
        PushError::AfterFin => PeerMisbehaved::AfterEnd { stream },
        PushError::EmptyFrames => PeerMisbehaved::EmptyFrames { stream },
        PushError::CutMessage | PushError::MixedTypes => PeerMisbehaved::CutMessage { stream },
        PushError::MessageTooLong { got, limit } => PeerMisbehaved::MessageTooLong { stream, got, limit },
        PushError::Wire(error) => PeerMisbehaved::Wire(error),
    }
}
