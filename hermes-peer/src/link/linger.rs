//! The end of a connection that this side closes: it stays until the peer has closed too, for a while.
//!
//! A socket that is closed while something unread has arrived answers with a reset, and a reset takes what this side said
//! last with it: answers, and the word that calls on their way were not taken. So the rest is read and thrown away.

use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

/// How long the peer has to read the last words and close: several round trips around the world, and less than the second
/// that a shutdown waits for its connections.
const PATIENCE: Duration = Duration::from_millis(700);
/// Read at once of what nobody wants.
const READ_SIZE: usize = 16 * 1024;
/// Reads until others get a turn.
const ROUNDS: usize = 16;

/// Waits for the peer's end.
pub(super) struct Linger(Pin<Box<Sleep>>);

impl Linger {
    pub(super) fn new() -> Self {
        Self(Box::pin(tokio::time::sleep(PATIENCE)))
    }

    /// Ready when the peer has closed, or has had its time.
    pub(super) fn poll(
        &mut self,
        connection: &mut (impl AsyncRead + Unpin),
        scratch: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.0.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        for _ in 0..ROUNDS {
            scratch.clear();
            scratch.reserve(READ_SIZE);
            match poll_read_buf(Pin::new(connection), cx, scratch) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_peers_end_or_when_its_time_is_over() {
        for closes in [true, false] {
            let (mut near, mut far) = tokio::io::duplex(64 * 1024);
            let started = Instant::now();
            let peer = tokio::spawn(async move {
                tokio::time::sleep(PATIENCE / 2).await;
                far.write_all(&[0; 1000]).await.unwrap();
                (!closes).then_some(far)
            });
            let (mut linger, mut scratch) = (Linger::new(), BytesMut::new());
            poll_fn(|cx| linger.poll(&mut near, &mut scratch, cx)).await;
            let expected = if closes { PATIENCE / 2 } else { PATIENCE };
            assert_eq!(started.elapsed().as_millis() / 10, expected.as_millis() / 10);
            drop(peer.await);
        }
    }
}
