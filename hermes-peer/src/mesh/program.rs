//! A capability that is a command: JSON on its standard input, JSON or JSON lines on its standard output.
//!
//! Each call starts the program anew, in a process group of its own. One task owns the process from start to end; it
//! ends the whole group when the program has exited, when the time is over, when the call is cancelled, and when nobody
//! wants the output any more: first with SIGTERM, half a second later with SIGKILL. What a program leaves running in its
//! group ends with it; what has left the group (`setsid`) is on its own.

mod child;
mod error;
mod lines;
mod output;

use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::Trace;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::error::ProgramError;
pub(crate) use self::lines::ProgramLines;

use self::child::Running;
use self::child::Sink;

/// Longest output, and longest line of a streamed one, in bytes: the longest message that a node takes by default.
const MAX_OUTPUT: usize = 64 * 1024 * 1024;
/// A command that serves a capability.
///
/// The program inherits the node's environment, and gets `HERMES_CAPABILITY`, `HERMES_CALLER`, `HERMES_SESSION` (of a
/// call in a session), `HERMES_TIME_LEFT_MS` and, of a call that is traced, `TRACEPARENT` and `TRACESTATE` (W3C).
#[derive(Clone, Debug)]
pub struct Program {
    info: CapabilityInfo,
    command: Vec<OsString>,
    dir: Option<PathBuf>,
    timeout: Option<Duration>,
    memory: Option<u64>,
    env: Vec<(OsString, OsString)>,
    max_output: usize,
}

/// What one call tells the program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCall {
    /// The agent that calls.
    pub(crate) caller: AgentUri,
    /// The session that the call belongs to.
    pub(crate) session: Option<SessionId>,
    /// The trace that the call belongs to.
    pub(crate) trace: Option<Trace>,
    /// What is left of the call's deadline.
    pub(crate) time_left: Option<Duration>,
    /// Cancelled when nobody wants the answer any more.
    pub(crate) cancelled: CancellationToken,
}

/// What a program answers.
#[derive(Debug)]
pub(crate) enum ProgramOutput {
    /// One JSON value.
    Value(Bytes),
    /// JSON values, one a line, as they are printed.
    Lines(ProgramLines),
}

