//! Whom to dial, and when. Start order does not matter: a peer that is not up yet is dialled until it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use hermes_peer_proto::protocol::handshake::Expected;
use hermes_peer_proto::protocol::handshake::ResumeTicket;

use crate::discovery::Change;
use crate::discovery::SourceKind;
use crate::link;
use crate::link::Backoff;
use crate::link::EstablishError;
use crate::mesh::peers::Peer;
use crate::mesh::state::Mesh;
use crate::observe::PeerState;
use crate::transport::ByteStream;
use crate::transport::endpoint::Endpoint;
use crate::transport::tcp;
use crate::transport::tcp::DialError;
use crate::transport::tls::error::TlsError;

/// A link that held for this long was healthy: the next loss is a first one again.
const HEALTHY: Duration = Duration::from_secs(30);
/// Longest pause between two dials of a peer that a call waits for.
const WANTED_PAUSE: Duration = Duration::from_millis(500);
/// Peers that are dialled without being needed. Beyond it a peer is dialled at the first call.
const MAX_EAGER: usize = 64;

/// Why a peer could not be reached at one of its addresses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Memory(#[from] std::io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Establish(#[from] EstablishError),
    #[error("no link within {0} s")]
    TimedOut(u64),
}

impl ReachError {
    /// Another try soon may end otherwise; if not, somebody has to change something first.
    fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Dial(_) | Self::Memory(_) | Self::TimedOut(_) => true,
            Self::Tls(error) => error.is_worth_retrying(),
            Self::Establish(EstablishError::Handshake(error)) => error.is_worth_retrying(),
            Self::Establish(_) => true,
        }
    }
}

impl Mesh {
    /// What a discovery source reports.
    pub(crate) fn discovered(self: &Arc<Self>, source: SourceKind, change: &Change) {
        match change {
            Change::Seen(sighting) if sighting.node == self.node => {}
            Change::Seen(sighting) => {
                if let Some(peer) = self.peers.sighted(sighting, Instant::now()) {
                    self.keep_dialled(&peer);
                }
            }
            Change::Gone(node) => {
                let peer = self.peers.get(node);
                self.peers.gone(node, source);
                // There a process is seen to end, not only to be silent: a link without a connection waits for nobody.
                if let (SourceKind::Local, Some(peer)) = (source, peer)
                    && let Some(link) = peer.link.load_full().filter(|link| !link.is_connected())
                {
                    self.over(&peer, &link, "its process has ended");
                }
            }
        }
    }

