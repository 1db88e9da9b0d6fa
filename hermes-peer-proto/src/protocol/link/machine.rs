//! The link machine itself: its state, its construction, its clock.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use bytes::BytesMut;

use super::ack::ReceiveCount;
use super::ack::Retained;
use super::inbound::Inbound;
use super::liveness::Liveness;
use super::outbound::DEFAULT_PRIORITY;
use super::outbound::Outbound;
use super::outbound::Schedule;
use super::stream::Stream;
use super::window::Credit;
use super::window::Grant;
use crate::protocol::LinkSettings;
use crate::protocol::Notice;
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
pub(super) const ROLL_OVER: u32 = 1 << 30;
/// First version whose links resume.
pub(super) const RESUMABLE: u8 = 2;

/// The authenticated relation between two nodes.
#[derive(Debug)]
pub struct Link {
    pub(super) id: LinkId,
    pub(super) side: Side,
    pub(super) epoch: Epoch,
    pub(super) settings: LinkSettings,
    /// What the peer takes, as it said last.
    pub(super) peer: Announced,
    pub(super) connection: Option<Connection>,

    pub(super) streams: HashMap<StreamId, Stream>,
    pub(super) next_stream: u32,
    /// Our streams of which nothing was sent yet. They have to be begun in the order of their numbers.
    pub(super) unbegun: BTreeSet<StreamId>,
    /// Our numbers started over on this connection.
    pub(super) has_rolled: bool,
    /// Number of the stream that the peer opened last.
    pub(super) peer_last: u32,
    /// The peer's numbers may start over once on this connection.
    pub(super) peer_may_roll: bool,
    pub(super) own_open: u32,
    pub(super) peer_open: u32,
    /// Somebody was told that no stream can be opened.
    pub(super) is_open_wanted: bool,
    pub(super) is_exhaustion_told: bool,

    pub(super) schedule: Schedule,
    /// Streams that wait for the link's window.
    pub(super) link_blocked: Vec<StreamId>,
    pub(super) link_credit: Credit,
    pub(super) link_grant: Grant,
    pub(super) link_received: u64,
    pub(super) link_freed: u64,
    pub(super) events_out: Outbound,
    pub(super) events_in: Inbound,

    pub(super) control: VecDeque<Frame>,
    /// Cancelled streams that the peer has to be told of, after everything that is sent again.
    pub(super) cancels: VecDeque<Frame>,
    pub(super) windows_due: Vec<StreamId>,
    pub(super) is_link_window_due: bool,
    pub(super) heartbeat_reply: Option<u64>,
    /// All that we provide, as last stated, and which parts the connection has not carried yet.
    pub(super) advertised: Vec<Frame>,
    pub(super) advertised_revision: u64,
    pub(super) advertise_next: usize,
    /// All that we subscribe to, as last stated, and the revision of that.
    pub(super) subscribed: Option<(u64, Frame)>,
    pub(super) is_subscribe_due: bool,
    /// Parts of the peer's statement that have come so far.
    pub(super) advertise_parts: Vec<CapabilityInfo>,
    pub(super) advertise_revision: u64,
    pub(super) advertise_part: u32,
    pub(super) subscribe_revision: u64,

    pub(super) received: ReceiveCount,
    pub(super) retained: Retained,
    /// Memory set aside for messages longer than a window, and who waits for some.
    pub(super) assembling: u64,
    pub(super) assembly_queue: VecDeque<StreamId>,

    pub(super) going_away: Option<u32>,
    pub(super) peer_going_away: bool,
    pub(super) peer_load: u8,
    pub(super) load: u8,
    pub(super) notices: VecDeque<Notice>,
}

/// The connection that carries the link now.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) version: u8,
    pub(super) liveness: Liveness,
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
            advertised_revision: 0,
            advertise_next: 0,
            subscribed: None,
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

    /// Whether either side has said that it takes no new streams.
    pub fn is_going_away(&self) -> bool {
        self.peer_going_away || self.going_away.is_some()
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

    pub(super) fn is_resumable(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.version >= RESUMABLE)
    }

    pub(super) fn chunk(&self) -> usize {
        self.peer.max_chunk.min(self.settings.announced.max_chunk).max(limits::MIN_CHUNK) as usize
    }
}

impl Connection {
    pub(super) fn new(now: Instant, version: u8, peer: Announced, settings: &LinkSettings) -> Self {
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
