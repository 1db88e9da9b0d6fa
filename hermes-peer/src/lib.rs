//! A peer-to-peer mesh for agent processes.

mod api;
pub mod config;
mod discovery;
mod link;
mod mesh;
mod observe;
mod schema;
mod transport;

pub use api::builder::{Auth, NodeBuilder};
pub use api::call::{Call, Parts, Replies, ReplyPart, Sender};
pub use api::capability::{Capability, Closure, HandlerFuture, IntoCapability, Request, handler};
pub use api::context::Context;
pub use api::error::{CallError, Failure, StartError};
pub use api::event::{Delivery, Event, Publish, Subscription};
pub use api::from_file::describe;
pub use api::items::{Incoming, ItemSender, Items};
pub use api::node::Node;
pub use api::payload::{Output, Raw, Reply};
pub use api::program::ProgramCapability;
pub use api::session::Session;
pub use hermes_peer_derive::capability;
pub use hermes_peer_proto::security::{AgentPattern, Effect, InvalidPattern, Pattern, Rule, TokenSet, Verb};
pub use hermes_peer_proto::wire::{
    Access, AgentUri, CapabilityInfo, CapabilityName, CapabilityVersion, ContentType, Epoch, ErrorCode,
    Facts, InvalidName, Merge, MessageId, NodeId, SessionId, SlotName, Topic, TopicPattern,
};
pub use mesh::admission::HandlerLimits;
pub use mesh::handler::{Body, Caller};
pub use mesh::idempotency::IdempotencyCounters;
pub use mesh::metrics::{CapabilityLoad, Metrics};
pub use mesh::peers::{AddressView, LinkState, PeerView};
pub use mesh::program::{Program, ProgramError};
pub use mesh::providers::RegisterError;
pub use discovery::SourceKind;
pub use discovery::local::LocalError;
pub use observe::{Direction, MessageKind, MessageSeen, Observation, Observations, PeerState, What};
pub use schema::{JsonRefused, SchemaRefused, Violation, check_schema, schema_of};
pub use transport::endpoint::{Endpoint, InvalidEndpoint};
pub use transport::memory::MemoryNetwork;
pub use transport::tcp::ListenError;

/// Certificates: an authority in a folder, what it issues, and what the files of a node say.
pub mod certificates {
    pub use crate::transport::authority::error::AuthorityError;
    pub use crate::transport::authority::validity::{DEFAULT_VALIDITY, MAX_VALIDITY};
    pub use crate::transport::authority::{Authority, IssuedPem};
    pub use crate::transport::facts::{CertificateFacts, Utc};
    pub use crate::transport::pem::{PemError, Wanted};
    pub use crate::transport::reload::check::CheckedFiles;
    pub use crate::transport::reload::{LoadError, TlsFiles};
    pub use crate::transport::tls::error::TlsError;
}

/// What `#[capability]` expands to calls these. Not for use by hand: they change without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::api::payload::Output;

    use hermes_peer_proto::wire::CapabilityInfo;
    use hermes_peer_proto::wire::CapabilityVersion;
    use hermes_peer_proto::wire::SlotName;

    use crate::mesh::admission::HandlerLimits;

    /// A description to fill. The name was checked at compile time.
    pub fn info(name: &str) -> CapabilityInfo {
        CapabilityInfo::new(name.parse().expect("the attribute has checked the name"))
    }

    /// A type's JSON Schema.
    pub fn schema<T: schemars::JsonSchema>() -> String {
        crate::api::payload::schema_text::<T>()
    }

    /// A version.
    pub const fn version(major: u32, minor: u32, patch: u32) -> CapabilityVersion {
        CapabilityVersion { major, minor, patch }
    }

    /// Names of slots, checked at compile time.
    pub fn slots(names: &[&str]) -> Vec<SlotName> {
        names.iter().map(|name| name.parse().expect("the attribute has checked the name")).collect()
    }

    /// The default limits with those that the attribute names.
    pub fn limits(concurrency: Option<u32>, queue: Option<u32>) -> HandlerLimits {
        let mut limits = HandlerLimits::default();
        if let Some(concurrency) = concurrency {
            limits = limits.concurrency(concurrency);
        }
        if let Some(queue) = queue {
            limits = limits.queue(queue);
        }
        limits
    }
}
