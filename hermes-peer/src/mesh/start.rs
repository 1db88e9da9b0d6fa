//! From settings to a running node, and back to rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use hermes_peer_proto::security::Policy;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::NodeId;

use crate::discovery::CHANGES;
use crate::discovery::Change;
use crate::discovery::Sighting;
use crate::discovery::Source;
use crate::discovery::SourceKind;
use crate::discovery::local::LocalError;
use crate::discovery::local::LocalFolder;
use crate::discovery::local::NodeRecord;
use crate::discovery::watch::Local;
use crate::link::Stop;
use crate::mesh::Mesh;
use crate::mesh::admit::Door;
use crate::mesh::idempotency::Idempotency;
use crate::mesh::idempotency::IdempotencySettings;
use crate::mesh::peers::PeerTable;
use crate::mesh::session::SessionSettings;
use crate::mesh::session::Sessions;
use crate::mesh::settings::MeshSettings;
use crate::mesh::strangers::LogGate;
use crate::mesh::strangers::Strangers;
use crate::mesh::subscription::EventSettings;
use crate::mesh::subscription::Subscriptions;
use crate::observe::Observer;
use crate::transport::endpoint::Endpoint;
use crate::transport::reload::Reload;
use crate::transport::reload::TlsContext;
use crate::transport::reload::WATCH_EVERY;
use crate::transport::tcp::ListenError;
use crate::transport::tcp::Listener;

/// How often idle sessions are looked for. A session lives this much longer than its timeout at most.
const SESSION_SWEEP: Duration = Duration::from_secs(1);
/// How often the certificates of live links are checked again: a revoked one is gone within a minute.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(30);
/// How often a stranger's failure may be logged.
const STRANGER_LOG: Duration = Duration::from_secs(5);
/// Between the two words of a drain: the first has reached every peer, and what they sent before is here.
const DRAIN_GRACE: Duration = Duration::from_millis(100);
/// How often a drain looks whether all is done.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// All that a node is made of.
pub(crate) struct Parts {
    pub(crate) node: NodeId,
    pub(crate) agent: AgentUri,
    pub(crate) settings: MeshSettings,
    pub(crate) tls: TlsContext,
    pub(crate) tokens: Option<Arc<TokenSet>>,
    pub(crate) policy: Policy,
    pub(crate) sessions: SessionSettings,
    pub(crate) events: EventSettings,
    pub(crate) idempotency: IdempotencySettings,
}

/// Why a mesh does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeshStartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Memory(#[from] std::io::Error),
    #[error(transparent)]
    Local(#[from] LocalError),
}

