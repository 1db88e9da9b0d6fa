//! Fewer system calls below TLS: rustls asks for 4 KiB at a time, however much has arrived.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::pin::pin;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use bytes::Buf as _;
use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

/// Read at once while bytes keep coming: four TLS records, what a fast sender has on its way at any time.
const READ_AHEAD: usize = 64 * 1024;

/// A stream that reads ahead while there is a lot to read, and holds no memory while there is not.
#[derive(Debug)]
pub(crate) struct ReadAhead<S> {
    stream: S,
    /// Read and not yet asked for. Without capacity while little comes.
    buffer: BytesMut,
    /// The last read was filled to the brim: there is probably more.
    more: bool,
}

impl<S> ReadAhead<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new(), more: false }
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.buffer.capacity()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.buffer.is_empty() && !this.more {
            let wanted = out.remaining();
            ready!(Pin::new(&mut this.stream).poll_read(cx, out))?;
            this.more = wanted > 0 && out.remaining() == 0;
            return Poll::Ready(Ok(()));
        }
        if this.buffer.is_empty() {
            this.buffer.reserve(READ_AHEAD);
            let read = pin!(this.stream.read_buf(&mut this.buffer)).poll(cx);
            let Poll::Ready(Ok(count)) = read else {
                this.give_back();
                return read.map_ok(drop);
            };
            if count == 0 {
                this.give_back();
                return Poll::Ready(Ok(()));
            }
        }
        let count = this.buffer.len().min(out.remaining());
        out.put_slice(&this.buffer[..count]);
        this.buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S> ReadAhead<S> {
    fn give_back(&mut self) {
        self.buffer = BytesMut::new();
        self.more = false;
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_flood_is_read_ahead_in_order_and_the_memory_is_given_back() {
        let (mut far, near) = tokio::io::duplex(1024 * 1024);
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        far.write_all(&sent).await.unwrap();
        let mut near = ReadAhead::new(near);
        let mut got = Vec::new();
        let mut piece = [0; 4096];
        let mut held = 0;
        while got.len() < sent.len() {
            let count = near.read(&mut piece).await.unwrap();
            got.extend_from_slice(&piece[..count]);
            held = held.max(near.held());
        }
        assert!(got == sent, "the bytes changed");
        assert!((1..=2 * READ_AHEAD).contains(&held), "{held}");
        let idle = std::future::poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut near).poll_read(cx, &mut ReadBuf::new(&mut piece)).is_pending())
        });
        assert!(idle.await);
        assert_eq!(near.held(), 0);
    }

    #[tokio::test]
    async fn a_little_is_read_without_a_buffer() {
        let (mut far, near) = tokio::io::duplex(1024);
        let mut near = ReadAhead::new(near);
        far.write_all(b"little").await.unwrap();
        let mut piece = [0; 4096];
        assert_eq!((near.read(&mut piece).await.unwrap(), near.held()), (6, 0));
        drop(far);
        assert_eq!(near.read(&mut piece).await.unwrap(), 0);
    }
}