impl Program {
    /// A command that serves the capability described; it streams if the description says so.
    ///
    /// # Errors
    /// [`ProgramError::NoCommand`] if the command is empty.
    pub fn new<I>(info: CapabilityInfo, command: I) -> Result<Self, ProgramError>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        let command: Vec<OsString> = command.into_iter().map(Into::into).collect();
        if command.first().is_none_or(|program| program.is_empty()) {
            return Err(ProgramError::NoCommand);
        }
        let env = Vec::new();
        Ok(Self { info, command, dir: None, timeout: None, memory: None, env, max_output: MAX_OUTPUT })
    }

    /// Runs it in this folder. A program named with a relative path is found from there. Default: the node's own folder.
    #[must_use]
    pub fn dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { dir: Some(dir.into()), ..self }
    }

    /// Ends it after this time, if the call's own deadline does not come first. Default: the call's deadline alone.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Limits the address space of each of its processes to this many bytes, rounded down to KiB (`ulimit -v`, so that
    /// the limit holds before the program begins). Runtimes that reserve much more than they use (Node.js, Java, Go)
    /// need a generous one. Default: none.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Sets a variable of its environment, beside those that it inherits.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Refuses an output, or a line of a streamed one, of more than this many bytes. Default: 64 MiB.
    #[must_use]
    pub fn max_output(self, bytes: usize) -> Self {
        Self { max_output: bytes, ..self }
    }

    /// How the capability describes itself.
    pub fn info(&self) -> &CapabilityInfo {
        &self.info
    }

    /// Finds the program, as a start should before the capability is advertised. A relative path counts from the folder
    /// that it runs in; a bare name is looked up in `PATH`.
    ///
    /// # Errors
    /// [`ProgramError::NotFound`], [`ProgramError::NotExecutable`], or [`ProgramError::NoMemoryLimit`] where the system
    /// cannot limit memory.
    pub fn check(&self) -> Result<PathBuf, ProgramError> {
        if self.memory.is_some() && !cfg!(unix) {
            return Err(ProgramError::NoMemoryLimit);
        }
        let program = Path::new(&self.command[0]);
        if program.components().count() > 1 || program.is_absolute() {
            let dir = self.dir.as_deref().unwrap_or_else(|| Path::new(""));
            let path = std::path::absolute(dir.join(program)).unwrap_or_else(|_| program.to_owned());
            return executable(&path).map(|()| path);
        }
        self.look_up(program)
    }

    fn look_up(&self, program: &Path) -> Result<PathBuf, ProgramError> {
        let own = self.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let mut refused = ProgramError::NotFound { program: program.to_owned() };
        for folder in std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()) {
            let candidate = folder.join(program).with_extension_of_system();
            match executable(&candidate) {
                Ok(()) => return Ok(candidate),
                Err(error @ ProgramError::NotExecutable { .. }) => refused = error,
                Err(_) => {}
            }
        }
        Err(refused)
    }

    /// Runs the program for one call. A value is there when the program has exited well; a stream begins at once.
    /// Dropping the future or the stream ends the program.
    ///
    /// # Errors
    /// [`ProgramError`] if it does not start, exits with another status than 0, prints what is not asked for, or is
    /// ended.
    pub(crate) async fn run(&self, input: Bytes, call: ProgramCall) -> Result<ProgramOutput, ProgramError> {
        let limit = [self.timeout, call.time_left].into_iter().flatten().min();
        let mut command = self.command(&self.check()?);
        self.describe(&mut command, &call, limit);
        let running = Running::start(command, self.info.name.clone(), self.max_output)?;
        let deadline = limit.map(|limit| (Instant::now() + limit, limit));
        if self.info.streams {
            let (sender, lines) = ProgramLines::channel();
            tokio::spawn(running.supervise(input, Sink::Lines(sender), deadline, call.cancelled));
            return Ok(ProgramOutput::Lines(lines));
        }
        let (sender, value) = oneshot::channel();
        tokio::spawn(running.supervise(input, Sink::Value(sender), deadline, call.cancelled));
        value.await.unwrap_or(Err(ProgramError::Abandoned)).map(ProgramOutput::Value)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = match self.memory {
            Some(bytes) => {
                let mut shell = Command::new("/bin/sh");
                // The limit is set by the shell, which then becomes the program: no moment without it.
                let script = format!("ulimit -v {} || exit 126; exec \"$@\"", bytes / 1024);
                shell.args([OsStr::new("-c"), script.as_ref(), "sh".as_ref(), program.as_os_str()]);
                shell
            }
            None => Command::new(program),
        };
        command.args(&self.command[1..]);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    fn describe(&self, command: &mut Command, call: &ProgramCall, limit: Option<Duration>) {
        let time_left = limit.map(|limit| limit.as_millis().to_string());
        let parent = call.trace.as_ref().map(traceparent);
        let state = call.trace.as_ref().map(|trace| trace.state.clone()).filter(|state| is_printable(state));
        let session = call.session.map(|session| session.to_string());
        for (name, value) in [
            ("HERMES_CAPABILITY", Some(self.info.name.to_string())),
            ("HERMES_CALLER", Some(call.caller.to_string())),
            ("HERMES_SESSION", session),
            ("HERMES_TIME_LEFT_MS", time_left),
            ("TRACEPARENT", parent),
            ("TRACESTATE", state),
        ] {
            // What the node itself was started with is not this call's.
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
    }
}

/// The W3C spelling.
fn traceparent(trace: &Trace) -> String {
    let trace_id = u128::from_be_bytes(trace.trace_id);
    let parent_id = u64::from_be_bytes(trace.parent_id);
    format!("00-{trace_id:032x}-{parent_id:016x}-{:02x}", trace.flags)
}

/// A remote text that can stand in an environment.
fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<(), ProgramError> {
    use std::os::unix::fs::PermissionsExt;

    let refused = || ProgramError::NotExecutable { program: path.to_owned() };
    let found = std::fs::metadata(path).map_err(|_| ProgramError::NotFound { program: path.to_owned() })?;
    if found.is_file() && found.permissions().mode() & 0o111 != 0 { Ok(()) } else { Err(refused()) }
}

#[cfg(not(unix))]
fn executable(path: &Path) -> Result<(), ProgramError> {
    if path.is_file() { Ok(()) } else { Err(ProgramError::NotFound { program: path.to_owned() }) }
}

trait WithExtension {
    /// The path as the system names programs: `.exe` where a name has no extension of its own.
    fn with_extension_of_system(self) -> Self;
}

impl WithExtension for PathBuf {
    fn with_extension_of_system(mut self) -> Self {
        if self.extension().is_none() && !std::env::consts::EXE_EXTENSION.is_empty() {
            self.set_extension(std::env::consts::EXE_EXTENSION);
        }
        self
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
