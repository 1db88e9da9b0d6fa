//! Who provides what: handlers here, what linked peers advertise, and finding somebody for a call.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use hermes_peer_proto::security;
use hermes_peer_proto::security::Action;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Target;

use crate::link::LinkHandle;
use crate::mesh::admission::Admission;
use crate::mesh::admission::HandlerLimits;
use crate::mesh::dispatch::Registered;
use crate::mesh::handler::Handler;
use crate::mesh::order::Order;
use crate::mesh::peers::Peer;
use crate::mesh::route;
use crate::mesh::route::Provider;
use crate::mesh::state::Mesh;
use crate::schema::Compiled;
use crate::schema::SchemaRefused;

/// The front of the names that every node provides by itself. They are not advertised.
pub(crate) const BUILT_IN: &str = "hermes.";

/// Why a capability cannot be provided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Something provides it here already.
    #[error("`{name}` is provided by this node already")]
    Taken {
        /// The capability.
        name: CapabilityName,
    },
    /// The name is one of those that every node provides by itself.
    #[error("`{name}`: names that begin with `hermes.` are Hermes' own")]
    Reserved {
        /// The capability.
        name: CapabilityName,
    },
    /// One of its schemas cannot be used.
    #[error("the {which} schema of `{name}` cannot be used: {reason}")]
    Schema {
        /// The capability.
        name: CapabilityName,
        /// `input`, `output` or `item`.
        which: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Registered {
    pub(crate) fn new(handler: Arc<dyn Handler>, default: HandlerLimits) -> Result<Self, RegisterError> {
        let info = handler.info();
        let own = handler.limits();
        let limits = if own == HandlerLimits::default() { default } else { own };
        let compile = |which, schema: &str| -> Result<Option<Compiled>, RegisterError> {
            let refused = |reason: String| RegisterError::Schema { name: info.name.clone(), which, reason };
            if schema.is_empty() {
                return Ok(None);
            }
            let schema =
                crate::schema::parse(schema.as_bytes()).map_err(|error| refused(error.to_string()))?;
            let compiled =
                Compiled::new(&schema).map_err(|error: SchemaRefused| refused(error.to_string()))?;
            Ok(Some(compiled))
        };
        Ok(Self {
            input: compile("input", &info.input_schema)?,
            output: compile("output", &info.output_schema)?,
            item: compile("item", info.item_schema.as_deref().unwrap_or_default())?,
            admission: Admission::new(limits),
            handler,
            info,
        })
    }
}

impl Mesh {
    /// Provides a capability from now on; the mesh learns of it at once.
    pub(crate) fn register(self: &Arc<Self>, handler: Arc<dyn Handler>) -> Result<(), RegisterError> {
        let registered = Arc::new(Registered::new(handler, self.settings.handler_limits)?);
        let name = registered.info.name.clone();
        if name.as_str().starts_with(BUILT_IN) {
            return Err(RegisterError::Reserved { name });
        }
        self.insert_handler(registered)?;
        self.readvertise();
        Ok(())
    }

    pub(crate) fn insert_handler(&self, registered: Arc<Registered>) -> Result<(), RegisterError> {
        let name = registered.info.name.clone();
        let mut is_taken = false;
        self.handlers.rcu(|handlers| {
            let mut handlers = HashMap::clone(handlers);
            is_taken = handlers.contains_key(&name);
            handlers.entry(name.clone()).or_insert_with(|| registered.clone());
            handlers
        });
        if is_taken { Err(RegisterError::Taken { name }) } else { Ok(()) }
    }

    /// No longer provides it. Calls that run go on. False if it was not provided.
    pub(crate) fn unregister(self: &Arc<Self>, name: &CapabilityName) -> bool {
        let mut was_there = false;
        self.handlers.rcu(|handlers| {
            let mut handlers = HashMap::clone(handlers);
            was_there = handlers.remove(name).is_some();
            handlers
        });
        self.readvertise();
        was_there
    }

    /// What this node provides, without what every node does.
    pub(crate) fn provided(&self) -> Vec<CapabilityInfo> {
        let handlers = self.handlers.load();
        let mut provided: Vec<_> = handlers
            .values()
            .filter(|registered| !registered.info.name.as_str().starts_with(BUILT_IN))
            .map(|registered| registered.info.clone())
            .collect();
        provided.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        provided
    }

    /// How busy the busiest capability is.
    pub(crate) fn load(&self) -> u8 {
        self.handlers.load().values().map(|registered| registered.admission.load()).max().unwrap_or_default()
    }

    pub(crate) fn readvertise(self: &Arc<Self>) {
        self.revision.fetch_add(1, Ordering::SeqCst);
        for peer in self.peers.all() {
            if let Some(link) = peer.link.load_full() {
                self.advertise_to(&link);
            }
        }
        self.reannounce();
        self.news.notify_waiters();
    }

    /// Tells a peer what it may call: a capability that policy keeps from it is not even named.
    pub(crate) fn advertise_to(&self, link: &LinkHandle) {
        let who = security::Caller {
            agent: link.peer().agent(),
            node: link.peer().node(),
            is_same_user: self.settings.is_same_user,
        };
        let policy = self.policy.load();
        let may_call = |info: &CapabilityInfo| {
            policy.decide(&who, Action::Call { capability: &info.name, access: info.access }).allowed
        };
        // Before the list is read: whatever changes meanwhile has a later revision, and is stated again under that.
        let revision = self.revision.load(Ordering::SeqCst);
        let capabilities = self.provided().into_iter().filter(may_call).collect();
        link.set_load(self.load());
        link.advertise(revision, capabilities);
    }

    /// Makes the index anew from what linked peers advertise.
    pub(crate) fn rebuild_providers(&self) {
        // Two peers may say at the same moment what they provide: the index that is made last has seen both.
        self.providers.rcu(|_| self.provider_index());
        self.news.notify_waiters();
    }

    fn provider_index(&self) -> HashMap<CapabilityName, Vec<Provider>> {
        let mut index: HashMap<CapabilityName, Vec<Provider>> = HashMap::new();
        for peer in self.peers.all() {
            if peer.link.load().is_none() || peer.state.lock().is_draining {
                continue;
            }
            for info in peer.advertised.load().iter() {
                let provider = Provider { peer: peer.clone(), info: info.clone() };
                index.entry(info.name.clone()).or_default().push(provider);
            }
        }
        index
    }

    /// All providers of a capability that are linked now, or of all.
    pub(crate) fn known_providers(&self) -> Arc<HashMap<CapabilityName, Vec<Provider>>> {
        self.providers.load_full()
    }

    /// Waits for a provider, also for one that nothing is known of yet and that dials this node.
    pub(crate) async fn await_provider(&self, order: &Order, give_up: Instant) -> Result<(), Fault> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let Err(fault) = self.find_provider(order, &[], give_up).await else { return Ok(()) };
            if Instant::now() >= give_up || tokio::time::timeout_at(give_up, news).await.is_err() {
                return Err(fault);
            }
        }
    }

    /// Somebody for a call: `None` is this node itself. Waits for those who may provide it and are not there yet.
    pub(crate) async fn find_provider(
        &self,
        order: &Order,
        tried: &[NodeId],
        deadline: Instant,
    ) -> Result<Option<Provider>, Fault> {
        let patience = order.provider_wait.unwrap_or(self.settings.provider_wait);
        let give_up = deadline.min(Instant::now() + patience);
        let mut has_looked = false;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.is_here(order) && !tried.contains(&self.node) {
                return Ok(None);
            }
            if let Some(provider) = self.choose(order, tried) {
                return Ok(Some(provider));
            }
            if !std::mem::replace(&mut has_looked, true) {
                self.look_around();
                continue;
            }
            if !self.want_providers(order, tried) {
                // The last of them may have come since the first look.
                return self.choose(order, tried).map(Some).ok_or_else(|| self.nobody(order, tried));
            }
            if Instant::now() >= give_up {
                return Err(self.nobody(order, tried));
            }
            if tokio::time::timeout_at(give_up, news).await.is_err() {
                return Err(self.nobody(order, tried));
            }
        }
    }

    fn is_here(&self, order: &Order) -> bool {
        let handlers = self.handlers.load();
        let Some(registered) = handlers.get(&order.capability) else { return false };
        let is_built_in = order.capability.as_str().starts_with(BUILT_IN);
        order.wanted.fits(&self.node, Some(&self.agent), &registered.info)
            && (!is_built_in || order.wanted.target.is_some())
    }

    fn choose(&self, order: &Order, tried: &[NodeId]) -> Option<Provider> {
        if order.capability.as_str().starts_with(BUILT_IN) {
            return self.built_in(order, tried);
        }
        let providers = self.providers.load();
        route::choose(providers.get(&order.capability)?, &order.wanted, tried, fastrand::f64)
    }

    /// Every node provides what is built in, so any that the call is for will do.
    fn built_in(&self, order: &Order, tried: &[NodeId]) -> Option<Provider> {
        let info = self.handlers.load().get(&order.capability)?.info.clone();
        let fits = |peer: &Arc<Peer>| {
            let agent = peer.state.lock().agent.clone();
            peer.calling_link().is_some()
                && !tried.contains(&peer.node)
                && order.wanted.fits(&peer.node, agent.as_ref(), &info)
        };
        let peer = self.peers.all().into_iter().find(fits)?;
        Some(Provider { peer, info: Arc::new(info) })
    }

    /// Asks for links to those who may provide it. False if there is nobody left to hope for.
    fn want_providers(&self, order: &Order, tried: &[NodeId]) -> bool {
        let mut may_come = false;
        for peer in self.peers.all() {
            if tried.contains(&peer.node) || !Self::is_wanted_peer(&peer, order) {
                continue;
            }
            if !peer.is_linked() {
                // One round of attempts at all addresses tells enough about a peer that no file promises.
                may_come |= peer.state.lock().failures == 0 || peer.is_configured();
                peer.want();
            } else {
                // It has not said yet what it provides, or it goes and may come back, or the link that stays is being taken up.
                let facts = peer.state.lock();
                let (is_known, is_draining) = (facts.is_known, facts.is_draining);
                drop(facts);
                may_come |= !is_known || peer.is_draining_from(&order.capability);
                may_come |= !is_draining && peer.calling_link().is_none();
            }
        }
        may_come
    }

    fn is_wanted_peer(peer: &Peer, order: &Order) -> bool {
        let is_target = match &order.wanted.target {
            None => true,
            Some(Target::Node(node)) => *node == peer.node,
            Some(Target::Agent(agent)) => peer.state.lock().agent.as_ref().is_none_or(|known| known == agent),
        };
        let is_built_in = order.capability.as_str().starts_with(BUILT_IN);
        is_target && (is_built_in || peer.may_provide(&order.capability))
    }

    /// Why nobody was found: the answer to what a person would ask next.
    fn nobody(&self, order: &Order, tried: &[NodeId]) -> Fault {
        let name = &order.capability;
        let missing: Vec<_> = self
            .peers
            .all()
            .into_iter()
            .filter(|peer| {
                let is_going = peer.is_draining_from(name);
                Self::is_wanted_peer(peer, order) && (is_going || !peer.is_linked())
            })
            .map(|peer| match peer.state.lock().last_error.clone() {
                _ if peer.is_linked() => format!("{}: it is shutting down", peer.node),
                Some(error) => format!("{}: {error}", peer.node),
                None => format!("{}: not reached yet", peer.node),
            })
            .collect();
        if !missing.is_empty() {
            let message = format!("nobody provides `{name}` now; not reachable: {}", missing.join("; "));
            return Fault::new(ErrorCode::Unavailable, message);
        }
        if !tried.is_empty() {
            let nodes: Vec<_> = tried.iter().map(NodeId::as_str).collect();
            let message = format!("`{name}` is provided by {}, and no call got through", nodes.join(", "));
            return Fault::new(ErrorCode::Unavailable, message);
        }
        let known = self.peers.all();
        if known.is_empty() {
            let message = format!("nobody provides `{name}`: no other node was found");
            return Fault::new(ErrorCode::Unavailable, message);
        }
        let index = self.providers.load();
        let mut names: Vec<_> = index.keys().cloned().collect();
        known.iter().for_each(|peer| names.extend(peer.state.lock().listed.iter().cloned()));
        let near = crate::schema::nearest(name.as_str(), names.iter().map(CapabilityName::as_str));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = match &order.wanted.target {
            Some(Target::Node(node)) => {
                format!("node `{node}` does not provide `{name}` to us, or is not known{hint}")
            }
            Some(Target::Agent(agent)) => {
                format!("{agent} does not provide `{name}` to us, or is not known{hint}")
            }
            None => format!("none of the nodes known ({}) provides `{name}` to us{hint}", known.len()),
        };
        Fault::new(ErrorCode::NotFound, message)
    }
}
