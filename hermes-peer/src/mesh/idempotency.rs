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

mod settings;
mod table;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::settings::IdempotencyCounters;
pub(crate) use self::settings::IdempotencySettings;
pub(crate) use self::settings::KeyRefused;
pub(crate) use self::table::CallKey;
pub(crate) use self::table::First;
pub(crate) use self::table::StoredReply;

use self::table::Known;
use self::table::Table;
use self::table::fingerprint;

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

/// The keys of this node's callers.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    settings: IdempotencySettings,
    table: Mutex<Table>,
}

impl Idempotency {
    /// An empty table.
    pub(crate) fn new(settings: IdempotencySettings) -> Self {
        Self { settings, table: Mutex::default() }
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
        let mut table = self.table.lock();
        table.expire(now, self.settings.keep_for);
        match table.known(&key, &body)? {
            Some(Known::Running(first)) => return Ok(Begin::Wait(Wait { first })),
            Some(Known::Replied(reply)) => return Ok(Begin::Replay(reply)),
            None => {}
        }
        if table.count() >= self.settings.max_keys && !table.forget_oldest() {
            return Err(KeyRefused::Overloaded { limit: self.settings.max_keys });
        }
        let key = table.start(key, body, idempotent);
        drop(table);
        Ok(Begin::Run(Run { table: self.clone(), key: Some(key) }))
    }

    /// What happened so far.
    pub(crate) fn counters(&self) -> IdempotencyCounters {
        self.table.lock().counters()
    }

    /// How many keys are remembered.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().count()
    }

    /// Bytes of the replies that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.table.lock().bytes()
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
            self.table.table.lock().end(&key, first, self.table.settings.max_bytes);
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

#[cfg(test)]
mod tests;
