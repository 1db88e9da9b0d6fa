//! One key, one run: calls with an idempotency key, running and answered.
//!
//! What holds, and how far:
//!
//! - A key belongs to the agent that calls and the capability called. The same key of another agent, or to another
//!   capability, is another key.
//! - The first call runs; those that come meanwhile wait for its reply; later ones get that reply byte for byte.
//! - Another body under the same key is refused. Bodies are compared byte by byte, so the same JSON value in another
//!   spelling (order of keys, spaces) is another body. Of a streamed input only the first body is compared.
//! - A call that began and left no reply (its handler panicked or was cancelled, or the reply is no longer kept) is
//!   `OUTCOME_UNKNOWN` for those who repeat it. If the capability is idempotent it runs again instead.
//! - A streamed result is not kept: a streaming call with a key runs once, and is `OUTCOME_UNKNOWN` when repeated.
//! - Replies are kept for [`keep_for`](IdempotencySettings::keep_for) after they were made. Past
//!   [`max_bytes`](IdempotencySettings::max_bytes) the oldest lose their reply but not their place; past
//!   [`max_keys`](IdempotencySettings::max_keys) the oldest are forgotten. Keys of running calls are never forgotten.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageType;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// How many keys are remembered, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdempotencySettings {
    /// How long a reply is kept. 10 minutes by default: longer than any sensible retrying.
    pub keep_for: Duration,
    /// Keys, running and answered. 10,000 by default, some 10 MiB at most without the replies.
    pub max_keys: usize,
    /// Bytes of all replies together. 64 MiB by default, which is also the longest message.
    pub max_bytes: usize,
}

impl Default for IdempotencySettings {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(600),
            max_keys: 10_000,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Why a call with a key was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRefused {
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
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OtherInput => ErrorCode::InvalidInput,
            Self::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            Self::Overloaded { .. } => ErrorCode::Overloaded,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// Whose key to what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    /// The agent that calls, as it was authenticated.
    pub(crate) caller: AgentUri,
    /// The capability called.
    pub(crate) capability: CapabilityName,
    /// The caller's key.
    pub(crate) key: String,
}

/// An answer as it went out, to go out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredReply {
    /// A response or an error.
    pub(crate) kind: MessageType,
    /// The encoded envelope.
    pub(crate) envelope: Bytes,
    /// The body.
    pub(crate) body: Bytes,
}

impl StoredReply {
    fn bytes(&self) -> usize {
        self.envelope.len() + self.body.len()
    }
}

/// What a call with a key has to do.
#[derive(Debug)]
pub(crate) enum Begin {
    /// It is the first: run it.
    Run(Run),
    /// The first is running: wait for it.
    Wait(Wait),
    /// It was answered: send this.
    Replay(StoredReply),
}

/// How the first call ended, for one that waited for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// With this reply.
    Replied(StoredReply),
    /// Without one that is known: `OUTCOME_UNKNOWN`.
    Unknown,
    /// As if it had never been: begin again.
    Again,
}

/// The keys of this node's callers.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    settings: IdempotencySettings,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Arc<CallKey>, Entry>,
    /// Those that have ended, in the order in which they did.
    ended: BTreeMap<u64, Arc<CallKey>>,
    next: u64,
    bytes: usize,
    counters: IdempotencyCounters,
}

#[derive(Debug)]
struct Entry {
    body: Fingerprint,
    idempotent: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Running(watch::Sender<Option<First>>),
    /// `reply` is absent where the outcome is unknown.
    Ended {
        at: Instant,
        order: u64,
        reply: Option<StoredReply>,
    },
}

type Fingerprint = [u8; 32];

impl Idempotency {
    /// An empty table.
    pub(crate) fn new(settings: IdempotencySettings) -> Self {
        Self {
            settings,
            table: Mutex::default(),
        }
    }

    /// Asks what a call has to do. `idempotent` says whether the capability may run twice.
    ///
    /// # Errors
    /// [`KeyRefused`] if the key came with another body, if its outcome is unknown, or if there is no room.
    pub(crate) fn begin(
        self: &Arc<Self>,
        key: CallKey,
        body: &[u8],
        idempotent: bool,
        now: Instant,
    ) -> Result<Begin, KeyRefused> {
        let body = fingerprint(body);
        let mut guard = self.table.lock();
        let table = &mut *guard;
        table.expire(now, self.settings.keep_for);
        if let Some(entry) = table.entries.get(&key) {
            return entry.repeat(body, &mut table.counters);
        }
        if table.entries.len() >= self.settings.max_keys && !table.forget_oldest() {
            return Err(KeyRefused::Overloaded {
                limit: self.settings.max_keys,
            });
        }
        let key = Arc::new(key);
        let state = State::Running(watch::Sender::new(None));
        table.entries.insert(
            key.clone(),
            Entry {
                body,
                idempotent,
                state,
            },
        );
        table.counters.misses += 1;
        drop(guard);
        Ok(Begin::Run(Run {
            table: self.clone(),
            key: Some(key),
        }))
    }

    /// Forgets an answered key, because its caller has the answer and will not ask again. A running one stays.
    pub(crate) fn forget(&self, key: &CallKey) {
        let mut table = self.table.lock();
        if let Some(Entry {
            state: State::Ended { .. },
            ..
        }) = table.entries.get(key)
        {
            table.remove(key);
        }
    }