    /// Sees to it that a task dials the peer whenever it has no link.
    fn keep_dialled(self: &Arc<Self>, peer: &Arc<Peer>) {
        if std::mem::replace(&mut peer.state.lock().is_dialled, true) {
            return;
        }
        let (mesh, peer) = (self.clone(), peer.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = mesh.shutdown.cancelled() => {}
                () = mesh.dial_loop(&peer) => {}
            }
            peer.state.lock().is_dialled = false;
        });
    }

    /// Ends when nothing is known of the peer any more.
    async fn dial_loop(self: &Arc<Self>, peer: &Arc<Peer>) {
        let mut backoff = Backoff::new(self.settings.reconnect_min, self.settings.reconnect_max);
        let mut is_first = true;
        loop {
            let changed = peer.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let addresses = peer.addresses();
            if addresses.is_empty() {
                return;
            }
            if peer.is_linked() {
                let since = Instant::now();
                self.while_linked(peer).await;
                if since.elapsed() >= HEALTHY {
                    backoff.reset();
                }
                continue;
            }
            if !self.is_dialled_now(peer) {
                changed.await;
                is_first = true;
                continue;
            }
            // Both sides may have lost the link at the same moment: the jitter keeps their dials from crossing. And a peer
            // that refuses this node only when the link is up, as one that knows its twin does, is not hammered.
            let is_pausing = !std::mem::replace(&mut is_first, false) || peer.link.load().is_some();
            if is_pausing {
                Self::pause(peer, backoff.next(fastrand::f64())).await;
            }
            if peer.is_linked() || self.dial_any(peer, &addresses).await {
                continue;
            }
            if !peer.state.lock().is_retry_useful {
                backoff.rest();
            }
        }
    }

    /// Waits until the link's connection is lost. Meanwhile the side that dialled it makes a new one when the link's secret
    /// has served its time: the link goes on over it, and nothing is lost.
    async fn while_linked(self: &Arc<Self>, peer: &Arc<Peer>) {
        // Spread by a tenth, so that links made together are not renewed together.
        let lifetime = self.settings.secret_lifetime.mul_f64(0.9 + 0.2 * fastrand::f64());
        let renewal = tokio::time::sleep(lifetime);
        tokio::pin!(renewal);
        loop {
            let changed = peer.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !peer.is_linked() {
                return;
            }
            tokio::select! {
                () = changed => {}
                () = &mut renewal => {
                    if peer.state.lock().dialled_here {
                        self.dial_any(peer, &peer.addresses()).await;
                    }
                    return;
                }
            }
        }
    }

    /// Waits before the next dial: for less if a call wants the peer meanwhile, and no longer than until it has linked.
    async fn pause(peer: &Peer, delay: Duration) {
        let began = Instant::now();
        let mut until = began + delay;
        loop {
            let changed = peer.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if peer.is_linked() {
                return;
            }
            let is_urgent = {
                let facts = peer.state.lock();
                // Where somebody has to change something first, haste changes nothing.
                facts.is_wanted && facts.is_retry_useful
            };
            if is_urgent {
                until = until.min(began + WANTED_PAUSE);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// A peer is dialled when it is wanted, when its link waits for a connection, when a file names it, or while few are.
    fn is_dialled_now(&self, peer: &Peer) -> bool {
        let is_wanted = std::mem::take(&mut peer.state.lock().is_wanted);
        let is_interrupted = peer.link.load().is_some();
        is_wanted
            || is_interrupted
            || (self.settings.is_eager && (peer.is_configured() || self.peers.linked() < MAX_EAGER))
    }

    /// Tries the addresses in turn. True if a link came of one.
    async fn dial_any(self: &Arc<Self>, peer: &Arc<Peer>, addresses: &[Endpoint]) -> bool {
        for endpoint in addresses {
            match self.reach(peer, endpoint).await {
                Ok(()) => {
                    peer.note_proof(endpoint, Instant::now());
                    return true;
                }
                Err(error) => self.not_reached(peer, endpoint, &error),
            }
            if peer.is_linked() {
                return true;
            }
        }
        peer.state.lock().failures += 1;
        self.news.notify_waiters();
        false
    }

    fn not_reached(&self, peer: &Peer, endpoint: &Endpoint, error: &ReachError) {
        let text = error.to_string();
        let is_news = peer.note_failure(endpoint, &text, error.is_worth_retrying());
        if !is_news {
            return;
        }
        // What time alone will not mend, somebody has to know.
        if error.is_worth_retrying() {
            tracing::debug!(peer = %peer.node, %endpoint, error = text, "a peer is not reached");
        } else {
            tracing::warn!(peer = %peer.node, %endpoint, error = text, "a peer is not reached");
            self.observe_peer(&peer.node, PeerState::Refused, &text);
        }
    }

    async fn open(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Box<dyn ByteStream>, ReachError> {
        match &self.settings.memory {
            Some(network) => Ok(network.dial(self.node.as_str(), endpoint.host()).await?),
            None => Ok(Box::new(tcp::dial(endpoint, &self.settings.transport, deadline).await?)),
        }
    }

    /// One attempt at one address, within the time for a handshake.
    async fn reach(self: &Arc<Self>, peer: &Arc<Peer>, endpoint: &Endpoint) -> Result<(), ReachError> {
        let deadline = Instant::now() + self.settings.handshake_timeout;
        let attempt = async {
            let stream = self.open(endpoint, deadline).await?;
            let connection = self.tls.connect(stream).await?;
            let ticket = peer.link.load_full().filter(|link| !link.is_ended()).map(|link| {
                let (received, secret) = link.resume_state();
                ResumeTicket { link: link.id(), received, secret }
            });
            let expected =
                Expected { agent: peer.state.lock().expected_agent.clone(), node: Some(peer.node.clone()) };
            let local = self.local(&connection);
            let established = link::dial(connection, local, self.nonce(), ticket, expected).await?;
            self.admit(established).await?;
            Ok(())
        };
        tokio::time::timeout_at(deadline, attempt)
            .await
            .unwrap_or(Err(ReachError::TimedOut(self.settings.handshake_timeout.as_secs())))
    }

    /// Dials every known peer once.
    pub(crate) async fn settle_peers(&self, patience: Duration) {
        self.look_around();
        let deadline = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let is_open = |peer: &Arc<Peer>| {
                let facts = peer.state.lock();
                let is_known = facts.is_known;
                let has_failed = facts.failures > 0;
                drop(facts);
                !(has_failed || (peer.is_linked() && is_known))
            };
            let open: Vec<_> = self.peers.all().into_iter().filter(is_open).collect();
            if open.is_empty() {
                return;
            }
            open.iter().filter(|peer| !peer.is_linked()).for_each(|peer| peer.want());
            if tokio::time::timeout_at(deadline, news).await.is_err() {
                return;
            }
        }
    }
}
