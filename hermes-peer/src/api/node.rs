//! A node in the mesh.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::TopicPattern;

use crate::api::builder::NodeBuilder;
use crate::api::call::Call;
use crate::api::capability::Adapter;
use crate::api::capability::IntoCapability;
use crate::api::context::States;
use crate::api::error::CallError;
use crate::api::error::StartError;
use crate::api::event::Publish;
use crate::api::event::Subscription;
use crate::api::session::Session;
use crate::config::Config;
use crate::mesh::Mesh;
use crate::mesh::handler::Body;
use crate::mesh::metrics::Metrics;
use crate::mesh::order::Order;
use crate::mesh::peers::PeerView;
use crate::mesh::providers::RegisterError;
use crate::observe::Observation;
use crate::observe::Observations;

/// One process in the mesh: it provides capabilities, calls those of others, opens sessions, publishes and subscribes.
///
/// Cheap to clone; all clones are one node. It runs until [`shutdown`](Self::shutdown), or until the last clone is dropped,
/// which closes its links without waiting for running work.
///
/// ```
/// # use hermes_peer::{Context, Failure, Node, capability};
/// /// Says hello.
/// #[capability("demo.greet")]
/// async fn greet(name: String, _context: Context) -> Result<String, Failure> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let builder = |agent: &str| Node::builder(agent).development_ca(folder.path().join("ca")).without_local_discovery();
/// # let (alice, bob);
/// let provider = builder("agent://default/demo/greeter").listen("127.0.0.1:0").capability(greet);
/// alice = provider.start().await?;
/// let address = alice.address().expect("it listens").to_string();
/// bob = builder("agent://default/demo/guest").peer(alice.id().as_str(), &address).start().await?;
///
/// let greeting: String = bob.call("demo.greet", "mesh").await?;
/// assert_eq!(greeting, "Hello, mesh!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Node {
    running: Arc<Running>,
    /// Absent in handlers: what they hold does not keep the node up.
    _keeper: Option<Arc<Keeper>>,
}

pub(crate) struct Running {
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) states: Arc<States>,
}

