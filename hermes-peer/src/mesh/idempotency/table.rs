//! The keys, running and answered, and their order of age.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::MessageType;
use tokio::sync::watch;
use tokio::time::Instant;

use super::settings::IdempotencyCounters;
use super::settings::KeyRefused;

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

/// What is known of a key that came before.
pub(super) enum Known {
    /// The first call is running.
    Running(watch::Receiver<Option<First>>),
    /// It was answered.
    Replied(StoredReply),
}

/// SHA-256 of a body.
pub(super) type Fingerprint = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Table {
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

impl Table {
    pub(super) fn known(&mut self, key: &CallKey, body: &Fingerprint) -> Result<Option<Known>, KeyRefused> {
        let Some(entry) = self.entries.get(key) else {
            return Ok(None);
        };
        let counters = &mut self.counters;
        if *body != entry.body {
            counters.conflicts += 1;
            return Err(KeyRefused::OtherInput);
        }
        match &entry.state {
            State::Running(first) => {
                counters.waits += 1;
                Ok(Some(Known::Running(first.subscribe())))
            }
            State::Ended { reply: Some(reply), .. } => {
                counters.hits += 1;
                Ok(Some(Known::Replied(reply.clone())))
            }
            State::Ended { reply: None, .. } => {
                counters.unknown += 1;
                Err(KeyRefused::OutcomeUnknown)
            }
        }
    }

    pub(super) fn start(&mut self, key: CallKey, body: Fingerprint, idempotent: bool) -> Arc<CallKey> {
        let key = Arc::new(key);
        let state = State::Running(watch::Sender::new(None));
        self.entries.insert(key.clone(), Entry { body, idempotent, state });
        self.counters.misses += 1;
        key
    }

    /// Ends a running call, and tells those who wait for it.
    pub(super) fn end(&mut self, key: &Arc<CallKey>, first: First, max_bytes: usize) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let State::Running(waiting) = &entry.state else {
            return;
        };
        let first = if first == First::Unknown && entry.idempotent { First::Again } else { first };
        waiting.send_replace(Some(first.clone()));
        let mut again = first == First::Again;
        let mut reply = None;
        if let First::Replied(given) = first {
            if given.bytes() <= max_bytes {
                reply = Some(given);
            } else {
                // Longer than all that may be kept: it goes at once, and leaves the others alone.
                self.counters.evictions += 1;
                again = entry.idempotent;
            }
        }
        if again {
            self.entries.remove(key);
            return;
        }
        let order = self.next;
        self.next += 1;
        self.bytes += reply.as_ref().map_or(0, StoredReply::bytes);
        entry.state = State::Ended { at: Instant::now(), order, reply };
        self.ended.insert(order, key.clone());
        self.shrink(max_bytes);
    }

    pub(super) fn counters(&self) -> IdempotencyCounters {
        self.counters
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.ended.len()
    }

    fn remove(&mut self, key: &CallKey) {
        if let Some(Entry { state: State::Ended { order, reply, .. }, .. }) = self.entries.remove(key) {
            self.ended.remove(&order);
            self.bytes -= reply.map_or(0, |reply| reply.bytes());
        }
    }

    pub(super) fn expire(&mut self, now: Instant, keep_for: Duration) {
        while let Some((_, oldest)) = self.ended.first_key_value() {
            match self.entries.get(oldest).map(|entry| &entry.state) {
                Some(State::Ended { at, .. }) if now.saturating_duration_since(*at) < keep_for => return,
                _ => self.remove(&oldest.clone()),
            }
        }
    }

    pub(super) fn forget_oldest(&mut self) -> bool {
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

pub(super) fn fingerprint(body: &[u8]) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, body).as_ref());
    fingerprint
}
