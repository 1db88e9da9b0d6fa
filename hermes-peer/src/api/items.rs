//! Streams of typed items, out of a handler and into one.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;

use crate::api::error::Failure;
use crate::api::payload;
use crate::mesh::handler::Body;

/// A handler's result that comes item by item.
///
/// ```
/// # use hermes_peer::{Failure, Items};
/// fn countdown(from: u32) -> Result<Items<u32>, Failure> {
///     Ok(Items::from_iter((0..from).rev()))
/// }
/// ```
pub struct Items<T>(BoxStream<'static, Result<T, Failure>>);

impl<T: Send + 'static> Items<T> {
    /// Items of a stream; the first error ends it and the call.
    pub fn from_stream(items: impl Stream<Item = Result<T, Failure>> + Send + 'static) -> Self {
        Self(items.boxed())
    }

    /// Items that are at hand.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that is not `Send` cannot be collected into this"
    )]
    pub fn from_iter<I>(items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
    {
        Self(futures_util::stream::iter(items.into_iter().map(Ok)).boxed())
    }

    /// Items that another task sends, `capacity` ahead of the caller at most.
    pub fn channel(capacity: usize) -> (ItemSender<T>, Self) {
        let (sender, mut receiver) = mpsc::channel(capacity.max(1));
        let items = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        (ItemSender(sender), Self(items.boxed()))
    }

    pub(crate) fn into_bodies(
        self,
        mut encode: impl FnMut(T) -> Result<Body, Fault> + Send + 'static,
    ) -> BoxStream<'static, Result<Body, Fault>> {
        self.0.map(move |item| encode(item.map_err(Failure::into_fault)?)).boxed()
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Items")
    }
}

/// Sends the items of [`Items::channel`].
#[derive(Debug)]
pub struct ItemSender<T>(mpsc::Sender<Result<T, Failure>>);

impl<T> Clone for ItemSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> ItemSender<T> {
    /// Sends an item, waiting while the caller is behind. False if nobody wants more: the caller has gone.
    ///
    /// # Cancel safety
    /// If the future is dropped the item is not sent.
    pub async fn send(&self, item: T) -> bool {
        self.0.send(Ok(item)).await.is_ok()
    }

    /// Ends the stream and the call with an error.
    pub async fn fail(self, failure: Failure) {
        // Whoever has gone needs no error.
        let _gone = self.0.send(Err(failure)).await;
    }
}

/// A handler's input that comes item by item. It ends when the caller says so.
pub struct Incoming<T> {
    items: BoxStream<'static, Result<Body, Fault>>,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Incoming<T> {
    pub(crate) fn new(items: Option<BoxStream<'static, Result<Body, Fault>>>) -> Self {
        Self { items: items.unwrap_or_else(|| futures_util::stream::empty().boxed()), item: PhantomData }
    }

    /// The next item; `None` after the last. An error is the last thing that comes.
    ///
    /// # Cancel safety
    /// No item is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<T, Failure>> {
        StreamExt::next(self).await
    }
}

impl<T: DeserializeOwned> Stream for Incoming<T> {
    type Item = Result<T, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx).map(|item| {
            item.map(|body| {
                body.and_then(|body| payload::decode(&body, ErrorCode::InvalidInput))
                    .map_err(Failure::of_fault)
            })
        })
    }
}

impl<T> fmt::Debug for Incoming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Incoming")
    }
}
