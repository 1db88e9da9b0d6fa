//! What runs a capability, and what it is given.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::Trace;

use crate::mesh::admission::HandlerLimits;
use crate::mesh::slot::SlotView;

/// A message's body: bytes, and what they are.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Body {
    /// The bytes.
    pub bytes: Bytes,
    /// What they are.
    pub content_type: ContentType,
}

impl Body {
    /// A JSON text. It is checked where it arrives.
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self { bytes: text.into(), content_type: ContentType::Json }
    }

    /// Bytes without a meaning for Hermes.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), content_type: ContentType::Bytes }
    }
}

/// Bodies are users' data: they do not get into logs by way of `{:?}`.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("bytes", &self.bytes.len())
            .field("content_type", &self.content_type)
            .finish()
    }
}

/// Who called, as this node proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The agent.
    pub agent: AgentUri,
    /// The process.
    pub node: NodeId,
    /// Whether it is a process of the same user on this machine, known by the user's own development CA.
    pub is_same_user: bool,
}

/// What a call takes along to the calls that are made on its behalf.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) caller: Caller,
    pub(crate) capability: CapabilityName,
    pub(crate) message_id: MessageId,
    pub(crate) correlation_id: MessageId,
    pub(crate) session: Option<SessionId>,
    pub(crate) slots: Mutex<SlotView>,
    pub(crate) deadline: Instant,
    pub(crate) path: Vec<Hop>,
    /// Nodes that the call has passed, this one not counted.
    pub(crate) hops: u8,
    pub(crate) trace: Trace,
    pub(crate) on_behalf_of: Option<AgentUri>,
    pub(crate) budget: Option<u64>,
    pub(crate) attempt: u8,
    pub(crate) cancelled: CancellationToken,
}

impl Scope {
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

tokio::task_local! {
    /// The call that the current task handles. Calls made from it inherit; tasks that it spawns do not.
    pub(crate) static CURRENT: Arc<Scope>;
}

/// A call as it reaches its handler: allowed, valid, admitted.
pub(crate) struct Incoming {
    pub(crate) body: Body,
    /// The body as it was parsed for validation, if it is JSON.
    pub(crate) value: Option<Value>,
    pub(crate) items: Option<BoxStream<'static, Result<Body, Fault>>>,
    pub(crate) scope: Arc<Scope>,
}

/// How a handler answers.
pub(crate) enum Answer {
    Value(Body),
    Stream(BoxStream<'static, Result<Body, Fault>>),
    /// A question; the body is its JSON.
    NeedsInput(Body),
}

pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send>>;

/// Runs a capability.
pub(crate) trait Handler: Send + Sync {
    fn info(&self) -> CapabilityInfo;
    fn limits(&self) -> HandlerLimits;
    fn call(&self, incoming: Incoming) -> AnswerFuture;
}