    /// What happened so far.
    pub(crate) fn counters(&self) -> IdempotencyCounters {
        self.table.lock().counters
    }

    /// How many keys are remembered.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// Bytes of the replies that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.table.lock().bytes
    }

    fn end(&self, key: &Arc<CallKey>, first: First) {
        let mut table = self.table.lock();
        let Some(Entry {
            state: State::Running(waiting),
            idempotent,
            ..
        }) = table.entries.get(key)
        else {
            return;
        };
        let first = if first == First::Unknown && *idempotent {
            First::Again
        } else {
            first
        };
        waiting.send_replace(Some(first.clone()));
        match first {
            First::Again => table.remove(key),
            First::Unknown => table.end(key, None),
            First::Replied(reply) => {
                table.end(key, Some(reply));
                table.shrink(self.settings.max_bytes);
            }
        }
    }
}

impl Entry {
    fn repeat(&self, body: Fingerprint, counters: &mut IdempotencyCounters) -> Result<Begin, KeyRefused> {
        if body != self.body {
            counters.conflicts += 1;
            return Err(KeyRefused::OtherInput);
        }
        match &self.state {
            State::Running(first) => {
                counters.waits += 1;
                Ok(Begin::Wait(Wait {
                    first: first.subscribe(),
                }))
            }
            State::Ended {
                reply: Some(reply), ..
            } => {
                counters.hits += 1;
                Ok(Begin::Replay(reply.clone()))
            }
            State::Ended { reply: None, .. } => {
                counters.unknown += 1;
                Err(KeyRefused::OutcomeUnknown)
            }
        }
    }
}

impl Table {
    fn end(&mut self, key: &Arc<CallKey>, reply: Option<StoredReply>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let order = self.next;
        self.next += 1;
        self.bytes += reply.as_ref().map_or(0, StoredReply::bytes);
        entry.state = State::Ended {
            at: Instant::now(),
            order,
            reply,
        };
        self.ended.insert(order, key.clone());
    }

    fn remove(&mut self, key: &CallKey) {
        if let Some(Entry {
            state: State::Ended { order, reply, .. },
            ..
        }) = self.entries.remove(key)
        {
            self.ended.remove(&order);
            self.bytes -= reply.map_or(0, |reply| reply.bytes());
        }
    }

    fn expire(&mut self, now: Instant, keep_for: Duration) {
        while let Some((_, oldest)) = self.ended.first_key_value() {
            match self.entries.get(oldest).map(|entry| &entry.state) {
                Some(State::Ended { at, .. }) if now.saturating_duration_since(*at) < keep_for => return,
                _ => self.remove(&oldest.clone()),
            }
        }
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.ended.first_key_value().map(|(_, oldest)| oldest.clone()) else {
            return false;
        };
        self.remove(&oldest);
        self.counters.evictions += 1;
        true
    }

    /// Gives up the oldest replies until the rest fits. Their keys stay: a repeat must not run a second time unnoticed.
    fn shrink(&mut self, max_bytes: usize) {
        let mut idempotent = Vec::new();
        for key in self.ended.values() {
            if self.bytes <= max_bytes {
                break;
            }
            let Some(entry) = self.entries.get_mut(key) else {
                continue;
            };
            let State::Ended { reply, .. } = &mut entry.state else {
                continue;
            };
            let Some(given_up) = reply.take() else { continue };
            self.bytes -= given_up.bytes();
            self.counters.evictions += 1;
            if entry.idempotent {
                idempotent.push(key.clone());
            }
        }
        for key in idempotent {
            self.remove(&key);
        }
    }
}

/// The right and the duty to run a call. Dropped without a reply (the handler panicked or was cancelled, or its result
/// was a stream), it leaves an unknown outcome, or nothing if the capability is idempotent.
#[derive(Debug)]
pub(crate) struct Run {
    table: Arc<Idempotency>,
    /// Taken when the end is told.
    key: Option<Arc<CallKey>>,
}

impl Run {
    /// Keeps the reply, and gives it to those who wait. To be called before it is sent. Its bytes must be its own, not a
    /// view of a larger buffer, or more memory is held than is counted.
    pub(crate) fn replied(mut self, reply: StoredReply) {
        self.end(First::Replied(reply));
    }

    /// The handler has not begun and will not: the key is as if it had never come.
    pub(crate) fn never_began(mut self) {
        self.end(First::Again);
    }

    fn end(&mut self, first: First) {
        if let Some(key) = self.key.take() {
            self.table.end(&key, first);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end(First::Unknown);
    }
}

/// Waits for the first call of a key.
#[derive(Debug)]
pub(crate) struct Wait {
    first: watch::Receiver<Option<First>>,
}

impl Wait {
    /// How the first call ended. Takes as long as that one does: the deadline is the waiting call's to watch.
    pub(crate) async fn first(mut self) -> First {
        match self.first.wait_for(Option::is_some).await {
            Ok(first) => first.clone().unwrap_or(First::Unknown),
            Err(_) => First::Unknown,
        }
    }
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, body).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests;
