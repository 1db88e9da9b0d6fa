//! The link machine: streams over connections that come and go.
//!
//! Methods are of four kinds, called in this order whenever something happens:
//! 1. **commands** of the application: [`open`](Link::open), [`send`](Link::send), [`read`](Link::read),
//!    [`cancel`](Link::cancel), [`publish`](Link::publish), [`advertise`](Link::advertise), …
//! 2. **`handle_`**: what came from outside: [`handle_frame`](Link::handle_frame), [`handle_timeout`](Link::handle_timeout),
//!    and connections with [`attach`](Link::attach) and [`detach`](Link::detach);
//! 3. **`poll_`**: what goes out, each until it gives `None` or `false`: [`poll_notice`](Link::poll_notice),
//!    [`poll_transmit`](Link::poll_transmit), then [`poll_timeout`](Link::poll_timeout);
//! 4. getters, at any time.
//!
//! The rule that keeps it correct: a data frame gets its number when it is handed to the connection, in that order and
//! never before; so whatever overtakes, counts on both sides agree.

mod ack;
mod commands;
mod inbound;
mod liveness;
mod outbound;
mod receive;
mod stream;
mod transmit;
mod window;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use bytes::BytesMut;

pub use self::commands::OpenRefused;
pub use self::commands::Read;
pub use self::commands::SendRefused;
pub use self::inbound::Received;
pub use self::outbound::DEFAULT_PRIORITY;
pub use self::outbound::MAX_PRIORITY;
pub use self::outbound::SEND_AHEAD;
pub use self::window::UNCOUNTED;

use self::ack::ReceiveCount;
use self::ack::Retained;
use self::inbound::Inbound;
use self::liveness::Liveness;
use self::outbound::Outbound;
use self::outbound::Schedule;
use self::stream::Stream;
use self::window::Credit;
use self::window::Grant;
use crate::protocol::LinkSettings;
use crate::protocol::Notice;
use crate::protocol::PeerMisbehaved;
use crate::protocol::limits;
use crate::wire::Announced;
use crate::wire::CapabilityInfo;
use crate::wire::Epoch;
use crate::wire::Frame;
use crate::wire::LinkId;
use crate::wire::Side;
use crate::wire::StreamId;

/// Stream numbers from here on call for a new connection, on which they start over. Half of the numbers are then still
/// left, which even 50,000 calls a second take six hours to use up.
const ROLL_OVER: u32 = 1 << 30;
/// First version whose links resume.
const RESUMABLE: u8 = 2;

/// The authenticated relation between two nodes.
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    side: Side,
    epoch: Epoch,
    settings: LinkSettings,
    /// What the peer takes, as it said last.
    peer: Announced,
    connection: Option<Connection>,

    streams: HashMap<StreamId, Stream>,
    next_stream: u32,
    /// Our streams of which nothing was sent yet. They have to be begun in the order of their numbers.
    unbegun: BTreeSet<StreamId>,
    /// Our numbers started over on this connection.
    has_rolled: bool,
    /// Number of the stream that the peer opened last.
    peer_last: u32,
    /// The peer's numbers may start over once on this connection.
    peer_may_roll: bool,
    own_open: u32,
    peer_open: u32,
    /// Somebody was told that no stream can be opened.
    is_open_wanted: bool,
    is_exhaustion_told: bool,

    schedule: Schedule,
    /// Streams that wait for the link's window.
    link_blocked: Vec<StreamId>,
    link_credit: Credit,
    link_grant: Grant,
    link_received: u64,
    link_freed: u64,
    events_out: Outbound,
    events_in: Inbound,

    control: VecDeque<Frame>,
    /// Cancelled streams that the peer has to be told of, after everything that is sent again.
    cancels: VecDeque<Frame>,
    windows_due: Vec<StreamId>,
    is_link_window_due: bool,
    heartbeat_reply: Option<u64>,
    /// All that we provide, as last stated, and which parts the connection has not carried yet.
    advertised: Vec<Frame>,
    advertise_next: usize,
    advertised_revision: u64,
    subscribed: Option<Frame>,
    subscribed_revision: u64,
    is_subscribe_due: bool,
    /// Parts of the peer's statement that have come so far.
    advertise_parts: Vec<CapabilityInfo>,
    advertise_revision: u64,
    advertise_part: u32,
    subscribe_revision: u64,

    received: ReceiveCount,
    retained: Retained,
    /// Memory set aside for messages longer than a window, and who waits for some.
    assembling: u64,
    assembly_queue: VecDeque<StreamId>,

    going_away: Option<u32>,
    peer_going_away: bool,
    peer_load: u8,
    load: u8,
    notices: VecDeque<Notice>,
}

