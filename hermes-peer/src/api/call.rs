//! Calling a capability.

use std::fmt;
use std::future::Future;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use hermes_peer_proto::protocol::MAX_PRIORITY;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::CapabilityVersion;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MAX_KEY;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Target;

use crate::api::error::CallError;
use crate::api::node::Node;
use crate::api::payload;
use crate::api::session::Session;
use crate::mesh::call::Exchange;
use crate::mesh::call::ItemSink;
use crate::mesh::call::Order;
use crate::mesh::call::Part;
use crate::mesh::handler::Body;
use crate::mesh::handler::CURRENT;
use crate::mesh::handler::Scope;
use crate::mesh::participation::SessionUse;

/// A call that is being put together. Await it for one result, or ask for a [`stream`](Self::stream).
///
/// A call ends in exactly one way: a result, a typed error, or its deadline. Dropping it, or the future made of it,
/// cancels it at the provider, and at those whom the provider called for it.
///
/// # Errors
/// Of the future: [`CallError`]. `UNAVAILABLE` and `NOT_FOUND` if nobody provides the capability, `DEADLINE_EXCEEDED` after
/// [`timeout`](Self::timeout), and whatever the provider answers.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    node: Node,
    order: Result<Order, Fault>,
    result: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(crate) fn new(
        node: Node,
        capability: &str,
        input: &(impl Serialize + ?Sized),
        parent: Option<Arc<Scope>>,
    ) -> Self {
        let body = payload::encode(input, ErrorCode::InvalidInput);
        Self::with_body(node, capability, body, parent)
    }

    pub(crate) fn with_body(
        node: Node,
        capability: &str,
        body: Result<Body, Fault>,
        parent: Option<Arc<Scope>>,
    ) -> Self {
        // A call made in a handler's task is made on behalf of the handler's caller, without the author doing anything.
        let parent = parent.or_else(|| CURRENT.try_with(Arc::clone).ok());
        let order = capability
            .parse::<CapabilityName>()
            .map_err(|error| Fault::new(ErrorCode::InvalidInput, error.to_string()))
            .and_then(|name| Ok(Order::new(name, body?)))
            .map(|order| Order { session: parent.as_ref().and_then(SessionUse::of_scope), parent, ..order });
        Self { node, order, result: PhantomData }
    }

    fn change(mut self, change: impl FnOnce(&mut Order) -> Result<(), Fault>) -> Self {
        if let Ok(order) = &mut self.order
            && let Err(fault) = change(order)
        {
            self.order = Err(fault);
        }
        self
    }

    /// Only this agent (`agent://…`) or this node (its node id).
    pub fn to(self, target: &str) -> Self {
        self.change(|order| {
            let parsed = if target.starts_with("agent://") {
                target.parse::<AgentUri>().map(Target::Agent)
            } else {
                target.parse::<NodeId>().map(Target::Node)
            };
            order.wanted.target =
                Some(parsed.map_err(|error| Fault::new(ErrorCode::InvalidInput, error.to_string()))?);
            Ok(())
        })
    }

    /// At least this version of the capability, and the same major number.
    pub fn version(self, version: CapabilityVersion) -> Self {
        self.change(|order| {
            order.wanted.version = Some(version);
            Ok(())
        })
    }

    /// The time until the result must be there, 30 s by default; inside a handler at most what is left of its own.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|order| {
            order.timeout = Some(timeout);
            Ok(())
        })
    }

    /// How long to wait for somebody who provides it, 5 s by default. Peers that may be coming up are waited for, those that
    /// are known not to provide it are not.
    pub fn wait_for_provider(self, patience: Duration) -> Self {
        self.change(|order| {
            order.provider_wait = Some(patience);
            Ok(())
        })
    }

    /// Makes the call part of a session: the slots that the capability declares travel with it and come back.
    pub fn session(self, session: &Session) -> Self {
        self.change(|order| {
            order.session = Some(session.begin()?);
            Ok(())
        })
    }

    /// A key of 1 to 255 bytes: however often the call is made with it, the handler runs at most once, and every repeat gets
    /// the first result.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.change(|order| {
            if key.is_empty() || key.len() > MAX_KEY {
                let message =
                    format!("an idempotency key has 1 to {MAX_KEY} bytes, this one has {}", key.len());
                return Err(Fault::new(ErrorCode::InvalidInput, message));
            }
            order.key = Some(key);
            Ok(())
        })
    }

    /// From 0 to 7, 7 first; 3 by default. A share of the link, not an order of precedence: the lowest is slow, not stuck.
    pub fn priority(self, priority: u8) -> Self {
        self.change(|order| {
            if priority > MAX_PRIORITY {
                let message = format!("a priority is 0 to {MAX_PRIORITY}, not {priority}");
                return Err(Fault::new(ErrorCode::InvalidInput, message));
            }
            order.priority = Some(priority);
            Ok(())
        })
    }

    /// What may be spent on the call and all calls made for it, in the application's own unit.
    pub fn budget(self, budget: u64) -> Self {
        self.change(|order| {
            order.budget = Some(budget);
            Ok(())
        })
    }

    async fn begin(self) -> Result<Exchange, CallError> {
        Ok(self.node.mesh().call(self.order?).await?)
    }
}

impl Call<()> {
    /// Asks for the items of a capability that streams.
    ///
    /// # Errors
    /// [`CallError`] if the call could not be made; errors of the provider come with the items.
    pub async fn stream<I: DeserializeOwned>(self) -> Result<Replies<I>, CallError> {
        Ok(Replies::new(self.begin().await?))
    }