impl Mesh {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mesh = Arc::new(Self {
            node: parts.node,
            agent: parts.agent,
            epoch: Epoch(u64::try_from(since.as_micros()).unwrap_or_default()),
            address: OnceLock::new(),
            observer: Observer::new(parts.settings.journal_records),
            peers: PeerTable::default(),
            sessions: Sessions::new(parts.sessions),
            subscriptions: Arc::new(Subscriptions::new(parts.events)),
            idempotency: Arc::new(Idempotency::new(parts.idempotency)),
            policy: ArcSwap::from_pointee(parts.policy),
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            tls: parts.tls,
            tokens: parts.tokens,
            handlers: ArcSwap::from_pointee(HashMap::new()),
            providers: ArcSwap::default(),
            revision: AtomicU64::new(1),
            news: Notify::new(),
            strangers: Strangers::new(
                parts.settings.unauthenticated,
                parts.settings.unauthenticated_per_source,
            ),
            lags: Mutex::default(),
            stranger_log: LogGate::new(STRANGER_LOG),
            is_draining: AtomicBool::new(false),
            announcement: Mutex::new(None),
            myself: OnceLock::new(),
            settings: parts.settings,
        });
        // Set once, right here: the mesh is not known to anybody else yet.
        let _first = mesh.myself.set(Arc::downgrade(&mesh));
        mesh
    }

    /// Listens, tells others, looks for others. Handlers are in place before the first peer can call them.
    pub(crate) async fn start(self: &Arc<Self>, peers: &[Sighting]) -> Result<(), MeshStartError> {
        if let Some(network) = &self.settings.memory {
            let listener = network.listen(self.node.as_str())?;
            self.tracker.spawn(self.clone().accept_loop(Door::Memory(listener)));
        } else if let Some(address) = self.settings.listen {
            let listener = Listener::bind(address, self.settings.transport.clone())?;
            if let Ok(bound) = listener.address() {
                // Set once: a mesh starts once.
                let _first = self.address.set(bound);
            }
            self.tracker.spawn(self.clone().accept_loop(Door::Sockets(listener)));
        }
        self.announce().await?;
        for sighting in peers {
            self.discovered(SourceKind::File, &Change::Seen(sighting.clone()));
        }
        if self.settings.is_local
            && let Ok(Ok(folder)) = tokio::task::spawn_blocking(LocalFolder::of_this_user).await
        {
            self.follow(Box::new(Local::new(folder, self.node.clone())));
        }
        self.tracker.spawn(self.clone().look_after_sessions());
        self.tracker.spawn(self.clone().look_after_certificates());
        self.tracker.spawn(self.clone().look_after_interests());
        Ok(())
    }

    /// A node that listens tells the others on this machine.
    async fn announce(self: &Arc<Self>) -> Result<(), LocalError> {
        let (true, Some(address)) = (self.settings.is_local, self.address.get()) else { return Ok(()) };
        let record = NodeRecord {
            node_id: self.node.clone(),
            agent: self.agent.clone(),
            endpoint: Endpoint::from(local_address(*address)),
            capabilities: self.provided().into_iter().map(|info| info.name).collect(),
            pid: std::process::id(),
            epoch: self.epoch,
        };
        let announced = tokio::task::spawn_blocking(|| LocalFolder::of_this_user()?.announce(record)).await;
        match announced {
            Ok(Ok(announcement)) => *self.announcement.lock() = Some(announcement),
            Ok(Err(error @ LocalError::NodeTaken { .. })) => return Err(error),
            // The mesh works without it, by files and by other sources.
            Ok(Err(error)) => {
                tracing::warn!(%error, "other nodes on this machine will not find this one by themselves")
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// What this node provides has changed.
    pub(crate) fn reannounce(self: &Arc<Self>) {
        if self.announcement.lock().is_none() {
            return;
        }
        let mesh = self.clone();
        self.tracker.spawn_blocking(move || {
            let capabilities = mesh.provided().into_iter().map(|info| info.name).collect();
            if let Some(announcement) = mesh.announcement.lock().as_mut()
                && let Err(error) = announcement.update(capabilities)
            {
                tracing::warn!(%error, "other nodes on this machine do not learn of a change");
            }
        });
    }

    fn follow(self: &Arc<Self>, source: Box<dyn Source>) {
        let kind = source.kind();
        let (changes, mut news) = mpsc::channel(CHANGES);
        let running = source.run(changes);
        let mesh = self.clone();
        self.tracker.spawn(async move {
            let listening = async {
                while let Some(change) = news.recv().await {
                    mesh.discovered(kind, &change);
                }
            };
            tokio::select! {
                () = mesh.shutdown.cancelled() => {}
                ((), ()) = async { tokio::join!(running, listening) } => {}
            }
        });
    }

    async fn look_after_sessions(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(SESSION_SWEEP) => {}
            }
            self.sessions.expire(Instant::now());
        }
    }

    /// Follows the certificate files, and ends links whose certificates are no longer good.
    async fn look_after_certificates(self: Arc<Self>) {
        let (events, mut news) = mpsc::channel(8);
        let watching = self.tls.clone().watch(WATCH_EVERY, events);
        tokio::pin!(watching);
        let mut next_check = Instant::now() + CERTIFICATE_CHECK;
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = &mut watching => return self.check_links_until_shutdown().await,
                event = news.recv() => {
                    let Some(event) = event else { continue };
                    self.certificates_changed(event);
                    self.check_links();
                }
                () = tokio::time::sleep_until(next_check) => {
                    next_check = Instant::now() + CERTIFICATE_CHECK;
                    self.check_links();
                }
            }
        }
    }

    async fn check_links_until_shutdown(&self) {
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(CERTIFICATE_CHECK) => self.check_links(),
            }
        }
    }

    fn certificates_changed(&self, event: Reload) {
        match event {
            Reload::Reloaded { serial, warnings, .. } => {
                tracing::info!(serial, "certificates read anew");
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
            }
            Reload::Refused { why } => {
                tracing::warn!(
                    why,
                    "changed certificate files are not taken up, the last good ones stay in force"
                );
            }
        }
    }

    /// A link whose certificate has expired or was revoked is closed; healthy ones stay.
    fn check_links(&self) {
        for peer in self.peers.all() {
            let Some(link) = peer.ready_link() else { continue };
            if let Err(error) = link.check_certificate(&self.tls) {
                tracing::warn!(peer = %peer.node, %error, "a link is closed: its certificate is no longer good");
                link.go_away(GoAwayReason::Unauthenticated, "the certificate is no longer good", true);
                link.stop(Stop::Close);
            }
        }
    }

    /// Looks once more at what may have changed a moment ago: a node on this machine that has just started.
    pub(crate) fn look_around(&self) {
        if !self.settings.is_local {
            return;
        }
        let Some(mesh) = self.myself.get().and_then(std::sync::Weak::upgrade) else { return };
        let looked = LocalFolder::of_this_user().and_then(|folder| folder.scan());
        for record in looked.unwrap_or_default() {
            let sighting = crate::discovery::watch::sighting(record);
            mesh.discovered(SourceKind::Local, &Change::Seen(sighting));
        }
    }

    /// Takes no new work, lets running work end, closes links. True if all work ended in time.
    pub(crate) async fn drain(self: &Arc<Self>) -> bool {
        if self.is_draining.swap(true, Ordering::Relaxed) {
            self.tracker.wait().await;
            return true;
        }
        let deadline = Instant::now() + self.settings.drain_timeout;
        let announcement = self.announcement.lock().take();
        if announcement.is_some() {
            // Removes the record; blocking work is short here and the node is going anyway.
            let _removed = tokio::task::spawn_blocking(move || drop(announcement)).await;
        }
        self.say_goodbye(false);
        if self.running() > 0 {
            tokio::time::sleep(DRAIN_GRACE).await;
        }
        self.say_goodbye(true);
        while self.running() > 0 && Instant::now() < deadline {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let is_whole = self.running() == 0;
        for peer in self.peers.all() {
            if let Some(link) = peer.link.load_full() {
                link.stop(Stop::Close);
            }
        }
        self.subscriptions.close();
        self.shutdown.cancel();
        self.tracker.close();
        // The last frames are on their way; a peer that does not take them is not waited for.
        if tokio::time::timeout(Duration::from_secs(1), self.tracker.wait()).await.is_err() {
            for peer in self.peers.all() {
                if let Some(link) = peer.link.load_full() {
                    link.stop(Stop::Abandon);
                }
            }
        }
        is_whole
    }

    /// The node is given up without a word to running work.
    pub(crate) fn stop(self: &Arc<Self>) {
        if self.is_draining.swap(true, Ordering::Relaxed) {
            return;
        }
        self.say_goodbye(true);
        for peer in self.peers.all() {
            if let Some(link) = peer.link.load_full() {
                link.stop(Stop::Close);
            }
        }
        self.subscriptions.close();
        self.shutdown.cancel();
    }

    /// Dials every known peer once.
    pub(crate) async fn settle_peers(&self, patience: Duration) {
        self.look_around();
        let deadline = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let is_open = |peer: &Arc<crate::mesh::peers::Peer>| {
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

    fn say_goodbye(&self, final_word: bool) {
        for peer in self.peers.all() {
            if let Some(link) = peer.ready_link() {
                link.go_away(GoAwayReason::Draining, "the node is shutting down", final_word);
            }
        }
    }

    fn running(&self) -> u32 {
        self.peers.all().iter().filter_map(|peer| peer.ready_link()).map(|link| link.running_calls()).sum()
    }
}

/// Where others on this machine reach a listening address.
fn local_address(address: std::net::SocketAddr) -> std::net::SocketAddr {
    use std::net::IpAddr;
    use std::net::Ipv4Addr;
    use std::net::Ipv6Addr;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    std::net::SocketAddr::new(ip, address.port())
}
