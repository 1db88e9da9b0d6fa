//! Why a program gave no answer.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use hermes_peer_proto::wire::ErrorCode;

/// Why a program was not started, or gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is nothing to run.
    #[error("the command is empty: name the program to run")]
    NoCommand,
    /// There is no such file.
    #[error("program `{}` is not found", program.display())]
    NotFound {
        /// As it was looked for.
        program: PathBuf,
    },
    /// The file cannot be run.
    #[error("`{}` is no executable file: try `chmod +x`", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// Memory cannot be limited on this system.
    #[error("a program's memory cannot be limited on this system: leave out the memory limit")]
    NoMemoryLimit,
    /// The system did not start it.
    #[error("the program could not be started")]
    Start(#[source] io::Error),
    /// Its output could not be read.
    #[error("the program's output could not be read")]
    Read(#[source] io::Error),
    /// It exited with another status than 0, or was ended by a signal.
    #[error("the program ended with {status}")]
    Failed {
        /// `exit status 3` or `signal 9`.
        status: String,
    },
    /// It printed too much.
    #[error("the program printed more than {limit} bytes{}", if *.line { " in a line" } else { "" })]
    TooLarge {
        /// How many are allowed.
        limit: usize,
        /// Whether the limit is that of one line.
        line: bool,
    },
    /// It printed something else than JSON.
    #[error("line {line} of the program's output is no JSON value: {reason}")]
    NotJson {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It exited well and printed nothing.
    #[error("the program printed nothing: a result is one JSON value, `null` if there is nothing to say")]
    Nothing,
    /// Its time was over.
    #[error("the program was ended after {} ms", after.as_millis())]
    Deadline {
        /// The time that it had.
        after: Duration,
    },
    /// Nobody wanted the answer any more.
    #[error("the program was ended because the call was cancelled")]
    Cancelled,
    /// The node stopped while it ran.
    #[error("the program was ended because the node is stopping")]
    Abandoned,
}

impl ProgramError {
    /// The code that the caller sees.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoCommand | Self::NotFound { .. } | Self::NotExecutable { .. } | Self::NoMemoryLimit => {
                ErrorCode::HandlerFailed
            }
            // No process, no descriptor, no memory: that passes, and another node may have them.
            Self::Start(_) => ErrorCode::Unavailable,
            Self::Read(_) | Self::Failed { .. } => ErrorCode::HandlerFailed,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::NotJson { .. } | Self::Nothing => ErrorCode::InvalidOutput,
            Self::Deadline { .. } => ErrorCode::DeadlineExceeded,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Abandoned => ErrorCode::Unavailable,
        }
    }

    /// What the caller is told: the same without the provider's paths.
    pub fn public_message(&self) -> String {
        match self {
            Self::NotFound { .. } | Self::NotExecutable { .. } => "the program could not be started".into(),
            other => other.to_string(),
        }
    }

    pub(super) fn failed(status: ExitStatus) -> Self {
        Self::Failed { status: spell(status) }
    }
}

#[cfg(unix)]
fn spell(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(not(unix))]
fn spell(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"))
}
