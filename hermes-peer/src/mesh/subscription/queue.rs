//! The events that wait for one subscriber.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use bytes::Bytes;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Topic;
use parking_lot::Mutex;

/// What an event takes beside its body, as it is counted: an envelope of usual size.
const EVENT_OVERHEAD: usize = 512;

/// A published message.
#[derive(Debug)]
pub(crate) struct Event {
    /// What it is about.
    pub(crate) topic: Topic,
    /// What came with it.
    pub(crate) envelope: Envelope,
    /// What it says.
    pub(crate) body: Bytes,
}

impl Event {
    fn bytes(&self) -> usize {
        self.body.len() + EVENT_OVERHEAD
    }
}

/// What a subscriber gets.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// An event.
    Event(Arc<Event>),
    /// So many events were lost at this place.
    Lagged(u64),
}

/// A bounded queue from many publishers to one subscriber. Pushing never waits: what does not fit is counted, and the
/// count is delivered at the place of the gap.
#[derive(Debug)]
pub(crate) struct EventQueue {
    max_events: usize,
    max_bytes: usize,
    inner: Mutex<Inner>,
}

/// Between two gaps lies an event, so that there is at most one gap more than events.
#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Delivery>,
    events: usize,
    bytes: usize,
    lost: u64,
    waker: Option<Waker>,
    closed: bool,
}

impl EventQueue {
    pub(super) fn new(max_events: usize, max_bytes: usize) -> Self {
        Self { max_events, max_bytes, inner: Mutex::default() }
    }

    /// Adds an event, or counts it as lost. An empty queue takes an event of any size.
    pub(crate) fn push(&self, event: Arc<Event>) {
        let mut inner = self.inner.lock();
        if inner.closed {
            return;
        }
        let bytes = event.bytes();
        let fits = inner.events < self.max_events && inner.bytes + bytes <= self.max_bytes;
        if inner.events == 0 || fits {
            inner.events += 1;
            inner.bytes += bytes;
            inner.waiting.push_back(Delivery::Event(event));
        } else {
            inner.add_lag(1);
        }
        inner.wake();
    }

    /// Tells of events that were lost on their way here.
    pub(crate) fn push_lag(&self, count: u64) {
        let mut inner = self.inner.lock();
        if count > 0 && !inner.closed {
            inner.add_lag(count);
            inner.wake();
        }
    }

    /// How many events were lost, here or on their way.
    pub(crate) fn lost(&self) -> u64 {
        self.inner.lock().lost
    }

    /// The next event or gap; `None` when the queue is empty and closed.
    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Delivery>> {
        let mut inner = self.inner.lock();
        match inner.waiting.pop_front() {
            Some(next) => {
                if let Delivery::Event(event) = &next {
                    inner.events -= 1;
                    inner.bytes -= event.bytes();
                }
                Poll::Ready(Some(next))
            }
            None if inner.closed => Poll::Ready(None),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.wake();
    }
}

impl Inner {
    fn add_lag(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
        match self.waiting.back_mut() {
            Some(Delivery::Lagged(gap)) => *gap = gap.saturating_add(count),
            _ => self.waiting.push_back(Delivery::Lagged(count)),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
