//! The handle: callers work on the link machine through it.

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
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::security::Identity;
use hermes_peer_proto::security::LinkSecret;
use hermes_peer_proto::wire::Announced;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::StreamId;

use super::driver::LinkDriver;
use super::stream::StreamHandle;
use super::stream::StreamLost;
use super::upward::Upward;
use crate::transport::tls::TlsConnection;

/// A link. Cheap to clone; all clones are one link.
#[derive(Clone)]
pub(crate) struct LinkHandle(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) id: LinkId,
    pub(super) peer: Identity,
    pub(super) epoch: Epoch,
    pub(super) core: Mutex<Core>,
}

pub(super) struct Core {
    pub(super) link: Link,
    /// Which connection the link is on: what a driver of an earlier one says no longer counts.
    pub(super) generation: u64,
    pub(super) secret: LinkSecret,
    /// The secret before the last handshake, while the peer may still hold this one: until the dialler hears from the
    /// acceptor, and until the acceptor knows that the dialler has.
    pub(super) former_secret: Option<LinkSecret>,
    /// This side dialled the current connection.
    pub(super) has_dialled: bool,
    pub(super) driver: Option<Waker>,
    /// The driver is at work and looks for output before it rests: no need to wake it.
    pub(super) is_driving: bool,
    pub(super) readers: HashMap<StreamId, Waker>,
    pub(super) writers: HashMap<StreamId, Waker>,
    pub(super) openers: Vec<Waker>,
    pub(super) cancels: HashMap<StreamId, CancelWatch>,
    /// Streams that ended without an answer, and why.
    pub(super) lost: HashMap<StreamId, StreamLost>,
    pub(super) ended: Option<StreamLost>,
    /// The certificates that the peer showed on the current connection.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// Set when the driver of the current connection has to stop.
    pub(super) stop: Option<Stop>,
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
pub(super) type CancelWatch = Box<dyn FnOnce(ErrorCode) + Send>;

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

    /// Whether new calls can be made on it now.
    pub(crate) fn takes_calls(&self) -> bool {
        let core = self.0.core.lock();
        core.link.version().is_some() && !core.link.is_going_away()
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

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock()
    }

    /// Works on the machine, then sees to it that the driver looks for output.
    pub(super) fn command<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.0.core.lock();
        let outcome = work(&mut core);
        let driver = if core.is_driving { None } else { core.driver.take() };
        drop(core);
        driver.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl Core {
    pub(super) fn drain_wakers(&mut self) -> Vec<Waker> {
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
