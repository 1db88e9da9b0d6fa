//! A peer-to-peer mesh for agent processes: one line registers a capability, one line calls it, directly, over mutual TLS,
//! with shared session context, and afterwards anyone can see what happened.
//!
//! ```
//! use hermes_peer::{Context, Failure, Node, capability};
//!
//! /// Adds two numbers.
//! #[capability("maths.add")]
//! async fn add(numbers: (i64, i64), _context: Context) -> Result<i64, Failure> {
//!     numbers.0.checked_add(numbers.1).ok_or_else(|| Failure::new("the sum is too large"))
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Node::builder("agent://default/demo/maths").listen("127.0.0.1:0").capability(add).start().await?;
//! let caller = Node::builder("agent://default/demo/pupil").start().await?;
//! let sum: i64 = caller.call("maths.add", &(17, 25)).timeout(std::time::Duration::from_secs(2)).await?;
//! assert_eq!(sum, 42);
//! # provider.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//!
//! An **agent** is a logical identity (`agent://tenant/space/name`), a **node** one running process; several nodes can serve one
//! agent. A **link** is the authenticated relation between two nodes; it outlives the **connections** below it. A
//! **capability** is a named operation (`knowledge.retrieve`), described by JSON Schema. A **session** is one collaboration over
//! any number of nodes, with **slots**: named, versioned values that travel with its calls.
//!
//! # Where to begin
//!
//! - [`capability`]: the attribute that makes a function a capability. [`Context`]: what a handler can know and do.
//! - [`Node`] and [`NodeBuilder`]: every setting with its default.
//! - [`Call`]: what can be asked of a call. [`CallError`]: how it can fail.
//! - [`Session`], [`Subscription`], [`Observation`].
//!
//! # Floors
//!
//! Each imports only those below it: `api` and `config` (what users see) · `mesh` (peers, routing, sessions, handlers) · `link`
//! (the driver) · `transport`, `discovery`, `observe` · the crate `hermes_peer_proto` (state machines and the wire, without I/O)
//! and `schema`. A test holds them to it.

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
pub use discovery::SourceKind;
pub use discovery::local::LocalError;
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

/// What stands in the README and in the first ten minutes compiles.
#[cfg(doctest)]
mod papers {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[doc = include_str!("../../docs/first-ten-minutes.md")]
    struct FirstTenMinutes;
}
