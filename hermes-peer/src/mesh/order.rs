//! What a caller wants done.

use std::sync::Arc;
use std::time::Duration;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;

use crate::mesh::handler::Body;
use crate::mesh::handler::Scope;
use crate::mesh::participation::SessionUse;
use crate::mesh::route::Wanted;

/// What a caller wants done.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) capability: CapabilityName,
    pub(crate) wanted: Wanted,
    pub(crate) body: Body,
    /// Items follow the request.
    pub(crate) has_items: bool,
    pub(crate) timeout: Option<Duration>,
    /// How long to wait for somebody who provides it.
    pub(crate) provider_wait: Option<Duration>,
    pub(crate) session: Option<SessionUse>,
    pub(crate) key: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) on_behalf_of: Option<AgentUri>,
    pub(crate) budget: Option<u64>,
    /// The call in whose handler this one is made.
    pub(crate) parent: Option<Arc<Scope>>,
}

impl Order {
    pub(crate) fn new(capability: CapabilityName, body: Body) -> Self {
        Self {
            capability,
            wanted: Wanted::default(),
            body,
            has_items: false,
            timeout: None,
            provider_wait: None,
            session: None,
            key: None,
            priority: None,
            on_behalf_of: None,
            budget: None,
            parent: None,
        }
    }
}
