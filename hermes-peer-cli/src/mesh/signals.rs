//! What the terminal and the system tell the process to do.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::time::Duration;

use hermes_peer::Node;
use tokio::sync::oneshot;

use crate::exit::Exit;
use crate::exit::Failure;

/// What an interrupted verb has for its goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// An interrupted verb that has not ended by then waits for a reader of stdout that does not read.
const STUCK: Duration = Duration::from_millis(500);

/// A word from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// End.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// Hears what the process is told. From the first one on, none ends it by itself any more.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Stops on SIGINT and SIGTERM; a hangup stays what it is.
    pub(super) fn listen() -> Result<Self, Failure> {
        Self::new(false).map_err(refused)
    }

    /// Also hears a hangup, as a wish to reload.
    pub(super) fn with_reload() -> Result<Self, Failure> {
        Self::new(true).map_err(refused)
    }

    #[cfg(unix)]
    fn new(with_reload: bool) -> io::Result<Self> {
        use tokio::signal::unix::SignalKind;
        use tokio::signal::unix::signal;
        let hangup = if with_reload { Some(signal(SignalKind::hangup())?) } else { None };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    #[cfg(not(unix))]
    fn new(_: bool) -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next word.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> Word {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Word::Stop,
            _ = self.terminate.recv() => Word::Stop,
            _ = hangup => Word::Reload,
        }
    }

    /// The next word.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> Word {
        if tokio::signal::ctrl_c().await.is_err() {
            // It cannot be heard: then it ends the process, as it does by itself.
            std::future::pending::<()>().await;
        }
        Word::Stop
    }

    /// The next word that says to end.
    pub(super) async fn stop(&mut self) {
        while self.next().await != Word::Stop {}
    }
}

fn refused(error: io::Error) -> Failure {
    Failure::Told { exit: Exit::Other, message: format!("signals cannot be heard: {error}") }
}

/// Works until it is done or interrupted, and shuts the command's node down, so that the others hear of both. Whoever
/// interrupts it twice ends the process.
pub(super) async fn interruptible(
    node: Node,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let (told, interrupted) = oneshot::channel::<Infallible>();
    let watched = node.clone();
    tokio::spawn(async move {
        signals.stop().await;
        drop(told);
        // The other thread may be stuck in a write to a terminal or a pipe that nobody reads; the calls end all the same.
        let goodbye = async {
            tokio::time::sleep(STUCK).await;
            watched.shutdown().await;
        };
        tokio::select! {
            _ = tokio::time::timeout(GOODBYE, goodbye) => {}
            () = signals.stop() => {}
        }
        std::process::exit(Exit::Interrupted.code().into());
    });
    let result = tokio::select! {
        biased;
        result = work => result,
        _ = interrupted => Err(Failure::Interrupted),
    };
    node.shutdown().await;
    result
}
