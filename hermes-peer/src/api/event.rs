//! Publishing and subscribing.

use std::fmt;
use std::future::Future;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MAX_KEY;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::Topic;

use crate::api::error::CallError;
use crate::api::node::Node;
use crate::api::payload;
use crate::api::session::Session;
use crate::mesh::events::Publication;
use crate::mesh::handler::Body;
use crate::mesh::handler::CURRENT;
use crate::mesh::handler::Scope;
use crate::mesh::subscription::Delivery as Delivered;
use crate::mesh::subscription::LocalSubscription;

tokio::task_local! {
    /// Hops of the event that the current task handles: one that it publishes follows from it.
    static HANDLING: u8;
}

/// An event that is being put together. Await it to publish it; the result is how many nodes it went to.
///
/// # Errors
/// Of the future: `RATE_LIMITED` past the node's rate for the topic, `LOOP_DETECTED` if it follows from eight other events,
/// `INVALID_INPUT`, and `TOO_LARGE` if a subscriber's node takes no event of this size: those who take it have got it.
#[must_use = "an event is not published until it is awaited"]
pub struct Publish {
    node: Node,
    publication: Result<Publication, Fault>,
}

impl Publish {
    pub(crate) fn new(node: Node, topic: &str, value: &(impl Serialize + ?Sized)) -> Self {
        Self::with_body(node, topic, payload::encode(value, ErrorCode::InvalidInput))
    }

    /// Follows from this call, whichever task publishes it.
    pub(crate) fn following(mut self, parent: Arc<Scope>) -> Self {
        if let Ok(publication) = &mut self.publication {
            publication.parent = Some(parent);
        }
        self
    }

    pub(crate) fn with_body(node: Node, topic: &str, body: Result<Body, Fault>) -> Self {
        let publication = topic
            .parse::<Topic>()
            .map_err(|error| Fault::new(ErrorCode::InvalidInput, error.to_string()))
            .and_then(|topic| {
                let handling = HANDLING.try_with(|hops| *hops).ok();
                let parent = CURRENT.try_with(Arc::clone).ok();
                Ok(Publication { topic, body: body?, key: None, session: None, handling, parent })
            });
        Self { node, publication }
    }

    /// A key of 1 to 255 bytes: subscribers get an event with the same key once. Made if it is left out.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        if key.is_empty() || key.len() > MAX_KEY {
            let message = format!("an event's key has 1 to {MAX_KEY} bytes, this one has {}", key.len());
            self.publication = Err(Fault::new(ErrorCode::InvalidInput, message));
        } else if let Ok(publication) = &mut self.publication {
            publication.key = Some(key);
        }
        self
    }

    /// Makes the event part of a session's story.
    pub fn session(mut self, session: &Session) -> Self {
        if let Ok(publication) = &mut self.publication {
            publication.session = Some(session.id());
        }
        self
    }
}

impl IntoFuture for Publish {
    type Output = Result<usize, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.node.mesh().publish(self.publication?)?) })
    }
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publish").field("publication", &self.publication).finish_non_exhaustive()
    }
}

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<T> {
    /// What it is about.
    pub topic: Topic,
    /// What it says.
    pub value: T,
    /// Its key.
    pub key: String,
    /// The collaboration that it belongs to.
    pub session: Option<SessionId>,
    /// How many events it follows from, one after the other.
    pub hops: u8,
}

/// What a subscription gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an event, or a gap")]
pub enum Delivery<T> {
    /// The next event.
    Event(Event<T>),
    /// So many events were lost here, because this subscriber or its link was too slow.
    Lagged(u64),
}

/// Events of the topics that a pattern covers, from every node that is linked. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription<T> {
    inner: LocalSubscription,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Subscription<T> {
    pub(crate) fn new(inner: LocalSubscription) -> Self {
        Self { inner, value: PhantomData }
    }

    /// The next event or gap; `None` once the node has shut down.
    ///
    /// # Errors
    /// `INVALID_INPUT` if an event's value is of another type; the next ones still come.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Delivery<T>, CallError>> {
        match self.inner.next().await? {
            Delivered::Lagged(count) => Some(Ok(Delivery::Lagged(count))),
            Delivered::Event(event) => {
                let body =
                    Body { bytes: event.body.clone(), content_type: event.envelope.content_type.clone() };
                let value = payload::decode(&body, ErrorCode::InvalidInput);
                Some(value.map_err(CallError::from).map(|value| {
                    Delivery::Event(Event {
                        topic: event.topic.clone(),
                        value,
                        key: event.envelope.idempotency_key.clone().unwrap_or_default(),
                        session: event.envelope.session,
                        hops: event.envelope.hops,
                    })
                }))
            }
        }
    }

    /// Handles each event in turn until the node shuts down. Events that `handle` publishes count as following from the
    /// one it handles, so that agents which answer each other's events come to an end (8 in a row at most).
    ///
    /// # Errors
    /// The first error of `handle`, or of an event whose value is of another type.
    pub async fn for_each<F, Fut, E>(mut self, mut handle: F) -> Result<(), E>
    where
        F: FnMut(Delivery<T>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: From<CallError>,
    {
        while let Some(delivery) = self.next().await {
            let delivery = delivery?;
            match &delivery {
                Delivery::Event(event) => HANDLING.scope(event.hops, handle(delivery)).await?,
                Delivery::Lagged(_) => handle(delivery).await?,
            }
        }
        Ok(())
    }
}