/// The node is given up with the last of these.
struct Keeper(Arc<Mesh>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A node as its handlers hold it: they do not keep it alive.
#[derive(Clone, Default)]
pub(crate) struct WeakNode(pub(crate) Weak<Running>);

impl WeakNode {
    pub(crate) fn upgrade(&self) -> Option<Node> {
        self.0.upgrade().map(|running| Node { running, _keeper: None })
    }
}

impl Node {
    /// Puts a node together. `agent` is its logical identity, `agent://tenant/space/name`.
    pub fn builder(agent: &str) -> NodeBuilder {
        NodeBuilder::new(agent)
    }

    /// Puts a node together from a configuration file; what the builder is told afterwards comes on top.
    ///
    /// # Errors
    /// [`StartError`] if a program or schema that the file names cannot be used.
    pub fn from_config(config: &Config) -> Result<NodeBuilder, StartError> {
        NodeBuilder::from_config(config)
    }

    pub(crate) fn of_mesh(mesh: Arc<Mesh>, states: Arc<States>) -> Self {
        let keeper = Arc::new(Keeper(mesh.clone()));
        Self { running: Arc::new(Running { mesh, states }), _keeper: Some(keeper) }
    }

    /// The node as a handler holds it.
    pub(crate) fn weak(&self) -> WeakNode {
        WeakNode(Arc::downgrade(&self.running))
    }

    pub(crate) fn states(&self) -> Arc<States> {
        self.running.states.clone()
    }

    pub(crate) fn mesh(&self) -> &Arc<Mesh> {
        &self.running.mesh
    }

    /// This process.
    pub fn id(&self) -> &NodeId {
        &self.running.mesh.node
    }

    /// Its logical identity.
    pub fn agent(&self) -> &AgentUri {
        &self.running.mesh.agent
    }

    /// Where it listens, with the port that was taken; `None` if it only calls.
    pub fn address(&self) -> Option<SocketAddr> {
        self.running.mesh.address.get().copied()
    }

    /// Calls a capability with a value as input.
    pub fn call<T>(&self, capability: &str, input: &(impl Serialize + ?Sized)) -> Call<T> {
        Call::new(self.clone(), capability, input, None)
    }

    /// Calls a capability with a JSON text as input, which the provider checks.
    pub fn call_json<T>(&self, capability: &str, json: impl Into<Bytes>) -> Call<T> {
        Call::with_body(self.clone(), capability, Ok(Body::json(json)), None)
    }

    /// Calls a capability with bytes as input.
    pub fn call_body<T>(&self, capability: &str, body: Body) -> Call<T> {
        Call::with_body(self.clone(), capability, Ok(body), None)
    }

    /// Opens a session. It ends when it is closed, or when nothing has used it for the node's session timeout.
    ///
    /// # Errors
    /// `OVERLOADED` if the node has as many as it may hold.
    pub fn open_session(&self) -> Result<Session, CallError> {
        self.session_of(self.running.mesh.sessions.open(Instant::now()))
    }

    /// Opens a session under an id that the application chose.
    ///
    /// # Errors
    /// As [`open_session`](Self::open_session), and `INVALID_INPUT` if the id is in use here.
    pub fn open_session_with(&self, id: SessionId) -> Result<Session, CallError> {
        self.session_of(self.running.mesh.sessions.open_with(id, Instant::now()))
    }

    fn session_of(
        &self,
        opened: Result<Arc<crate::mesh::session::SessionState>, crate::mesh::session::OpenRefused>,
    ) -> Result<Session, CallError> {
        let state = opened.map_err(|refused| CallError::new(refused.code(), refused.to_string()))?;
        Ok(Session::new(self.running.mesh.clone(), state))
    }

    /// A session that this node has opened before.
    ///
    /// # Errors
    /// `SESSION_EXPIRED` if it has ended or was never opened here: the two are not told apart.
    pub fn session(&self, id: SessionId) -> Result<Session, CallError> {
        let state = self
            .running
            .mesh
            .sessions
            .session(id, Instant::now())
            .map_err(|gone| CallError::new(gone.code(), gone.to_string()))?;
        Ok(Session::new(self.running.mesh.clone(), state))
    }

    /// Publishes an event to all who subscribed to its topic, here and at linked nodes.
    pub fn publish(&self, topic: &str, value: &(impl Serialize + ?Sized)) -> Publish {
        Publish::new(self.clone(), topic, value)
    }

    /// Publishes an event whose value is a JSON text.
    pub fn publish_json(&self, topic: &str, json: impl Into<Bytes>) -> Publish {
        Publish::with_body(self.clone(), topic, Ok(Body::json(json)))
    }

    /// Subscribes to topics: `ticket.created`, `ticket.*`, `ticket.**`.
    ///
    /// # Errors
    /// `INVALID_INPUT` if the pattern is none, `OVERLOADED` past 1,024 patterns or 4,096 subscribers.
    pub fn subscribe<T: DeserializeOwned>(&self, pattern: &str) -> Result<Subscription<T>, CallError> {
        self.subscribe_as(pattern, None)
    }

    /// Subscribes as a member of a group: each event goes to one member, on whichever node it is.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe), and `INVALID_INPUT` if the group's name has not 1 to 63 bytes.
    pub fn subscribe_in_group<T: DeserializeOwned>(
        &self,
        pattern: &str,
        group: &str,
    ) -> Result<Subscription<T>, CallError> {
        self.subscribe_as(pattern, Some(group.to_owned()))
    }

    fn subscribe_as<T: DeserializeOwned>(
        &self,
        pattern: &str,
        group: Option<String>,
    ) -> Result<Subscription<T>, CallError> {
        let pattern: TopicPattern = pattern.parse()?;
        let subscribed = self.running.mesh.subscriptions.subscribe(pattern, group);
        let inner = subscribed.map_err(|refused| CallError::new(refused.code(), refused.to_string()))?;
        Ok(Subscription::new(inner))
    }

    /// Provides another capability from now on; linked nodes learn of it at once.
    ///
    /// # Errors
    /// [`RegisterError`] if the name is taken or a schema cannot be used.
    pub fn register<M>(&self, capability: impl IntoCapability<M>) -> Result<(), RegisterError> {
        let adapter = Adapter {
            capability: Arc::new(capability.into_capability()),
            node: self.weak(),
            states: self.states(),
        };
        self.running.mesh.register(Arc::new(adapter))
    }

    /// Provides a capability no longer. Calls that run go on. False if it was not provided.
    pub fn unregister(&self, name: &CapabilityName) -> bool {
        self.running.mesh.unregister(name)
    }

    /// What this node provides.
    pub fn provided(&self) -> Vec<CapabilityInfo> {
        self.running.mesh.provided()
    }

    /// Who provides what, among the nodes that are linked: each capability with its providers.
    pub fn capabilities(&self) -> Vec<(NodeId, CapabilityInfo)> {
        let known = self.running.mesh.known_providers();
        let mut all: Vec<_> = known
            .values()
            .flatten()
            .map(|provider| (provider.peer.node.clone(), CapabilityInfo::clone(&provider.info)))
            .collect();
        all.sort_by(|one, other| (&one.1.name, &one.0).cmp(&(&other.1.name, &other.0)));
        all
    }

    /// The peers that this node knows, and how it knows them.
    pub fn peers(&self) -> Vec<PeerView> {
        let now = Instant::now();
        self.running.mesh.peers.all().iter().map(|peer| peer.view(now)).collect()
    }

    /// Waits until somebody provides the capability: a peer that this node knows, or one that dials it.
    ///
    /// # Errors
    /// `UNAVAILABLE` or `NOT_FOUND`, with who could not be reached and why, if nobody does within `patience`.
    pub async fn wait_for(&self, capability: &str, patience: Duration) -> Result<(), CallError> {
        let mut order = Order::new(capability.parse()?, Body::json("null"));
        order.provider_wait = Some(patience);
        self.running.mesh.await_provider(&order, Instant::now() + patience).await?;
        Ok(())
    }

    /// Dials every known peer, and waits until each has been reached or has failed once, or `patience` is over.
    pub async fn look_around(&self, patience: Duration) {
        self.running.mesh.settle_peers(patience).await;
    }

    /// How much of each limit is in use now.
    pub fn metrics(&self) -> Metrics {
        self.running.mesh.metrics()
    }

    /// Follows what happens on this node from now on.
    pub fn observe(&self) -> Observations {
        self.running.mesh.observer.follow()
    }

    /// What this node has seen of a session, oldest first, as far as it is still kept.
    pub fn timeline(&self, session: SessionId) -> Vec<Arc<Observation>> {
        self.running.mesh.observer.of_session(session)
    }

    /// Takes no new work, lets running work end (30 s at most by default), tells the peers, closes. True if all running
    /// work came to its end.
    pub async fn shutdown(&self) -> bool {
        self.running.mesh.drain().await
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", self.id()).field("agent", self.agent()).finish_non_exhaustive()
    }
}
