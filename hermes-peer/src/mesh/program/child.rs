//! One running program, from its start to its end.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_peer_proto::wire::CapabilityName;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio::process::ChildStdout;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio::time::sleep_until;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::ProgramError;
use super::lines::Line;
use super::output::Pipe;
use super::output::one_value;

/// From SIGTERM to SIGKILL: enough to write a file, too short to be noticed by who cancelled.
const GRACE: Duration = Duration::from_millis(500);

/// Who gets the output.
pub(super) enum Sink {
    Value(oneshot::Sender<Result<Bytes, ProgramError>>),
    Lines(mpsc::Sender<Line>),
}

impl Sink {
    /// Done when nobody wants the output any more.
    async fn unwanted(&mut self) {
        match self {
            Self::Value(sender) => sender.closed().await,
            Self::Lines(sender) => sender.closed().await,
        }
    }

    async fn end(self, result: Result<Bytes, ProgramError>) {
        // Nobody to tell if they have gone: the program has ended all the same.
        match self {
            Self::Value(sender) => {
                let _ = sender.send(result);
            }
            Self::Lines(sender) => {
                let _ = sender.send(Line::End(result.map(drop))).await;
            }
        }
    }
}

/// A started program.
pub(super) struct Running {
    child: Child,
    group: Group,
    capability: CapabilityName,
    max_output: usize,
    exited: CancellationToken,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Running {
    pub(super) fn start(
        mut command: Command,
        capability: CapabilityName,
        max_output: usize,
    ) -> Result<Self, ProgramError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(ProgramError::Start)?;
        let group = Group::of(&child);
        let exited = CancellationToken::new();
        let said = Arc::default();
        Ok(Self { child, group, capability, max_output, exited, said })
    }

    /// Feeds the program, reads it, waits for it or ends it, and tells the end to `sink`.
    pub(super) async fn supervise(
        mut self,
        input: Bytes,
        mut sink: Sink,
        deadline: Option<(Instant, Duration)>,
        cancelled: CancellationToken,
    ) {
        let pid = self.child.id().unwrap_or_default();
        let log = self.child.stderr.take().map(|pipe| {
            let pipe = Pipe::new(pipe, self.exited.clone());
            tokio::spawn(pipe.log(self.capability.clone(), pid, self.said.clone()))
        });
        let lines = match &sink {
            Sink::Value(_) => None,
            Sink::Lines(sender) => Some(sender.clone()),
        };
        let result = tokio::select! {
            biased;
            result = self.work(input, lines) => result,
            () = cancelled.cancelled() => Err(ProgramError::Cancelled),
            () = sink.unwanted() => Err(ProgramError::Cancelled),
            after = over(deadline) => Err(ProgramError::Deadline { after }),
        };
        self.end().await;
        if let Some(log) = log {
            // Ends by itself soon after the program; what a failed program said last is then known.
            let _ = log.await;
        }
        if let Err(error @ ProgramError::Failed { .. }) = &result {
            let said = self.said.lock();
            let said = String::from_utf8_lossy(&said);
            tracing::warn!(capability = %self.capability, pid, said_last = said.trim_end(), "{error}");
        }
        sink.end(result).await;
    }

    /// The whole of a run that is not interrupted.
    async fn work(&mut self, input: Bytes, lines: Option<mpsc::Sender<Line>>) -> Result<Bytes, ProgramError> {
        let is_value = lines.is_none();
        let stdin = self.child.stdin.take();
        let stdout = self.child.stdout.take().expect("the program was started with a pipe for its output");
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read its input: that it went away is no fault.
                let _ = stdin.write_all(&input).await;
            }
        };
        let read = read(Pipe::new(stdout, self.exited.clone()), lines, self.max_output);
        tokio::pin!(feed, read);
        let (mut fed, mut output) = (false, None);
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status.map_err(ProgramError::Read)?,
                () = &mut feed, if !fed => fed = true,
                result = &mut read, if output.is_none() => output = Some(result?),
            }
        };
        self.group.kill();
        self.exited.cancel();
        // What was printed before a failure is passed on before the failure is told.
        let output = match output {
            Some(output) => output,
            None => read.await?,
        };
        match status.success() {
            false => Err(ProgramError::failed(status)),
            true if is_value => one_value(&output),
            true => Ok(output),
        }
    }

    /// Ends what is left of the program and its group.
    async fn end(&mut self) {
        if !self.exited.is_cancelled() {
            self.group.ask();
            if timeout(GRACE, self.child.wait()).await.is_err() {
                let _ = self.child.start_kill();
                let _ = self.child.wait().await;
            }
            self.group.kill();
            self.exited.cancel();
        }
        self.group.is_over();
    }
}

async fn read(
    stdout: Pipe<ChildStdout>,
    lines: Option<mpsc::Sender<Line>>,
    limit: usize,
) -> Result<Bytes, ProgramError> {
    match lines {
        None => stdout.all(limit).await,
        Some(lines) => stdout.lines(limit, &lines).await.map(|()| Bytes::new()),
    }
}

async fn over(deadline: Option<(Instant, Duration)>) -> Duration {
    match deadline {
        Some((at, after)) => {
            sleep_until(at).await;
            after
        }
        None => std::future::pending().await,
    }
}

/// The program's process group. Dropped before it is over (the runtime stops), it is killed.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self { leader: pid.and_then(rustix::process::Pid::from_raw) }
    }

    fn ask(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// From here on the number may be another's.
    fn is_over(&mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // Fails only if nobody is left in the group.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_: &Child) -> Self {
        Self {}
    }

    fn ask(&self) {}

    fn kill(&self) {}

    fn is_over(&mut self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
