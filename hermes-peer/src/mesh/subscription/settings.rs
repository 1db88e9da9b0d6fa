//! Limits of events, and what is said when one is reached.

use hermes_peer_proto::wire::ErrorCode;

/// How often an event can lead to another: what answers events with events ends here instead of never.
const MAX_EVENT_HOPS: u8 = 8;

/// Limits of events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct EventSettings {
    /// Events that wait for a subscriber. 1,024 by default, a second's worth of a busy topic; past it, `lagged`.
    pub queue_events: usize,
    /// Bytes that wait for a subscriber. 4 MiB by default; a single longer event still fits into an empty queue.
    pub queue_bytes: usize,
    /// Events that this node publishes on one topic, per second. 10,000 by default; past it, `RATE_LIMITED`.
    pub publish_rate: u32,
    /// Events that it may publish on one topic at once. 20,000 by default: two seconds' worth.
    pub publish_burst: u32,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            queue_events: 1_024,
            queue_bytes: 4 * 1024 * 1024,
            publish_rate: 10_000,
            publish_burst: 20_000,
        }
    }
}

/// Why a subscription was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SubscribeRefused {
    /// There are too many.
    #[error("this node has {limit} {of}, and no more are allowed")]
    TooMany {
        /// How many are allowed.
        limit: usize,
        /// Of what.
        of: &'static str,
    },
    /// A group's name of no or too many bytes.
    #[error("a group's name has 1 to 63 bytes, this one has {length}")]
    GroupName {
        /// Its bytes.
        length: usize,
    },
}

impl SubscribeRefused {
    /// The code that the subscriber sees.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::TooMany { .. } => ErrorCode::Overloaded,
            Self::GroupName { .. } => ErrorCode::InvalidInput,
        }
    }
}

/// An event that came about by too many others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event follows from {MAX_EVENT_HOPS} others, one after the other, and is not published: do agents answer each other's events?"
)]
#[non_exhaustive]
pub(crate) struct TooManyHops;

impl TooManyHops {
    /// The code that the publisher sees.
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode::LoopDetected
    }
}

/// The hop count of an event that is published while one of `handling` hops is handled, or of a first one.
///
/// # Errors
/// [`TooManyHops`] if it follows from eight others.
pub(crate) fn next_hops(handling: Option<u8>) -> Result<u8, TooManyHops> {
    match handling {
        None => Ok(0),
        Some(hops) if hops < MAX_EVENT_HOPS => Ok(hops + 1),
        Some(_) => Err(TooManyHops),
    }
}
