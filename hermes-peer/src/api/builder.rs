//! Putting a node together. All settings are checked at the start, together.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use hermes_peer_proto::protocol::VersionRange;
use hermes_peer_proto::security::Policy;
use hermes_peer_proto::security::Rule;
use hermes_peer_proto::security::Token;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::InvalidName;
use hermes_peer_proto::wire::NodeId;

use crate::api::capability::Adapter;
use crate::api::capability::Capability;
use crate::api::capability::IntoCapability;
use crate::api::context::States;
use crate::api::error::StartError;
use crate::api::node::Node;
use crate::api::node::Running;
use crate::api::node::WeakNode;
use crate::discovery::Sighting;
use crate::discovery::SourceKind;
use crate::mesh::Mesh;
use crate::mesh::idempotency::IdempotencySettings;
use crate::mesh::session::SessionSettings;
use crate::mesh::settings::MeshSettings;
use crate::mesh::start::MeshStartError;
use crate::mesh::start::Parts;
use crate::mesh::subscription::EventSettings;
use crate::transport::endpoint::Endpoint;
use crate::transport::home;
use crate::transport::memory::MemoryNetwork;
use crate::transport::reload::TlsContext;
use crate::transport::reload::TlsFiles;

/// How a node proves who it is, and whom it trusts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Auth {
    /// By a certificate that carries its agent, issued by an authority that all nodes trust.
    Mtls(TlsFiles),
    /// By a secret that all nodes know. It never crosses the wire.
    Token(TokenSet),
}

/// Puts a [`Node`] together; see [`Node::builder`].
///
/// What is not said has a default. On one machine nothing need be said: without [`auth`](Self::auth) a node that does not
/// listen beyond loopback takes a certificate from the user's own development CA, so that the processes of one user trust
/// each other and nobody else, and they find each other by themselves.
#[must_use = "a node does nothing until `start` is awaited"]
pub struct NodeBuilder {
    agent: Result<AgentUri, InvalidName>,
    node_id: Option<NodeId>,
    auth: Option<Auth>,
    development_ca: Option<PathBuf>,
    policy: Option<Vec<Rule>>,
    peers: Vec<Sighting>,
    capabilities: Vec<Arc<dyn Capability>>,
    expected: Vec<CapabilityName>,
    states: States,
    pub(super) settings: MeshSettings,
    pub(super) sessions: SessionSettings,
    pub(super) events: EventSettings,
    pub(super) idempotency: IdempotencySettings,
    problem: Option<StartError>,
}

impl NodeBuilder {
    pub(super) fn new(agent: &str) -> Self {
        Self {
            agent: agent.parse(),
            node_id: None,
            auth: None,
            development_ca: None,
            policy: None,
            peers: Vec::new(),
            capabilities: Vec::new(),
            expected: Vec::new(),
            states: States::default(),
            settings: MeshSettings::default(),
            sessions: SessionSettings::default(),
            events: EventSettings::default(),
            idempotency: IdempotencySettings::default(),
            problem: None,
        }
    }

