//! From an authenticated connection to a link: new, resumed, or turned away.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use hermes_peer_proto::protocol::Contender;
use hermes_peer_proto::protocol::Link;
use hermes_peer_proto::protocol::PeerMisbehaved;
use hermes_peer_proto::protocol::Survivor;
use hermes_peer_proto::protocol::handshake::Authenticated;
use hermes_peer_proto::protocol::survivor;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Resumed;
use hermes_peer_proto::wire::Side;

use crate::link;
use crate::link::DriveEnd;
use crate::link::EstablishError;
use crate::link::Established;
use crate::link::LinkDriver;
use crate::link::LinkHandle;
use crate::link::Stop;
use crate::mesh::peers::Peer;
use crate::mesh::state::Mesh;
use crate::observe::PeerState;

/// How long a live node may take to answer when another claims its name.
const TWIN_PATIENCE: Duration = Duration::from_secs(1);
/// How long streams on a connection that lost to another may still run.
const DUPLICATE_DRAIN: Duration = Duration::from_secs(10);

impl Mesh {
    /// Takes up an authenticated connection.
    pub(crate) async fn admit(self: &Arc<Self>, established: Established) -> Result<(), EstablishError> {
        let peer = self.peers.entry(established.authenticated.identity.node());
        if let Some(refusal) = self.twin(&peer, &established.authenticated).await {
            link::turn_away(established, refusal.code, &refusal.message).await;
            return Err(EstablishError::Turned(refusal));
        }
        let admission = self.place(&peer, established);
        match admission {
            Placed::Running(driver, link, generation, is_resumed) => {
                self.linked(&peer, &link, is_resumed);
                self.run_driver(peer, link, generation, *driver);
                Ok(())
            }
            Placed::Duplicate(established) => {
                link::close_duplicate(*established).await;
                Ok(())
            }
            Placed::Broken(error) => Err(EstablishError::Handshake(error.into())),
        }
    }

    /// Another process under a name that is taken: it is refused if the one that has the name is alive.
    async fn twin(&self, peer: &Peer, newcomer: &Authenticated) -> Option<Fault> {
        let standing = peer.ready_link()?;
        let is_other_agent = standing.peer().agent() != newcomer.identity.agent();
        if !is_other_agent && newcomer.epoch == standing.epoch() {
            return None;
        }
        // A process that has died leaves a connection that does not answer.
        let is_alive = standing.probe(TWIN_PATIENCE).await;
        if !is_alive {
            return None;
        }
        let message =
            format!("a node `{}` is linked here already: give one of the two another `node_id`", peer.node);
        tracing::warn!(peer = %peer.node, agent = %newcomer.identity.agent(), "{message}");
        self.observe_peer(&peer.node, PeerState::Refused, &message);
        Some(Fault::new(ErrorCode::PermissionDenied, message))
    }

    /// Decides under the peer's lock, without waiting for anything.
    fn place(self: &Arc<Self>, peer: &Arc<Peer>, established: Established) -> Placed {
        let mut facts = peer.state.lock();
        let is_dialled_here = established.authenticated.side == Side::Initiator;
        let standing = peer.link.load_full();
        if let Some(link) = &standing
            && let Resumed::Yes { received } = established.authenticated.resumed
            && link.id() == established.authenticated.link
        {
            facts.connections += 1;
            facts.dialled_here = is_dialled_here;
            return self.resume(link, established, received, is_dialled_here);
        }
        if let Some(link) = &standing {
            if link.is_connected() && link.epoch() == established.authenticated.epoch {
                let is_kept =
                    self.survivor(peer, &facts, link, &established.authenticated) == Survivor::Standing;
                if is_kept {
                    return Placed::Duplicate(Box::new(established));
                }
                self.retire(link);
            } else {
                let received = match established.authenticated.resumed {
                    Resumed::No { received } => received,
                    Resumed::New | Resumed::Yes { .. } => None,
                };
                let why = if link.epoch() == established.authenticated.epoch {
                    "the peer could not go on with it"
                } else {
                    "the peer was restarted"
                };
                self.ended(peer, link, received, why);
            }
        }
        facts.connections = 1;
        facts.dialled_here = is_dialled_here;
        facts.epoch = Some(established.authenticated.epoch);
        // Another process may provide something else: it has not said yet.
        facts.is_known = false;
        facts.agent = Some(established.authenticated.identity.agent().clone());
        // Under the lock: whoever ends the link before must find this one.
        self.begin_link(peer, established)
    }

    fn resume(
        self: &Arc<Self>,
        link: &Arc<LinkHandle>,
        established: Established,
        received: u64,
        is_dialled_here: bool,
    ) -> Placed {
        let Established { authenticated, connection, input } = established;
        let attached = link.attach(
            authenticated.version,
            authenticated.announced,
            received,
            authenticated.secret,
            is_dialled_here,
        );
        match attached {
            Ok(generation) => {
                let driver = link.driver(generation, connection, self.upward()).with_input(input);
                Placed::Running(Box::new(driver), link.clone(), generation, true)
            }
            Err(error) => Placed::Broken(error),
        }
    }

    fn begin_link(self: &Arc<Self>, peer: &Peer, established: Established) -> Placed {
        let Established { authenticated, connection, input } = established;
        let machine = Link::new(
            Instant::now().into_std(),
            authenticated.link,
            authenticated.side,
            self.epoch,
            authenticated.version,
            self.settings.link.clone(),
            authenticated.announced,
        );
        let link =
            LinkHandle::new(authenticated.identity, authenticated.epoch, machine, authenticated.secret);
        let link = Arc::new(link);
        let driver = link.driver(1, connection, self.upward()).with_input(input);
        peer.link.store(Some(link.clone()));
        Placed::Running(Box::new(driver), link, 1, false)
    }