/// The connection that carries the link now.
#[derive(Debug)]
struct Connection {
    version: u8,
    liveness: Liveness,
}

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
    /// A link over its first connection.
    pub fn new(
        now: Instant,
        id: LinkId,
        side: Side,
        epoch: Epoch,
        version: u8,
        settings: LinkSettings,
        peer: Announced,
    ) -> Self {
        let own = settings.announced;
        let window = |bytes: u32| u64::from(bytes);
        Self {
            id,
            side,
            epoch,
            streams: HashMap::new(),
            next_stream: side.first_stream().0,
            unbegun: BTreeSet::new(),
            has_rolled: false,
            peer_last: 0,
            peer_may_roll: false,
            own_open: 0,
            peer_open: 0,
            is_open_wanted: false,
            is_exhaustion_told: false,
            schedule: Schedule::new(),
            link_blocked: Vec::new(),
            link_credit: Credit::new(window(peer.link_window)),
            link_grant: Grant::new(window(own.link_window), window(own.link_window)),
            link_received: 0,
            link_freed: 0,
            events_out: Outbound::new(DEFAULT_PRIORITY, window(peer.event_window)),
            events_in: Inbound::new(window(own.event_window)),
            control: VecDeque::new(),
            cancels: VecDeque::new(),
            windows_due: Vec::new(),
            is_link_window_due: false,
            heartbeat_reply: None,
            advertised: Vec::new(),
            advertise_next: 0,
            advertised_revision: 0,
            subscribed: None,
            subscribed_revision: 0,
            is_subscribe_due: false,
            advertise_parts: Vec::new(),
            advertise_revision: 0,
            advertise_part: 0,
            subscribe_revision: 0,
            received: ReceiveCount::default(),
            retained: Retained::new(settings.retained_frames, settings.retained_bytes),
            assembling: 0,
            assembly_queue: VecDeque::new(),
            going_away: None,
            peer_going_away: false,
            peer_load: 0,
            load: 0,
            notices: VecDeque::new(),
            peer,
            connection: Some(Connection::new(now, version, peer, &settings)),
            settings,
        }
    }

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
            .filter(|(id, stream)| id.opener() == Some(self.side) && stream.phase == stream::Phase::Open)
            .map(|(id, stream)| (*id, is_run(stream)))
            .collect();
        streams.sort_unstable();
        self.streams.retain(|id, stream| {
            stream.phase = stream::Phase::Ended;
            id.opener() == Some(self.side) && stream.inbound.has_message()
        });
        let sent = self.retained.sent();
        Ended { gap: (known < sent).then_some((known + 1, sent)), streams }
    }

    /// Which link this is.
    pub fn id(&self) -> LinkId {
        self.id
    }

    /// Which end of it we are.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The version spoken, while there is a connection.
    pub fn version(&self) -> Option<u8> {
        self.connection.as_ref().map(|connection| connection.version)
    }

    /// What the peer takes, as it said last.
    pub fn peer(&self) -> &Announced {
        &self.peer
    }

    /// Data frames received: what a new connection tells the peer.
    pub fn received(&self) -> u64 {
        self.received.received()
    }

    /// Smoothed round trip, once measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.connection.as_ref()?.liveness.round_trip()
    }

    /// When the peer was last heard, while there is a connection.
    pub fn last_heard(&self) -> Option<Instant> {
        Some(self.connection.as_ref()?.liveness.last_heard())
    }

    /// How busy the peer said it is, from 0 to 100.
    pub fn peer_load(&self) -> u8 {
        self.peer_load
    }

    /// Streams open now: ours, and the peer's.
    pub fn open_streams(&self) -> (u32, u32) {
        (self.own_open, self.peer_open)
    }

    /// Bytes received and not read yet, all streams together.
    pub fn held_bytes(&self) -> u64 {
        self.streams.values().map(|stream| stream.inbound.held()).sum::<u64>() + self.events_in.held()
    }

    /// Data frames sent and not acknowledged (version 2).
    pub fn unacknowledged(&self) -> u64 {
        self.retained.sent() - self.retained.acked()
    }

    /// What happened, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout): always later than the time it was last called with.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let alive = connection.liveness.due();
        match (alive, self.received.due()) {
            (Some(alive), Some(ack)) if connection.version >= RESUMABLE => Some(alive.min(ack)),
            (alive, _) => alive,
        }
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection
            && connection.liveness.check(now)
        {
            self.notices.push_back(Notice::Silent);
        }
    }

    fn is_resumable(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.version >= RESUMABLE)
    }

    fn chunk(&self) -> usize {
        self.peer.max_chunk.min(self.settings.announced.max_chunk).max(limits::MIN_CHUNK) as usize
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
    fn is_opened_after(&self, stream: StreamId, last: u32) -> bool {
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
            if phase == stream::Phase::Cancelled {
                self.say_cancel(id, crate::wire::ErrorCode::Cancelled);
            }
        }
        self.advertise_next = 0;
        self.is_subscribe_due = self.subscribed.is_some();
    }
}

impl Connection {
    fn new(now: Instant, version: u8, peer: Announced, settings: &LinkSettings) -> Self {
        let interval = |ms: u32| Duration::from_millis(u64::from(ms.max(1)));
        let liveness =
            Liveness::new(now, interval(settings.announced.heartbeat_ms), interval(peer.heartbeat_ms));
        Self { version, liveness }
    }
}

/// A message ready to be sent: its front as [`encode_head`](crate::wire::encode_head) made it, and its body.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a message has two parts")]
pub struct Outgoing {
    /// Prelude and envelope.
    pub head: BytesMut,
    /// The body; shared, not copied, where it is larger than a chunk.
    pub body: bytes::Bytes,
}

#[cfg(test)]
mod tests;
