//! Floor 3: one link machine under a lock, and the task that moves bytes for it.
//!
//! ```text
//!   callers, handlers ──▶ LinkHandle / StreamHandle ──▶ Mutex<Core { Link, wakers }> ◀── LinkDriver ◀──▶ connection
//! ```
//!
//! Callers work on the machine directly, so that back pressure is exact and a call costs no queue; the driver is woken
//! only if it is not at work already. The lock is held for the machine's own steps, never across a write or a wait.
//! The driver reads and writes in one task as two halves that never wait for each other, nor for a consumer.

mod backoff;
mod driver;
mod establish;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::MutexGuard;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;

use hermes_peer_proto::protocol::Ended;
use hermes_peer_proto::protocol::Link;
use hermes_peer_proto::protocol::OpenRefused;
use hermes_peer_proto::protocol::Outgoing;
use hermes_peer_proto::protocol::PeerMisbehaved;
use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::security::Identity;
use hermes_peer_proto::security::LinkSecret;
use hermes_peer_proto::wire::Announced;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::StreamId;

pub(crate) use backoff::Backoff;
pub(crate) use driver::DriveEnd;
pub(crate) use driver::LinkDriver;
pub(crate) use establish::EstablishError;
pub(crate) use establish::Established;
pub(crate) use establish::accept;
pub(crate) use establish::close_duplicate;
pub(crate) use establish::dial;
pub(crate) use establish::turn_away;
pub(crate) use stream::StreamHandle;
pub(crate) use stream::StreamLost;

use crate::transport::reload::TlsContext;
use crate::transport::tls::TlsConnection;
use crate::transport::tls::error::TlsError;

/// What a link hands upward. Called by the driver, outside the link's lock; nothing in it may wait.
pub(crate) trait Upward: Send + Sync {
    /// The peer opened a stream and its request is whole.
    fn request(&self, link: &LinkHandle, stream: StreamId);
    /// All that the peer provides.
    fn advertised(&self, link: &LinkHandle, capabilities: Vec<CapabilityInfo>);
    /// All that the peer subscribes to.
    fn subscribed(&self, link: &LinkHandle, interests: Vec<Interest>);
    /// Events, in order.
    fn events(&self, link: &LinkHandle, events: Vec<Received>);
    /// The event queue, full before, takes events again.
    fn events_writable(&self, link: &LinkHandle);
    /// The peer takes no new streams.
    fn going_away(&self, link: &LinkHandle, statement: GoAway);
    /// The connection has to be made anew while it still works.
    fn exhausted(&self, link: &LinkHandle);
}

/// A link. Cheap to clone; all clones are one link.
#[derive(Clone)]
pub(crate) struct LinkHandle(Arc<Shared>);

struct Shared {
    id: LinkId,
    peer: Identity,
    epoch: Epoch,
    core: Mutex<Core>,
}

struct Core {
    link: Link,
    /// Which connection the link is on: what a driver of an earlier one says no longer counts.
    generation: u64,
    secret: LinkSecret,
    /// The secret before the last handshake, while the peer may still hold this one: until the dialler hears from the
    /// acceptor, and until the acceptor knows that the dialler has.
    former_secret: Option<LinkSecret>,
    /// This side dialled the current connection.
    has_dialled: bool,
    driver: Option<Waker>,
    /// The driver is at work and looks for output before it rests: no need to wake it.
    is_driving: bool,
    readers: HashMap<StreamId, Waker>,
    writers: HashMap<StreamId, Waker>,
    openers: Vec<Waker>,
    cancels: HashMap<StreamId, CancelWatch>,
    /// Streams that ended without an answer, and why.
    lost: HashMap<StreamId, StreamLost>,
    ended: Option<StreamLost>,
    /// The certificates that the peer showed on the current connection.
    chain: Vec<CertificateDer<'static>>,
    /// Set when the driver of the current connection has to stop.
    stop: Option<Stop>,
}

/// Why a driver stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Once all is written: the link is given up by this side.
    Close,
    /// At once: another connection carries the link, or it is of no use.
    Abandon,
}

