//! The values of a program that streams, on their way to their reader.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::ProgramError;

/// Lines of a streamed output that wait for their reader. Past them the program's pipe fills and the program waits.
const LINES_AHEAD: usize = 16;

/// The output of a program that streams. Dropped, it ends the program.
#[derive(Debug)]
pub(crate) struct ProgramLines {
    lines: mpsc::Receiver<Line>,
    ended: bool,
}

/// One step of a streamed output.
#[derive(Debug)]
pub(super) enum Line {
    Value(Bytes),
    /// The program is done: it has exited well, or this is why not.
    End(Result<(), ProgramError>),
}

impl ProgramLines {
    pub(super) fn channel() -> (mpsc::Sender<Line>, Self) {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        (sender, Self { lines, ended: false })
    }

    /// The next value; `None` when the program has exited well. An error is the last thing that comes.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, ProgramError>> {
        if self.ended {
            return None;
        }
        let line = self.lines.recv().await.unwrap_or(Line::End(Err(ProgramError::Abandoned)));
        match line {
            Line::Value(value) => Some(Ok(value)),
            Line::End(end) => {
                self.ended = true;
                end.err().map(Err)
            }
        }
    }
}
