//! What a capability is: a description and a handler.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::InvalidName;

use crate::api::context::Context;
use crate::api::context::States;
use crate::api::error::Failure;
use crate::api::items::Incoming;
use crate::api::node::WeakNode;
use crate::api::payload;
use crate::api::payload::Output;
use crate::api::payload::Reply;
use crate::mesh;
use crate::mesh::admission::HandlerLimits;
use crate::mesh::handler::AnswerFuture;
use crate::mesh::handler::Body;

/// What a handler's `handle` gives.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send>>;

/// A named operation that a node provides. Written by [`#[capability]`](crate::capability); by hand where a description
/// is known only at run time.
///
/// ```
/// use hermes_peer::{Capability, Context, Failure, Node, capability};
///
/// /// Finds the passages that answer a question.
/// #[capability("knowledge.retrieve", idempotent, reads = ["intent"], cost = 2)]
/// async fn retrieve(question: String, context: Context) -> Result<Vec<String>, Failure> {
///     let intent: Option<String> = context.slot("intent")?;
///     Ok(vec![format!("{question}: {intent:?}")])
/// }
///
/// let node = Node::builder("agent://default/support/retrieval").capability(retrieve);
///
/// let info = retrieve().info();
/// assert_eq!(info.name.as_str(), "knowledge.retrieve");
/// assert_eq!(info.description, "Finds the passages that answer a question.");
/// assert_eq!(info.cost, 2);
/// ```
///
/// Each call runs in a task of the node's runtime. What computes for long without an `await`, such as a model, belongs into
/// [`tokio::task::spawn_blocking`]: a thread that it holds serves nobody else.
pub trait Capability: Send + Sync + 'static {
    /// How it describes itself to the mesh.
    fn info(&self) -> CapabilityInfo;

    /// How many calls run and wait at once.
    fn limits(&self) -> HandlerLimits {
        HandlerLimits::default()
    }

    /// Runs it. Dropping the future stops it: the caller has gone or the deadline has struck.
    fn handle(&self, request: Request, context: Context) -> HandlerFuture;
}

/// What a node can be given to provide: a [`Capability`], or the name of a function with
/// [`#[capability]`](crate::capability), which is a function that makes one.
///
/// `Marker` tells the two apart for the compiler, which finds it by itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no capability",
    label = "cannot be provided by a node",
    note = "write `#[capability(\"domain.action\")]` above the function and give its name alone, or make one of a closure with `hermes_peer::handler`"
)]
pub trait IntoCapability<Marker> {
    /// The type of the capability.
    type Capability: Capability;

    /// The capability.
    fn into_capability(self) -> Self::Capability;
}

impl<C: Capability> IntoCapability<()> for C {
    type Capability = C;

    fn into_capability(self) -> C {
        self
    }
}

impl<F: FnOnce() -> C, C: Capability> IntoCapability<fn() -> C> for F {
    type Capability = C;

    fn into_capability(self) -> C {
        self()
    }
}

/// A call's input, allowed and valid.
pub struct Request {
    body: Body,
    value: Option<Value>,
    items: Option<BoxStream<'static, Result<Body, Fault>>>,
}

impl Request {
    /// The input's bytes.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The input as a value.
    ///
    /// # Errors
    /// `INVALID_INPUT`, naming the place, if it is no JSON or does not fit the type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match &self.value {
            Some(value) => payload::from_value(value, ErrorCode::InvalidInput).map_err(Failure::of_fault),
            None => payload::decode(&self.body, ErrorCode::InvalidInput).map_err(Failure::of_fault),
        }
    }

    /// The input that comes item by item after the request. Empty if there is none or it was taken before.
    pub fn take_items<T: DeserializeOwned>(&mut self) -> Incoming<T> {
        Incoming::new(self.items.take())
    }

    /// The input's bytes, for a handler that passes them on.
    pub fn into_bytes(self) -> Bytes {
        self.body.bytes
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("body", &self.body).finish_non_exhaustive()
    }
}

/// A capability made of a closure, for one that needs no attribute.
///
/// ```
/// # use hermes_peer::{Context, Failure, Node, handler};
/// let double = handler("demo.double", |n: u64, _context: Context| async move { Ok::<_, Failure>(2 * n) })?
///     .description("Doubles a number.");
/// let node = Node::builder("agent://default/demo/maths").capability(double);
/// # Ok::<(), hermes_peer::InvalidName>(())
/// ```
///
/// # Errors
/// [`InvalidName`] if the name is not two or more words joined by dots.
pub fn handler<I, O, E, F, Fut>(name: &str, run: F) -> Result<Closure<I, F>, InvalidName>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Output,
    E: Into<Failure>,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    let mut info = CapabilityInfo::new(name.parse::<CapabilityName>()?);
    info.input_schema = payload::schema_text::<I>();
    info.output_schema = O::schema();
    info.streams = O::STREAMS;
    Ok(Closure { info, limits: HandlerLimits::default(), run: Arc::new(run), input: PhantomData })
}

/// What [`handler`] makes.
pub struct Closure<I, F> {
    info: CapabilityInfo,
    limits: HandlerLimits,
    run: Arc<F>,
    input: PhantomData<fn(I)>,
}

impl<I, F> Closure<I, F> {
    /// What it does, for people and for models that choose tools.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.info.description = text.into();
        self
    }

    /// How many calls run and wait at once.
    #[must_use]
    pub fn limits(mut self, limits: HandlerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Changes anything else in the description.
    #[must_use]
    pub fn with_info(mut self, change: impl FnOnce(&mut CapabilityInfo)) -> Self {
        change(&mut self.info);
        self
    }
}

impl<I, O, E, F, Fut> Capability for Closure<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Output,
    E: Into<Failure>,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    fn info(&self) -> CapabilityInfo {
        self.info.clone()
    }

    fn limits(&self) -> HandlerLimits {
        self.limits
    }

    fn handle(&self, request: Request, context: Context) -> HandlerFuture {
        let run = self.run.clone();
        Box::pin(async move {
            let input = request.input::<I>()?;
            run(input, context).await.map_err(Into::into)?.into_reply()
        })
    }
}

impl<I, F> fmt::Debug for Closure<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closure").field("name", &self.info.name).finish_non_exhaustive()
    }
}

/// A capability as the mesh runs it.
pub(crate) struct Adapter {
    pub(crate) capability: Arc<dyn Capability>,
    pub(crate) node: WeakNode,
    pub(crate) states: Arc<States>,
}

impl mesh::handler::Handler for Adapter {
    fn info(&self) -> CapabilityInfo {
        self.capability.info()
    }

    fn limits(&self) -> HandlerLimits {
        self.capability.limits()
    }

    fn call(&self, incoming: mesh::handler::Incoming) -> AnswerFuture {
        let mesh::handler::Incoming { body, value, items, scope } = incoming;
        let Some(node) = self.node.upgrade() else {
            let gone = Fault::new(ErrorCode::Unavailable, "the node is shutting down");
            return Box::pin(std::future::ready(Err(gone)));
        };
        let context = Context::new(node, scope, self.states.clone());
        let answer = self.capability.handle(Request { body, value, items }, context);
        Box::pin(async move { answer.await.map(|reply| reply.0).map_err(Failure::into_fault) })
    }
}
