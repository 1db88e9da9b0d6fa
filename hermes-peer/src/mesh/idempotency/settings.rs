//! How many keys are remembered, and what is said to a call that cannot run.

use std::time::Duration;

use hermes_peer_proto::wire::ErrorCode;

/// How many keys are remembered, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct IdempotencySettings {
    /// How long a reply is kept. 10 minutes by default: longer than any sensible retrying.
    pub keep_for: Duration,
    /// Keys, running and answered. 10,000 by default, some 10 MiB at most without the replies.
    pub max_keys: usize,
    /// Bytes of all replies together. 64 MiB by default, which is also the longest message.
    pub max_bytes: usize,
}

impl Default for IdempotencySettings {
    fn default() -> Self {
        Self { keep_for: Duration::from_secs(600), max_keys: 10_000, max_bytes: 64 * 1024 * 1024 }
    }
}

/// Why a call with a key was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum KeyRefused {
    /// The key came before, with another body.
    #[error("the idempotency key was used with a different input: take a new key for a new call")]
    OtherInput,
    /// The call came before, and how it ended is not known.
    #[error("the call with this idempotency key has begun before, and its result is not known")]
    OutcomeUnknown,
    /// All keys that can be remembered are those of running calls.
    #[error("{limit} calls with an idempotency key are running, and no more are allowed")]
    Overloaded {
        /// How many are allowed.
        limit: usize,
    },
}

impl KeyRefused {
    /// The code that the caller sees.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::OtherInput => ErrorCode::InvalidInput,
            Self::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            Self::Overloaded { .. } => ErrorCode::Overloaded,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct IdempotencyCounters {
    /// Repeats that got a kept reply.
    pub hits: u64,
    /// Repeats that came while the first was running.
    pub waits: u64,
    /// Calls that ran.
    pub misses: u64,
    /// Repeats with another body.
    pub conflicts: u64,
    /// Repeats whose outcome was not known.
    pub unknown: u64,
    /// Replies or keys given up before their time because a limit was reached.
    pub evictions: u64,
}