/// Somebody who wants to know when a running request is cancelled.
type CancelWatch = Box<dyn FnOnce(ErrorCode) + Send>;

impl LinkHandle {
    /// A link over its first connection, and its connection's generation.
    pub(crate) fn new(peer: Identity, epoch: Epoch, link: Link, secret: LinkSecret) -> Self {
        let core = Core {
            generation: 1,
            secret,
            former_secret: None,
            has_dialled: false,
            driver: None,
            is_driving: false,
            readers: HashMap::new(),
            writers: HashMap::new(),
            openers: Vec::new(),
            cancels: HashMap::new(),
            lost: HashMap::new(),
            ended: None,
            chain: Vec::new(),
            stop: None,
            link,
        };
        Self(Arc::new(Shared { id: core.link.id(), peer, epoch, core: Mutex::new(core) }))
    }

    pub(crate) fn id(&self) -> LinkId {
        self.0.id
    }

    pub(crate) fn peer(&self) -> &Identity {
        &self.0.peer
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The version spoken, while there is a connection.
    pub(crate) fn version(&self) -> Option<u8> {
        self.0.core.lock().link.version()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.version().is_some()
    }

    /// Whether the link is over for good.
    pub(crate) fn is_ended(&self) -> bool {
        self.0.core.lock().ended.is_some()
    }

    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.0.core.lock().link.round_trip()
    }

    pub(crate) fn peer_load(&self) -> u8 {
        self.0.core.lock().link.peer_load()
    }

    /// Streams that this side has open.
    pub(crate) fn open_calls(&self) -> u32 {
        self.0.core.lock().link.open_streams().0
    }

    /// Streams that the peer has open.
    pub(crate) fn running_calls(&self) -> u32 {
        self.0.core.lock().link.open_streams().1
    }

    /// What a new connection needs to go on with this link: how much was received, and the secret.
    pub(crate) fn resume_state(&self) -> (u64, LinkSecret) {
        let core = self.0.core.lock();
        (core.link.received(), core.secret.clone())
    }

    /// The secrets that the peer may hold: after a connection that was cut at once, the two sides may be one apart.
    pub(crate) fn secrets(&self) -> Vec<LinkSecret> {
        let core = self.0.core.lock();
        std::iter::once(core.secret.clone()).chain(core.former_secret.clone()).collect()
    }

