//! One stream as the floors above hold it.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;

use hermes_peer_proto::protocol::Outgoing;
use hermes_peer_proto::protocol::Read;
use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Side;
use hermes_peer_proto::wire::StreamId;

use super::LinkHandle;

/// Why a stream ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamLost {
    /// The peer never took it up.
    NotTaken,
    /// The link is over.
    LinkEnded {
        /// Whether the peer may have run the request.
        may_have_run: bool,
        /// Why, for people.
        why: String,
    },
}

/// A stream. Dropping it before its end cancels it, on whichever side.
pub(crate) struct StreamHandle {
    link: LinkHandle,
    id: StreamId,
    is_over: AtomicBool,
}

impl StreamHandle {
    pub(super) fn new(link: LinkHandle, id: StreamId) -> Self {
        Self { link, id, is_over: AtomicBool::new(false) }
    }

    /// A stream that the peer opened.
    pub(crate) fn of_peer(link: LinkHandle, id: StreamId) -> Self {
        Self::new(link, id)
    }

    pub(crate) fn link(&self) -> &LinkHandle {
        &self.link
    }

    /// Queues a message, waiting while too much waits already.
    pub(crate) async fn send(
        &self,
        message_type: MessageType,
        message: Outgoing,
        fin: bool,
    ) -> Result<(), SendRefused> {
        let mut message = Some(message);
        poll_fn(|cx| {
            self.poll_ready(cx).map(|ready| match (ready, message.take()) {
                (Ok(()), Some(message)) => self.try_send(message_type, message, fin),
                (Ok(()), None) | (Err(_), _) => Err(SendRefused::Ended),
            })
        })
        .await
    }

    /// Queues a message now.
    pub(crate) fn try_send(
        &self,
        message_type: MessageType,
        message: Outgoing,
        fin: bool,
    ) -> Result<(), SendRefused> {
        self.link.command(|core| core.link.send(self.id, message_type, message, fin))
    }

    /// Ready when a message would be taken.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<Result<(), SendRefused>> {
        let mut core = self.link.lock();
        match core.link.is_writable(self.id) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(SendRefused::Full) => {
                core.writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// The next message, `None` at the end.
    pub(crate) fn poll_read(&self, cx: &Context<'_>) -> Poll<Result<Option<Received>, StreamLost>> {
        let (read, driver) = {
            let mut core = self.link.lock();
            let read = core.link.read(self.id);
            let read = match read {
                Read::Message(received) => Poll::Ready(Ok(Some(received))),
                Read::End => {
                    core.readers.remove(&self.id);
                    Poll::Ready(core.lost.remove(&self.id).map_or(Ok(None), Err))
                }
                Read::Pending => {
                    core.readers.insert(self.id, cx.waker().clone());
                    Poll::Pending
                }
            };
            // Reading gives back window; the peer is told with the next write, or now if it is much.
            let driver = if core.is_driving || !core.link.has_output() { None } else { core.driver.take() };
            (read, driver)
        };
        driver.into_iter().for_each(std::task::Waker::wake);
        read
    }

    pub(crate) async fn read(&self) -> Result<Option<Received>, StreamLost> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Ends this side's half without another message.
    pub(crate) fn finish(&self) {
        self.link.command(|core| core.link.finish(self.id));
    }

    /// Gives the stream up.
    pub(crate) fn cancel(&self, code: ErrorCode) {
        self.is_over.store(true, Ordering::Relaxed);
        self.link.command(|core| {
            core.readers.remove(&self.id);
            core.writers.remove(&self.id);
            core.lost.remove(&self.id);
            core.link.cancel(self.id, code);
        });
    }

    /// Whether a request that the peer made has been cancelled, or its stream is over otherwise.
    pub(crate) fn watch_cancel(&self, watch: impl FnOnce(ErrorCode) + Send + 'static) {
        let mut core = self.link.lock();
        if core.ended.is_some() || core.link.is_writable(self.id) == Err(SendRefused::Ended) {
            drop(core);
            watch(ErrorCode::Cancelled);
        } else {
            core.cancels.insert(self.id, Box::new(watch));
        }
    }

    /// The answer was sent, or the end was read: dropping the handle does nothing more.
    pub(crate) fn conclude(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.link.lock().forget(self.id);
    }
}

impl super::Core {
    fn forget(&mut self, stream: StreamId) {
        self.cancels.remove(&stream);
        self.readers.remove(&stream);
        self.writers.remove(&stream);
        self.lost.remove(&stream);
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.link.command(|core| {
            core.forget(self.id);
            let is_own = self.id.opener() == Some(core.link.side());
            if is_own {
                core.link.cancel(self.id, ErrorCode::Cancelled);
            } else {
                core.link.fail(self.id, ErrorCode::Internal, "the handler left without an answer");
            }
        });
    }
}

impl fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opener = match self.id.opener() {
            Some(Side::Initiator) => "initiator",
            _ => "acceptor",
        };
        f.debug_struct("StreamHandle").field("id", &self.id).field("opener", &opener).finish_non_exhaustive()
    }
}
