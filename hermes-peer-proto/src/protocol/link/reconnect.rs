//! Connections come and go; the link goes on, or ends for good.

use std::time::Instant;

use super::machine::Connection;
use super::machine::Link;
use super::machine::ROLL_OVER;
use super::stream::Phase;
use super::stream::Stream;
use crate::protocol::PeerMisbehaved;
use crate::wire::Announced;
use crate::wire::ErrorCode;
use crate::wire::StreamId;

/// What became of a link that will not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Data frames of ours, first and last, of which it is not known whether the peer received them.
    pub gap: Option<(u64, u64)>,
    /// Streams that we opened and that had not ended, and whether the peer may have run their request.
    pub streams: Vec<(StreamId, bool)>,
}

impl Link {
    /// Goes on over a new connection. The peer has received `received` of our data frames: what it has not is sent
    /// again first, then every statement that still holds is made anew.
    ///
    /// # Errors
    /// [`PeerMisbehaved::ResumeOutOfRange`] if the count cannot be: the link then has to be ended.
    pub fn attach(
        &mut self,
        now: Instant,
        version: u8,
        peer: Announced,
        received: u64,
    ) -> Result<(), PeerMisbehaved> {
        self.retained.reconnect(received)?;
        self.peer = peer;
        self.connection = Some(Connection::new(now, version, peer, &self.settings));
        self.peer_going_away = false;
        self.going_away = None;
        self.roll_over();
        self.restate();
        Ok(())
    }

    /// The connection is gone. What was to be said on it is not lost: data frames are kept, statements are made anew.
    pub fn detach(&mut self) {
        self.connection = None;
        self.control.clear();
        self.cancels.clear();
        self.heartbeat_reply = None;
    }

    /// The link will not go on. `received` is how many of our data frames the peer has received, where it said so.
    /// Messages that have arrived can still be read.
    pub fn end(&mut self, received: Option<u64>) -> Ended {
        self.connection = None;
        let known = received.unwrap_or_else(|| self.retained.acked());
        let is_run = |stream: &Stream| match (stream.request_sent, received) {
            // Without its last piece no handler runs.
            (None, _) => false,
            (Some(sent), Some(received)) => sent <= received,
            (Some(_), None) => true,
        };
        let mut streams: Vec<_> = self
            .streams
            .iter()
            .filter(|(id, stream)| id.opener() == Some(self.side) && stream.phase == Phase::Open)
            .map(|(id, stream)| (*id, is_run(stream)))
            .collect();
        streams.sort_unstable();
        self.streams.retain(|id, stream| {
            stream.phase = Phase::Ended;
            id.opener() == Some(self.side) && stream.inbound.has_message()
        });
        let sent = self.retained.sent();
        Ended { gap: (known < sent).then_some((known + 1, sent)), streams }
    }

    fn roll_over(&mut self) {
        self.has_rolled = self.next_stream >= ROLL_OVER;
        if self.has_rolled {
            self.next_stream = self.side.first_stream().0;
            self.is_exhaustion_told = false;
        }
        self.peer_may_roll = true;
    }

    /// Whether one of our streams was opened after the one with this number.
    pub(super) fn is_opened_after(&self, stream: StreamId, last: u32) -> bool {
        let order = |number: u32| (!self.has_rolled || number < ROLL_OVER, number);
        order(stream.0) > order(last)
    }

    /// Says again what still holds.
    fn restate(&mut self) {
        self.is_link_window_due = true;
        self.windows_due.clear();
        let mut streams: Vec<_> = self.streams.iter().map(|(id, stream)| (*id, stream.phase)).collect();
        streams.sort_unstable_by_key(|(id, _)| *id);
        for (id, phase) in streams {
            self.windows_due.push(id);
            if phase == Phase::Cancelled {
                self.say_cancel(id, ErrorCode::Cancelled);
            }
        }
        self.advertise_next = 0;
        self.is_subscribe_due = self.subscribed.is_some();
    }
}