    /// The first problem is told at the start.
    fn note<T>(&mut self, checked: Result<T, impl Into<StartError>>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem.get_or_insert_with(|| error.into());
                None
            }
        }
    }

    /// This process's name, such as `nlu-agent-01`. Made from the agent's name and a random part if it is left out.
    pub fn node_id(mut self, node_id: &str) -> Self {
        self.node_id = self.note(node_id.parse::<NodeId>());
        self
    }

    /// Where to listen, such as `127.0.0.1:7502`; port 0 takes a free one. A node that does not listen only calls.
    pub fn listen(mut self, address: &str) -> Self {
        let parsed = address.parse::<SocketAddr>().map_err(|_| StartError::Setting {
            name: "listen",
            reason: format!("`{address}` is no IP address with a port, such as 127.0.0.1:7502 or [::]:7502"),
        });
        self.settings.listen = self.note(parsed);
        self
    }

    /// A peer to stay linked with: its node id, and where it is dialled, such as `192.168.1.21:7502`. It may start later.
    pub fn peer(self, node_id: &str, endpoint: &str) -> Self {
        self.peer_of_agent(node_id, endpoint, None, Vec::new())
    }

    pub(super) fn peer_of_agent(
        mut self,
        node_id: &str,
        endpoint: &str,
        agent: Option<AgentUri>,
        capabilities: Vec<CapabilityName>,
    ) -> Self {
        let node = self.note(node_id.parse::<NodeId>());
        let endpoint = self.note(endpoint.parse::<Endpoint>());
        if let (Some(node), Some(endpoint)) = (node, endpoint) {
            self.peers.push(Sighting {
                node,
                agent,
                endpoints: vec![endpoint],
                capabilities,
                source: SourceKind::File,
                seen: Instant::now(),
            });
        }
        self
    }

    /// Provides a capability. A name that is given twice is refused at the start.
    pub fn capability<M>(mut self, capability: impl IntoCapability<M>) -> Self {
        self.capabilities.push(Arc::new(capability.into_capability()));
        self
    }

    /// The node has to provide these: its start is refused if something is missing.
    pub fn expect_capabilities(mut self, names: impl IntoIterator<Item = CapabilityName>) -> Self {
        self.expected.extend(names);
        self
    }

    /// A value for handlers, which get it by its type from [`Context::state`](crate::Context::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(Arc::new(value));
        self
    }

    /// How the node proves who it is, and whom it trusts.
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Proves by certificates (PEM files): the authority's, this node's, and its key.
    pub fn mtls(self, ca: impl Into<PathBuf>, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.auth(Auth::Mtls(TlsFiles { ca: ca.into(), cert: cert.into(), key: key.into(), crl: None }))
    }

    /// Proves by a shared secret of at least 16 bytes.
    pub fn token(mut self, secret: impl AsRef<[u8]>) -> Self {
        let tokens = Token::parse(secret.as_ref()).and_then(|token| TokenSet::new(vec![token]));
        let tokens = tokens.map_err(|error| StartError::Setting { name: "token", reason: error.to_string() });
        self.auth = self.note(tokens).map(Auth::Token);
        self
    }

    /// Takes its certificate from the development CA in this folder, made on first use, rather than from the user's own.
    pub fn development_ca(mut self, folder: impl AsRef<Path>) -> Self {
        self.development_ca = Some(folder.as_ref().to_owned());
        self
    }

    /// Who may do what. Without rules agents of the same tenant may call `public` capabilities, and nobody else anything.
    pub fn policy(mut self, rules: Vec<Rule>) -> Self {
        self.policy = Some(rules);
        self
    }

    /// Does not tell other nodes of this user on this machine that it is here, nor look for them.
    pub fn without_local_discovery(mut self) -> Self {
        self.settings.is_local = false;
        self
    }

    /// Listens and dials inside this process in place of sockets, by node ids: for many nodes in one test, also under a
    /// paused clock. TLS, handshake and link are the same. Peers are given as `NODE_ID:1`.
    pub fn memory(mut self, network: &MemoryNetwork) -> Self {
        self.settings.memory = Some(network.clone());
        self.settings.is_local = false;
        self
    }

    /// Dials a peer only when a call needs it, apart from those given with [`peer`](Self::peer).
    pub fn lazy(mut self) -> Self {
        self.settings.is_eager = false;
        self
    }

    /// Silence after which a heartbeat is sent, 40 s by default. A peer is given up after three missed.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.settings.link.announced.heartbeat_ms =
            u32::try_from(interval.as_millis()).unwrap_or(u32::MAX).max(10);
        self
    }

    /// How long a session lives that nothing uses, 5 min by default.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.sessions.idle_timeout = timeout;
        self
    }

    /// Longest message, taken and given, in bytes: 64 MiB by default.
    pub fn max_message(mut self, bytes: u32) -> Self {
        self.settings.link.announced.max_message = bytes;
        self
    }

    /// Time of a call that asks for none, 30 s by default.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// How long [`Node::shutdown`] lets running work go on, 30 s by default.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// Protocol versions spoken, 1 to 2 by default.
    pub fn versions(mut self, min: u8, max: u8) -> Self {
        let range = VersionRange::new(min, max).ok_or_else(|| StartError::Setting {
            name: "version",
            reason: format!("{min} to {max} is no range of versions from 1 to 2"),
        });
        if let Some(range) = self.note(range) {
            self.settings.versions = range;
        }
        self
    }

    /// Starts the node: it listens, is announced, and dials its peers, which may come up later.
    ///
    /// # Errors
    /// [`StartError`]: what is wrong, and what would be right. Nothing is left running.
    pub async fn start(mut self) -> Result<Node, StartError> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let agent = self.agent.clone()?;
        let node = self.node_id.clone().unwrap_or_else(|| made_up_id(&agent));
        let (tls, tokens) = self.credentials(&agent, &node).await?;
        let policy = match self.policy.take() {
            Some(rules) => Policy::with_rules(&agent, rules),
            None => Policy::without_rules(&agent),
        };
        let parts = Parts {
            node,
            agent,
            settings: self.settings.clone(),
            tls,
            tokens,
            policy,
            sessions: self.sessions.clone(),
            events: self.events.clone(),
            idempotency: self.idempotency.clone(),
        };
        let mesh = Mesh::new(parts);
        mesh.insert_built_ins();
        let node = self.run(mesh);
        node.provide(&self.capabilities)?;
        if let Some(missing) = self.expected.iter().find(|name| !node.provides(name)) {
            return Err(StartError::Missing { name: missing.clone() });
        }
        match node.mesh().start(&self.peers).await {
            Ok(()) => Ok(node),
            Err(MeshStartError::Listen(error)) => Err(error.into()),
            Err(MeshStartError::Local(error)) => Err(error.into()),
            Err(MeshStartError::Memory(error)) => Err(StartError::Setting { name: "memory", reason: error.to_string() }),
        }
    }

    fn run(&mut self, mesh: Arc<Mesh>) -> Node {
        Node(Arc::new(Running { mesh, states: Arc::new(std::mem::take(&mut self.states)) }))
    }

    async fn credentials(
        &mut self,
        agent: &AgentUri,
        node: &NodeId,
    ) -> Result<(TlsContext, Option<Arc<TokenSet>>), StartError> {
        match self.auth.take() {
            Some(Auth::Token(tokens)) => Ok((TlsContext::for_token()?, Some(Arc::new(tokens)))),
            Some(Auth::Mtls(files)) => {
                let tls = TlsContext::from_files(files)?;
                if let Some(own) = tls.own()
                    && let Some(found) = own.agent
                    && found != *agent
                {
                    return Err(StartError::OtherAgent { expected: agent.clone(), found });
                }
                tls.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                Ok((tls, None))
            }
            None => self.development_credentials(agent, node).await,
        }
    }

    async fn development_credentials(
        &mut self,
        agent: &AgentUri,
        node: &NodeId,
    ) -> Result<(TlsContext, Option<Arc<TokenSet>>), StartError> {
        if let Some(address) = self.settings.listen.filter(|address| !address.ip().is_loopback()) {
            return Err(StartError::AuthRequired { address });
        }
        self.settings.is_same_user = true;
        let folder = self.development_ca.take();
        let opening = tokio::task::spawn_blocking(move || match folder {
            Some(folder) => home::authority_in(&folder),
            None => home::development_authority(),
        });
        let authority = opening.await.map_err(|_| StartError::Setting {
            name: "auth",
            reason: "the runtime is shutting down".to_owned(),
        })??;
        let tls = TlsContext::issued_by(authority.folder().to_owned(), agent.clone(), node.clone())?;
        Ok((tls, None))
    }
}

impl Node {
    fn provide(&self, capabilities: &[Arc<dyn Capability>]) -> Result<(), StartError> {
        for capability in capabilities {
            let adapter = Adapter {
                capability: capability.clone(),
                node: WeakNode(Arc::downgrade(&self.0)),
                states: self.0.states.clone(),
            };
            self.mesh().register(Arc::new(adapter))?;
        }
        Ok(())
    }

    fn provides(&self, name: &CapabilityName) -> bool {
        self.provided().iter().any(|info| info.name == *name)
    }
}

/// The agent's name with a random end, such as `retrieval-3fa9`.
fn made_up_id(agent: &AgentUri) -> NodeId {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name: String = agent.name().chars().map(|c| if is_allowed(c) { c } else { '-' }).take(50).collect();
    format!("{name}-{:04x}", fastrand::u16(..)).parse().expect("allowed characters, and far fewer than 63")
}

impl fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder")
            .field("agent", &self.agent)
            .field("node_id", &self.node_id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
