//! The task that moves bytes, time and notices for one connection of a link. It decides nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::task::ready;

use bytes::BytesMut;
use tokio::io::AsyncWrite;
use tokio::time::Instant;
use tokio::time::Sleep;

use hermes_peer_proto::protocol::Notice;
use hermes_peer_proto::protocol::PeerMisbehaved;
use hermes_peer_proto::protocol::limits::MAX_PAYLOAD;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::StreamId;

use super::drive_end::DriveEnd;
use super::handle::Core;
use super::handle::LinkHandle;
use super::handle::Stop;
use super::linger::linger;
use super::stream::StreamLost;
use super::upward::Upward;
use crate::transport::tls::TlsConnection;

/// Bytes asked for in one read: two chunks and their headers, so that a large message needs few reads.
const READ_SIZE: usize = 64 * 1024;
/// Rounds of reading and writing before other tasks get their turn.
const ROUNDS: usize = 32;
/// A write that makes no progress for this long ends the connection.
const WRITE_STALL: std::time::Duration = std::time::Duration::from_secs(10);

/// Drives one connection of a link until it ends. Spawn it.
pub(crate) struct LinkDriver {
    link: LinkHandle,
    generation: u64,
    connection: TlsConnection,
    upward: Arc<dyn Upward>,
    decoder: Decoder,
    input: BytesMut,
    output: Batch,
    needs_flush: bool,
    stalled_since: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
    sleeps_until: Option<Instant>,
    closing: Option<DriveEnd>,
    todo: Vec<Todo>,
}

/// What a notice asks for, done when the link's lock is free.
enum Todo {
    Wake(Waker),
    Cancel(super::handle::CancelWatch, hermes_peer_proto::wire::ErrorCode),
    Tell(Notice),
}

impl LinkDriver {
    pub(super) fn new(
        link: LinkHandle,
        generation: u64,
        connection: TlsConnection,
        upward: Arc<dyn Upward>,
    ) -> Self {
        let version = link.version().unwrap_or_default();
        Self {
            link,
            generation,
            connection,
            upward,
            decoder: Decoder::new(version, MAX_PAYLOAD),
            input: BytesMut::new(),
            output: Batch::default(),
            needs_flush: false,
            stalled_since: None,
            sleep: Box::pin(tokio::time::sleep_until(Instant::now())),
            sleeps_until: None,
            closing: None,
            todo: Vec::new(),
        }
    }

    /// Bytes that were read behind the handshake.
    pub(crate) fn with_input(mut self, input: BytesMut) -> Self {
        self.input = input;
        self
    }

    /// After the end, when all is cleared up: gives the peer time to read what this side said last.
    pub(crate) async fn linger(mut self) {
        linger(&mut self.connection).await;
    }

    fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<DriveEnd> {
        if self.is_superseded() {
            return Poll::Ready(DriveEnd::Superseded);
        }
        // What came with the handshake is here without another read.
        if !self.input.is_empty() && self.closing.is_none() {
            self.handle_input();
        }
        for _ in 0..ROUNDS {
            let read = self.poll_input(cx);
            self.run_todo();
            let wrote = self.poll_output(cx);
            match (read, wrote) {
                (_, Poll::Ready(Err(end))) => {
                    // What the peer said before it went is still there to be read.
                    for _ in 0..ROUNDS {
                        if self.poll_input(cx).is_pending() {
                            break;
                        }
                        self.run_todo();
                    }
                    return Poll::Ready(self.closing.take().unwrap_or(end));
                }
                (Poll::Pending, Poll::Pending) => {
                    if let Some(end) = self.rest(cx) {
                        return end;
                    }
                }
                _ => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_superseded(&self) -> bool {
        self.link.lock().generation != self.generation
    }

    /// Reads once. Ready if something came in.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.closing.is_some() {
            return Poll::Pending;
        }
        self.input.reserve(READ_SIZE);
        let read = tokio_util::io::poll_read_buf(Pin::new(&mut self.connection), cx, &mut self.input);
        match ready!(read) {
            Ok(0) => self.close(DriveEnd::ClosedByPeer),
            Ok(_) => self.handle_input(),
            Err(error) => self.close(DriveEnd::Lost(error)),
        }
        Poll::Ready(())
    }

    fn handle_input(&mut self) {
        let now = Instant::now().into_std();
        let mut core = self.link.0.core.lock();
        if core.generation != self.generation {
            return;
        }
        core.is_driving = true;
        if core.has_dialled || core.link.round_trip().is_some() {
            // Either way both sides have the new secret: the peer speaks on this connection, or has answered on it.
            core.former_secret = None;
        }
        core.link.handle_life(now);
        let outcome = loop {
            match self.decoder.decode(&mut self.input) {
                Ok(Some(frame)) => {
                    if let Err(error) = core.link.handle_frame(now, frame) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        core.sort_notices(&mut self.todo);
        drop(core);
        if let Err(error) = outcome {
            self.misbehaved(error);
        }
    }

    /// Tells the peer what it did wrong, as far as the connection still takes it.
    fn misbehaved(&mut self, error: PeerMisbehaved) {
        if !matches!(error, PeerMisbehaved::Closed(_)) {
            let fault = Fault::new(error.code(), error.to_string());
            let version = self.link.version().unwrap_or_default();
            self.output.push(version, &Frame::control(MessageType::Error, StreamId::LINK, fault.encode()));
        }
        self.close(DriveEnd::Misbehaved(error));
    }

    /// Nothing more is read; what is encoded is still written.
    fn close(&mut self, end: DriveEnd) {
        self.closing.get_or_insert(end);
    }

    fn run_todo(&mut self) {
        for todo in std::mem::take(&mut self.todo) {
            match todo {
                Todo::Wake(waker) => waker.wake(),
                Todo::Cancel(watch, code) => watch(code),
                Todo::Tell(notice) => self.tell(notice),
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        match notice {
            Notice::Request(stream) => self.upward.request(&self.link, stream),
            Notice::Advertised(capabilities) => self.upward.advertised(&self.link, capabilities),
            Notice::Subscribed(interests) => self.upward.subscribed(&self.link, interests),
            Notice::Events => {
                let events: Vec<_> = {
                    let mut core = self.link.lock();
                    std::iter::from_fn(|| core.link.read_event()).collect()
                };
                self.upward.events(&self.link, events);
            }
            Notice::EventsWritable => self.upward.events_writable(&self.link),
            Notice::GoAway(statement) => self.upward.going_away(&self.link, statement),
            Notice::Exhausted => self.upward.exhausted(&self.link),
            Notice::Silent => self.close(DriveEnd::Silent),
            _ => {}
        }
    }

    /// Writes what is ready. Ready if something was written.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DriveEnd>> {
        if self.output.is_empty() && self.closing.is_none() {
            let now = Instant::now().into_std();
            let mut core = self.link.0.core.lock();
            if core.generation != self.generation {
                return Poll::Ready(Err(DriveEnd::Superseded));
            }
            core.is_driving = true;
            match core.stop {
                Some(Stop::Abandon) => return Poll::Ready(Err(DriveEnd::Superseded)),
                Some(Stop::Close) if !core.link.has_output() => {
                    drop(core);
                    self.close(DriveEnd::Closed);
                }
                _ => {
                    core.link.poll_transmit(now, &mut self.output);
                    core.sort_notices(&mut self.todo);
                }
            }
        }
        if self.output.is_empty() {
            return self.poll_flush(cx);
        }
        let written = tokio_util::io::poll_write_buf(Pin::new(&mut self.connection), cx, &mut self.output);
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(DriveEnd::Lost(io::ErrorKind::WriteZero.into()))),
            Poll::Ready(Ok(_)) => {
                self.stalled_since = None;
                self.needs_flush = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(DriveEnd::Lost(error))),
            Poll::Pending => {
                self.stalled_since.get_or_insert_with(Instant::now);
                Poll::Pending
            }
        }
    }

    /// All is written: flush, and if this is the end, close.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DriveEnd>> {
        if self.needs_flush {
            match Pin::new(&mut self.connection).poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.stalled_since = None;
                    self.needs_flush = false;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(DriveEnd::Lost(error))),
                Poll::Pending => {
                    self.stalled_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        let Some(end) = self.closing.take() else { return Poll::Pending };
        match Pin::new(&mut self.connection).poll_shutdown(cx) {
            Poll::Ready(_) => Poll::Ready(Err(end)),
            Poll::Pending => {
                self.closing = Some(end);
                Poll::Pending
            }
        }
    }

    /// Nothing moves: sets the timer and the waker, unless something came up meanwhile.
    fn rest(&mut self, cx: &mut Context<'_>) -> Option<Poll<DriveEnd>> {
        let mut core = self.link.0.core.lock();
        if core.generation != self.generation {
            return Some(Poll::Ready(DriveEnd::Superseded));
        }
        let is_blocked = !self.output.is_empty() || self.needs_flush;
        if self.closing.is_none() && !is_blocked && (core.link.has_output() || core.stop.is_some()) {
            return None;
        }
        core.is_driving = false;
        core.driver = Some(cx.waker().clone());
        let stall = self.stalled_since.map(|since| since + WRITE_STALL);
        let wake = [core.link.poll_timeout().map(Instant::from_std), stall].into_iter().flatten().min();
        drop(core);
        if self.input.is_empty() {
            // A link that rests keeps no buffers.
            self.input = BytesMut::new();
            self.output.shrink();
        }
        self.poll_timer(cx, wake)
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, wake: Option<Instant>) -> Option<Poll<DriveEnd>> {
        let Some(wake) = wake else { return Some(Poll::Pending) };
        // A timer that fires too early costs one look; one that is set anew for every message costs more.
        if self.sleeps_until.is_none_or(|until| wake < until || until <= Instant::now()) {
            self.sleep.as_mut().reset(wake);
            self.sleeps_until = Some(wake);
        }
        if self.sleep.as_mut().poll(cx).is_pending() {
            return Some(Poll::Pending);
        }
        self.sleeps_until = None;
        let now = Instant::now();
        if self.stalled_since.is_some_and(|since| since + WRITE_STALL <= now) {
            return Some(Poll::Ready(DriveEnd::Stalled));
        }
        let mut core = self.link.0.core.lock();
        core.is_driving = true;
        core.link.handle_timeout(now.into_std());
        core.sort_notices(&mut self.todo);
        drop(core);
        self.run_todo();
        None
    }
}

impl Core {
    /// Turns notices into things to do once the lock is free.
    fn sort_notices(&mut self, todo: &mut Vec<Todo>) {
        while let Some(notice) = self.link.poll_notice() {
            match notice {
                Notice::Readable(stream) => todo.extend(self.readers.remove(&stream).map(Todo::Wake)),
                Notice::Writable(stream) => todo.extend(self.writers.remove(&stream).map(Todo::Wake)),
                Notice::Openable => todo.extend(self.openers.drain(..).map(Todo::Wake)),
                Notice::NotTaken(stream) => {
                    self.lost.insert(stream, StreamLost::NotTaken);
                    todo.extend(self.readers.remove(&stream).map(Todo::Wake));
                    todo.extend(self.writers.remove(&stream).map(Todo::Wake));
                }
                Notice::Cancelled(stream, code) => {
                    todo.extend(self.readers.remove(&stream).map(Todo::Wake));
                    todo.extend(self.writers.remove(&stream).map(Todo::Wake));
                    todo.extend(self.cancels.remove(&stream).map(|watch| Todo::Cancel(watch, code)));
                }
                other => todo.push(Todo::Tell(other)),
            }
        }
    }
}

impl Future for LinkDriver {
    type Output = DriveEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DriveEnd> {
        self.get_mut().poll_drive(cx)
    }
}

impl std::fmt::Debug for LinkDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkDriver").field("link", &self.link).finish_non_exhaustive()
    }
}