    /// Bytes received and not read yet.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.core.lock().link.held_bytes()
    }

    /// Data frames sent and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.0.core.lock().link.unacknowledged()
    }

    /// Opens a stream, waiting for the peer's limit on how many may be open.
    pub(crate) fn poll_open(&self, cx: &Context<'_>, priority: u8) -> Poll<Result<StreamHandle, StreamLost>> {
        let mut core = self.0.core.lock();
        if let Some(lost) = &core.ended {
            return Poll::Ready(Err(lost.clone()));
        }
        match core.link.open(priority) {
            Ok(id) => Poll::Ready(Ok(StreamHandle::new(self.clone(), id))),
            Err(OpenRefused::TooMany { .. }) => {
                core.openers.push(cx.waker().clone());
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(StreamLost::NotTaken)),
        }
    }

    /// Queues an event.
    pub(crate) fn publish(&self, message: Outgoing) -> Result<(), SendRefused> {
        self.command(|core| core.link.publish(message))
    }

    pub(crate) fn advertise(&self, revision: u64, capabilities: Vec<CapabilityInfo>) {
        self.command(|core| core.link.advertise(revision, capabilities));
    }

    pub(crate) fn subscribe(&self, revision: u64, interests: Vec<Interest>) {
        self.command(|core| core.link.subscribe(revision, interests));
    }

    pub(crate) fn go_away(&self, reason: GoAwayReason, message: &str, final_word: bool) {
        self.command(|core| core.link.go_away(reason, message, final_word));
    }

    pub(crate) fn set_load(&self, load: u8) {
        self.0.core.lock().link.set_load(load);
    }

    /// Asks the peer for a sign of life. True if one comes in time.
    pub(crate) async fn probe(&self, patience: Duration) -> bool {
        /// How often to look: a live peer on the same continent is recognised within a few looks.
        const LOOK: Duration = Duration::from_millis(20);
        let before = self.command(|core| {
            core.link.probe();
            core.link.last_heard()
        });
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
            let heard = self.0.core.lock().link.last_heard();
            if heard.is_none() {
                return false;
            }
            if heard > before {
                return true;
            }
        }
        false
    }

    /// Asks the driver to stop.
    pub(crate) fn stop(&self, stop: Stop) {
        self.command(|core| core.stop = Some(stop));
    }

    /// Goes on over a new connection; the driver of the old one stops. Gives the new connection's generation.
    pub(crate) fn attach(
        &self,
        version: u8,
        peer: Announced,
        received: u64,
        secret: LinkSecret,
        has_dialled: bool,
    ) -> Result<u64, PeerMisbehaved> {
        let old_driver = {
            let mut core = self.0.core.lock();
            core.link.attach(Instant::now().into_std(), version, peer, received)?;
            core.generation += 1;
            let former = std::mem::replace(&mut core.secret, secret);
            core.former_secret.get_or_insert(former);
            core.has_dialled = has_dialled;
            core.stop = None;
            core.is_driving = false;
            core.driver.take()
        };
        old_driver.into_iter().for_each(Waker::wake);
        Ok(self.generation())
    }

    /// Takes the link off its connection, whose driver stops.
    pub(crate) fn detach(&self) {
        let old_driver = {
            let mut core = self.0.core.lock();
            core.link.detach();
            core.generation += 1;
            if core.has_dialled
                && let Some(former) = core.former_secret.take()
            {
                // The acceptor was not heard: it may not have got the proof that made the new secret.
                core.former_secret = Some(std::mem::replace(&mut core.secret, former));
            }
            core.driver.take()
        };
        old_driver.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.core.lock().generation
    }

    /// The link will not go on: every stream ends with an error, unless its answer is here already.
    pub(crate) fn end(&self, received: Option<u64>, why: &str) -> Ended {
        let mut core = self.0.core.lock();
        let ended = core.link.end(received);
        core.generation += 1;
        core.ended.get_or_insert_with(|| StreamLost::LinkEnded { may_have_run: false, why: why.to_owned() });
        for (stream, may_have_run) in &ended.streams {
            let lost = StreamLost::LinkEnded { may_have_run: *may_have_run, why: why.to_owned() };
            core.lost.insert(*stream, lost);
        }
        let wakers: Vec<_> = core.driver.take().into_iter().chain(core.drain_wakers()).collect();
        let cancels: Vec<_> = core.cancels.drain().map(|(_, watch)| watch).collect();
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
        cancels.into_iter().for_each(|watch| watch(ErrorCode::Cancelled));
        ended
    }

    /// A driver for the connection of this generation.
    pub(crate) fn driver(
        &self,
        generation: u64,
        connection: TlsConnection,
        upward: Arc<dyn Upward>,
    ) -> LinkDriver {
        self.0.core.lock().chain = connection.peer_chain().to_vec();
        LinkDriver::new(self.clone(), generation, connection, upward)
    }

    /// Whether the peer's certificate would still be accepted.
    ///
    /// # Errors
    /// Expired, revoked, or of an authority that is no longer trusted.
    pub(crate) fn check_certificate(&self, tls: &TlsContext) -> Result<(), TlsError> {
        let chain = self.0.core.lock().chain.clone();
        tls.is_still_good(&chain)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock()
    }

    /// Works on the machine, then sees to it that the driver looks for output.
    fn command<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.0.core.lock();
        let outcome = work(&mut core);
        let driver = if core.is_driving { None } else { core.driver.take() };
        drop(core);
        driver.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl Core {
    fn drain_wakers(&mut self) -> Vec<Waker> {
        let readers = self.readers.drain().map(|(_, waker)| waker);
        let writers = self.writers.drain().map(|(_, waker)| waker);
        readers.chain(writers).chain(self.openers.drain(..)).collect()
    }
}

impl fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkHandle")
            .field("id", &self.0.id)
            .field("peer", &self.0.peer)
            .finish_non_exhaustive()
    }
}