    /// Which of two connections between the same two processes lives.
    fn survivor(
        &self,
        peer: &Peer,
        facts: &crate::mesh::peers::PeerFacts,
        standing: &LinkHandle,
        newcomer: &Authenticated,
    ) -> Survivor {
        let contender = |is_dialled_here: bool, resumes| {
            let (here, there) = ((&self.node, self.epoch), (&peer.node, standing.epoch()));
            let (initiator, acceptor) = if is_dialled_here { (here, there) } else { (there, here) };
            Contender {
                initiator: initiator.0,
                initiator_epoch: initiator.1,
                acceptor: acceptor.0,
                acceptor_epoch: acceptor.1,
                resumes,
            }
        };
        let resumes = (facts.connections > 1).then_some(facts.connections - 1);
        survivor(&contender(facts.dialled_here, resumes), &contender(newcomer.side == Side::Initiator, None))
    }

    /// A link that another one replaces while both work: what runs on it may end, nothing new begins.
    fn retire(self: &Arc<Self>, link: &Arc<LinkHandle>) {
        link.go_away(GoAwayReason::Duplicate, "another connection carries the link", true);
        let link = link.clone();
        self.tracker.spawn(async move {
            let deadline = Instant::now() + DUPLICATE_DRAIN;
            while link.open_calls() + link.running_calls() > 0
                && Instant::now() < deadline
                && link.is_connected()
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            link.stop(Stop::Close);
        });
    }

    fn run_driver(
        self: &Arc<Self>,
        peer: Arc<Peer>,
        link: Arc<LinkHandle>,
        generation: u64,
        mut driver: LinkDriver,
    ) {
        let mesh = self.clone();
        self.tracker.spawn(async move {
            let end = (&mut driver).await;
            let is_lingering = end.is_by_this_side();
            mesh.connection_ended(&peer, &link, generation, end);
            if is_lingering {
                driver.linger().await;
            }
        });
    }

    fn connection_ended(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        link: &Arc<LinkHandle>,
        generation: u64,
        end: DriveEnd,
    ) {
        if link.generation() != generation {
            return;
        }
        let is_goodbye = peer.state.lock().is_draining;
        match end {
            DriveEnd::Superseded => {}
            DriveEnd::Closed => self.over(peer, link, "this node closed it"),
            DriveEnd::Misbehaved(error) => {
                if !matches!(error, PeerMisbehaved::Closed(_)) {
                    tracing::warn!(peer = %peer.node, %error, "a peer broke the protocol");
                }
                self.over(peer, link, &error.to_string());
            }
            lost if is_goodbye => self.over(peer, link, &format!("the peer said goodbye ({lost})")),
            lost => {
                let resumes = link.version().is_some_and(|version| version >= 2);
                if resumes {
                    link.detach();
                    self.suspended(peer, link, &lost.to_string());
                } else {
                    self.over(peer, link, &lost.to_string());
                }
            }
        }
    }

    /// The connection is lost; the link waits for another one for a while.
    pub(crate) fn suspended(self: &Arc<Self>, peer: &Arc<Peer>, link: &Arc<LinkHandle>, why: &str) {
        if self.address.get().is_none() && peer.addresses().is_empty() {
            // Neither side knows where to dial the other.
            return self.over(peer, link, why);
        }
        tracing::debug!(peer = %peer.node, why, "a connection is lost, the link waits");
        self.observe_peer(&peer.node, PeerState::Suspended, why);
        let (mesh, peer, link) = (self.clone(), peer.clone(), link.clone());
        peer.changed.notify_waiters();
        let generation = link.generation();
        let why = why.to_owned();
        self.tracker.spawn(async move {
            tokio::select! {
                () = mesh.shutdown.cancelled() => {}
                () = tokio::time::sleep(mesh.settings.link_park) => {}
            }
            if link.generation() == generation {
                mesh.over(&peer, &link, &why);
            }
        });
    }

    /// The link will not go on.
    pub(super) fn over(self: &Arc<Self>, peer: &Arc<Peer>, link: &Arc<LinkHandle>, why: &str) {
        self.ended(peer, link, None, why);
        let mut facts = peer.state.lock();
        // Under the lock, as `place` is: a link that has just taken this one's place stays.
        if peer.link.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            peer.link.store(None);
            facts.linked_since = None;
            facts.is_draining = false;
            facts.is_known = false;
            facts.last_error.get_or_insert_with(|| why.to_owned());
            drop(facts);
            peer.advertised.store(Arc::default());
            self.subscriptions.remove_peer(&peer.node);
            self.rebuild_providers();
            peer.changed.notify_waiters();
            self.peers.forget_if_unknown(peer);
        }
    }

    fn ended(&self, peer: &Peer, link: &LinkHandle, received: Option<u64>, why: &str) {
        let ended = link.end(received, why);
        if let Some((first, last)) = ended.gap {
            tracing::debug!(peer = %peer.node, first, last, "messages may be lost");
        }
        tracing::info!(peer = %peer.node, why, "peer down");
        let detail = match ended.gap {
            Some((first, last)) => format!("{why}; data frames {first} to {last} may be lost"),
            None => why.to_owned(),
        };
        self.observe_peer(&peer.node, PeerState::Down, &detail);
    }
}

enum Placed {
    Running(Box<LinkDriver>, Arc<LinkHandle>, u64, bool),
    Duplicate(Box<Established>),
    Broken(PeerMisbehaved),
}