    /// Sends items after the input, and takes items or one result.
    ///
    /// # Errors
    /// [`CallError`] if the call could not be made, and `INVALID_INPUT` if the capability is provided by this node itself:
    /// items are streamed to other nodes only.
    pub async fn exchange<S: Serialize, I: DeserializeOwned>(
        self,
    ) -> Result<(Sender<S>, Replies<I>), CallError> {
        let call = self.change(|order| {
            order.has_items = true;
            Ok(())
        });
        let mut exchange = call.begin().await?;
        exchange.commit();
        let Some(stream) = exchange.stream() else {
            return Err(CallError::new(
                ErrorCode::InvalidInput,
                "items cannot be streamed to this node itself",
            ));
        };
        Ok((Sender { sink: ItemSink::new(stream), item: PhantomData }, Replies::new(exchange)))
    }

    /// Asks for the answer's bytes, whether it is one or a stream: the last part is the end.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn parts(self) -> Result<Parts, CallError> {
        Ok(Parts { exchange: self.begin().await?, is_over: false })
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Call<T> {
    type Output = Result<T, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut exchange = self.begin().await?;
            match exchange.next().await? {
                Part::End(body) => Ok(payload::decode(&body, ErrorCode::InvalidOutput)?),
                Part::Item(_) => {
                    Err(CallError::new(ErrorCode::InvalidOutput, "the capability streams: use `.stream()`"))
                }
                Part::NeedsInput(question) => Err(needs_input(&question)),
            }
        })
    }
}

fn needs_input(question: &Body) -> CallError {
    let mut fault =
        Fault::new(ErrorCode::InvalidInput, "the capability needs more input; `details` has its question");
    fault.details = String::from_utf8_lossy(&question.bytes).into_owned();
    fault.into()
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("order", &self.order).finish_non_exhaustive()
    }
}

/// The items of an answer. Dropping it before the end cancels the call.
pub struct Replies<I> {
    items: BoxStream<'static, Result<Body, Fault>>,
    item: PhantomData<fn() -> I>,
}

impl<I: DeserializeOwned> Replies<I> {
    fn new(exchange: Exchange) -> Self {
        let items = futures_util::stream::try_unfold(Some(exchange), |exchange| async move {
            let Some(mut exchange) = exchange else { return Ok(None) };
            match exchange.next().await? {
                Part::Item(body) => Ok(Some((body, Some(exchange)))),
                // A capability that does not stream has one item: its result.
                Part::End(body) if !body.bytes.is_empty() => Ok(Some((body, None))),
                Part::End(_) => Ok(None),
                Part::NeedsInput(question) => {
                    let mut fault = Fault::new(ErrorCode::InvalidInput, "the capability needs more input");
                    fault.details = String::from_utf8_lossy(&question.bytes).into_owned();
                    Err(fault)
                }
            }
        });
        Self { items: items.boxed(), item: PhantomData }
    }

    /// The next item; `None` at the end, which is reached only when the provider said so: a stream that was cut gives an
    /// error.
    ///
    /// # Errors
    /// [`CallError`]; nothing comes after one.
    ///
    /// # Cancel safety
    /// No item is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<I, CallError>> {
        StreamExt::next(self).await
    }
}

impl<I: DeserializeOwned> Stream for Replies<I> {
    type Item = Result<I, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx).map(|item| {
            item.map(|body| {
                body.and_then(|body| payload::decode(&body, ErrorCode::InvalidOutput))
                    .map_err(CallError::from)
            })
        })
    }
}

impl<I> fmt::Debug for Replies<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replies")
    }
}

/// An answer's bytes as they come, for callers that know the capability only at run time.
#[derive(Debug)]
pub struct Parts {
    exchange: Exchange,
    is_over: bool,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyPart {
    /// An item of a stream.
    Item(Body),
    /// The end; with the result, unless items came before.
    End(Option<Body>),
    /// A question to the caller, as JSON.
    NeedsInput(Body),
}

impl Parts {
    /// The next piece; `None` after the end.
    ///
    /// # Errors
    /// [`CallError`]; nothing comes after one.
    pub async fn next(&mut self) -> Option<Result<ReplyPart, CallError>> {
        if self.is_over {
            return None;
        }
        let part = self.exchange.next().await;
        self.is_over = !matches!(part, Ok(Part::Item(_)));
        Some(match part {
            Ok(Part::Item(body)) => Ok(ReplyPart::Item(body)),
            Ok(Part::End(body)) => Ok(ReplyPart::End((!body.bytes.is_empty()).then_some(body))),
            Ok(Part::NeedsInput(body)) => Ok(ReplyPart::NeedsInput(body)),
            Err(fault) => Err(fault.into()),
        })
    }
}

/// Sends input items of [`Call::exchange`]. Dropping it ends the input.
pub struct Sender<S> {
    sink: ItemSink,
    item: PhantomData<fn(S)>,
}

impl<S: Serialize> Sender<S> {
    /// Sends an item, waiting while the provider is behind.
    ///
    /// # Errors
    /// `CANCELLED` once the provider has ended the call: its answer is in the replies.
    pub async fn send(&self, item: &S) -> Result<(), CallError> {
        let body = payload::encode(item, ErrorCode::InvalidInput)?;
        Ok(self.sink.send(body).await?)
    }

    /// Ends the input: the provider sees its end, and the answer goes on.
    pub fn finish(self) {}
}

impl<S> Drop for Sender<S> {
    fn drop(&mut self) {
        self.sink.finish();
    }
}

impl<S> fmt::Debug for Sender<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}
