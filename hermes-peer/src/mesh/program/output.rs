//! What a program prints, read within bounds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;
use hermes_peer_proto::wire::CapabilityName;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::error::ProgramError;
use super::lines::Line;

/// How long a pipe is read after the program has exited. What it printed is there at once; only a process that has left
/// the group can hold the pipe open, and nobody waits for that one.
const DRAIN: Duration = Duration::from_millis(500);
/// Bytes read at once: a pipe's capacity on Linux.
const READ: usize = 64 * 1024;
/// Longest line of standard error that is logged, in bytes; the rest of it is left out.
const MAX_LOG_LINE: usize = 4 * 1024;
/// Lines of standard error that are logged per call. What a caller can make a program print must not fill the log.
const MAX_LOG_LINES: usize = 1_000;
/// Bytes of standard error that are kept to explain a failure.
const MAX_TAIL: usize = 1024;

/// One of the program's pipes. At its end when the program closes it, or soon after the program has exited.
pub(super) struct Pipe<R> {
    pipe: R,
    exited: CancellationToken,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    pub(super) fn new(pipe: R, exited: CancellationToken) -> Self {
        Self { pipe, exited }
    }

    async fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, ProgramError> {
        buffer.reserve(READ);
        let held_open = async {
            self.exited.cancelled().await;
            sleep(DRAIN).await;
        };
        tokio::select! {
            biased;
            got = self.pipe.read_buf(buffer) => got.map_err(ProgramError::Read),
            () = held_open => Ok(0),
        }
    }

    /// Reads all of it.
    pub(super) async fn all(mut self, limit: usize) -> Result<Bytes, ProgramError> {
        let mut buffer = BytesMut::new();
        while self.read(&mut buffer).await? > 0 {
            if buffer.len() > limit {
                return Err(ProgramError::TooLarge { limit, line: false });
            }
        }
        Ok(buffer.freeze())
    }

    /// Passes on each line as a JSON value; blank ones are passed over.
    pub(super) async fn lines(
        mut self,
        limit: usize,
        lines: &mpsc::Sender<Line>,
    ) -> Result<(), ProgramError> {
        let mut buffer = BytesMut::new();
        // Where to look for the end of the line: before it, there is none.
        let mut seen = 0;
        let mut number = 1;
        loop {
            let end = buffer[seen..].iter().position(|byte| *byte == b'\n').map(|at| seen + at);
            if end.unwrap_or(buffer.len()) > limit {
                return Err(ProgramError::TooLarge { limit, line: true });
            }
            if let Some(end) = end {
                pass_on(&buffer[..end], number, lines).await?;
                buffer.advance(end + 1);
                (seen, number) = (0, number + 1);
                continue;
            }
            seen = buffer.len();
            if self.read(&mut buffer).await? == 0 {
                return pass_on(&buffer, number, lines).await;
            }
        }
    }

    /// Logs each line as it comes, and keeps the last of them in `tail`.
    pub(super) async fn log(mut self, capability: CapabilityName, pid: u32, tail: Arc<Mutex<Vec<u8>>>) {
        let mut buffer = BytesMut::new();
        let mut line = Vec::new();
        let mut count = 0;
        while let Ok(1..) = self.read(&mut buffer).await {
            keep_last(&mut tail.lock(), &buffer);
            for byte in buffer.split() {
                if byte == b'\n' {
                    log_line(&capability, pid, &std::mem::take(&mut line), &mut count);
                } else if line.len() < MAX_LOG_LINE {
                    line.push(byte);
                }
            }
        }
        log_line(&capability, pid, &line, &mut count);
        if count > MAX_LOG_LINES {
            let left_out = count - MAX_LOG_LINES;
            tracing::info!(%capability, pid, left_out, "the program said more than is logged");
        }
    }
}

/// The output as one JSON value.
pub(super) fn one_value(output: &[u8]) -> Result<Bytes, ProgramError> {
    json(output, |error| error.line())?.ok_or(ProgramError::Nothing)
}

async fn pass_on(line: &[u8], number: usize, lines: &mpsc::Sender<Line>) -> Result<(), ProgramError> {
    match json(line, |_| number)? {
        Some(value) => lines.send(Line::Value(value)).await.map_err(|_| ProgramError::Cancelled),
        None => Ok(()),
    }
}

/// The JSON value in `text`, if there is anything, in memory of its own: who keeps it keeps no more.
fn json(text: &[u8], line: impl FnOnce(&serde_json::Error) -> usize) -> Result<Option<Bytes>, ProgramError> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice::<IgnoredAny>(text) {
        Ok(_) => Ok(Some(Bytes::copy_from_slice(text))),
        Err(error) => Err(ProgramError::NotJson { line: line(&error), reason: error.to_string() }),
    }
}

fn log_line(capability: &CapabilityName, pid: u32, line: &[u8], count: &mut usize) {
    if line.is_empty() {
        return;
    }
    *count += 1;
    if *count <= MAX_LOG_LINES {
        tracing::info!(%capability, pid, "{}", String::from_utf8_lossy(line).trim_end());
    }
}

fn keep_last(tail: &mut Vec<u8>, more: &[u8]) {
    tail.extend_from_slice(&more[more.len().saturating_sub(MAX_TAIL)..]);
    tail.drain(..tail.len().saturating_sub(MAX_TAIL));
}
