//! From settings to a running node, and back to rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use hermes_peer_proto::security::Policy;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::Epoch;
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
use crate::mesh::door::Door;
use crate::mesh::idempotency::Idempotency;
use crate::mesh::idempotency::IdempotencySettings;
use crate::mesh::peers::PeerTable;
use crate::mesh::session::SessionSettings;
use crate::mesh::session::Sessions;
use crate::mesh::settings::MeshSettings;
use crate::mesh::state::Mesh;
use crate::mesh::strangers::LogGate;
use crate::mesh::strangers::Strangers;
use crate::mesh::subscription::EventSettings;
use crate::mesh::subscription::Subscriptions;
use crate::observe::Observer;
use crate::transport::endpoint::Endpoint;
use crate::transport::reload::TlsContext;
use crate::transport::tcp::ListenError;
use crate::transport::tcp::Listener;

/// How often a stranger's failure may be logged.
const STRANGER_LOG: Duration = Duration::from_secs(5);

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
