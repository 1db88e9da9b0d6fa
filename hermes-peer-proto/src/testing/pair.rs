//! A pair of links and the wire between them.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;

use crate::protocol::Link;
use crate::protocol::LinkSettings;
use crate::protocol::Notice;
use crate::protocol::Outgoing;
use crate::protocol::limits::MAX_PAYLOAD;
use crate::wire::Batch;
use crate::wire::Decoder;
use crate::wire::Envelope;
use crate::wire::Epoch;
use crate::wire::LinkId;
use crate::wire::Side;
use crate::wire::encode_head;

/// Steps without time passing after which two links are said to keep each other busy for ever.
const MAX_IDLE_STEPS: u32 = 100_000;

/// One direction of the connection.
#[derive(Debug, Default)]
pub struct Wire {
    on_the_way: VecDeque<(Instant, Bytes)>,
    arrived: BytesMut,
    /// Bytes that the connection still carries in this direction; then it is cut.
    pub carries: Option<usize>,
    /// Bytes carried so far.
    pub carried: usize,
}

/// Two links, a wire each way, one clock.
#[derive(Debug)]
pub struct Pair {
    /// The link's initiator.
    pub a: Link,
    /// The link's acceptor.
    pub b: Link,
    /// From `a` to `b`.
    pub to_b: Wire,
    /// From `b` to `a`.
    pub to_a: Wire,
    /// The time.
    pub now: Instant,
    /// How long bytes take.
    pub latency: Duration,
    /// Bytes get lost without a word, as when a cable is pulled.
    pub is_cut: bool,
    /// Notices of `a` not looked at yet.
    pub notices_a: VecDeque<Notice>,
    /// Notices of `b` not looked at yet.
    pub notices_b: VecDeque<Notice>,
    version: u8,
    settings: LinkSettings,
}

impl Pair {
    /// A fresh link that speaks `version`, with the same settings on both sides.
    pub fn new(version: u8, settings: LinkSettings) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one origin of a test's time")]
        let now = Instant::now();
        let link = |side, epoch| {
            let id = LinkId::from_bytes([7; 16]);
            Link::new(now, id, side, Epoch(epoch), version, settings.clone(), settings.announced)
        };
        Self {
            a: link(Side::Initiator, 1),
            b: link(Side::Acceptor, 2),
            to_b: Wire::default(),
            to_a: Wire::default(),
            now,
            latency: Duration::from_millis(1),
            is_cut: false,
            notices_a: VecDeque::new(),
            notices_b: VecDeque::new(),
            version,
            settings,
        }
    }

    /// Lets the two talk until neither has anything to say, without waiting for timers. True if the connection was cut.
    ///
    /// # Panics
    /// If a link misbehaves, or the two keep each other busy for ever.
    pub fn settle(&mut self) -> bool {
        for _ in 0..MAX_IDLE_STEPS {
            let sent = self.exchange();
            if self.is_broken() {
                return true;
            }
            match self.next_arrival() {
                Some(at) => self.now = self.now.max(at),
                None if !sent => return false,
                None => {}
            }
        }
        panic!("the links do not come to rest");
    }

    /// Lets `time` pass, timers included.
    ///
    /// # Panics
    /// If a link misbehaves, or asks to be woken at a time it was woken at.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while !self.settle() {
            let wake = [self.a.poll_timeout(), self.b.poll_timeout()].into_iter().flatten().min();
            let Some(wake) = wake.filter(|wake| *wake <= end) else {
                break;
            };
            assert!(wake >= self.now, "a timer of the past");
            self.now = wake;
            for link in [&mut self.a, &mut self.b] {
                if link.poll_timeout().is_some_and(|due| due <= wake) {
                    link.handle_timeout(wake);
                }
            }
        }
        self.now = self.now.max(end);
    }

    /// The connection is gone, and with it the bytes on the way.
    pub fn disconnect(&mut self) {
        self.a.detach();
        self.b.detach();
        self.to_a = Wire::default();
        self.to_b = Wire::default();
    }

    /// Goes on over a new connection.
    ///
    /// # Panics
    /// If the two do not agree on what was received.
    pub fn resume(&mut self) {
        let (received_a, received_b) = (self.a.received(), self.b.received());
        let peer = self.settings.announced;
        self.a.attach(self.now, self.version, peer, received_b).expect("b received what a sent");
        self.b.attach(self.now, self.version, peer, received_a).expect("a received what b sent");
    }

    fn is_broken(&self) -> bool {
        [&self.to_a, &self.to_b].iter().any(|wire| wire.carries == Some(0))
    }

    fn next_arrival(&self) -> Option<Instant> {
        [&self.to_a, &self.to_b].iter().filter_map(|wire| wire.on_the_way.front().map(|(at, _)| *at)).min()
    }

    /// One round: what is ready goes out, what is due comes in. True if anything moved.
    fn exchange(&mut self) -> bool {
        let due = self.now + self.latency;
        let moved_a = transmit(self.now, due, &mut self.a, &mut self.to_b, self.is_cut);
        let moved_b = transmit(self.now, due, &mut self.b, &mut self.to_a, self.is_cut);
        let heard_b = receive(self.now, self.version, &mut self.b, &mut self.to_b);
        let heard_a = receive(self.now, self.version, &mut self.a, &mut self.to_a);
        self.notices_a.extend(std::iter::from_fn(|| self.a.poll_notice()));
        self.notices_b.extend(std::iter::from_fn(|| self.b.poll_notice()));
        moved_a || moved_b || heard_a || heard_b
    }
}

fn transmit(now: Instant, due: Instant, link: &mut Link, wire: &mut Wire, is_cut: bool) -> bool {
    let mut batch = Batch::default();
    if !link.poll_transmit(now, &mut batch) {
        return false;
    }
    let len = batch.len();
    if !is_cut {
        wire.on_the_way.push_back((due, batch.copy_to_bytes(len)));
    }
    true
}

fn receive(now: Instant, version: u8, link: &mut Link, wire: &mut Wire) -> bool {
    let decoder = Decoder::new(version, MAX_PAYLOAD);
    let mut moved = false;
    while let Some((_, mut bytes)) = wire.on_the_way.pop_front_if(|(at, _)| *at <= now) {
        if let Some(carries) = &mut wire.carries {
            bytes.truncate(*carries);
            *carries -= bytes.len();
        }
        wire.carried += bytes.len();
        wire.arrived.extend_from_slice(&bytes);
        while let Some(frame) = decoder.decode(&mut wire.arrived).expect("links encode what links decode") {
            link.handle_frame(now, frame).expect("links keep to the protocol");
        }
        moved = true;
    }
    moved
}

/// A message with a body of `len` bytes that only `mark` makes.
///
/// # Panics
/// Never: the envelope is empty.
pub fn message(mark: u64, len: usize) -> Outgoing {
    let body = body(mark, len);
    let head = encode_head(&Envelope::default(), body.len()).expect("an empty envelope fits");
    Outgoing { head, body }
}

/// The body of [`message`]: the mark, then filling.
pub fn body(mark: u64, len: usize) -> Bytes {
    let mut body = mark.to_le_bytes().to_vec();
    body.resize(len.max(8), mark as u8);
    body.into()
}
