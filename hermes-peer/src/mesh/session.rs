//! Sessions that this node has opened, and their slots.
//!
//! A session lives while it is used and for its idle timeout after that. One that has ended leaves nothing behind: an
//! expired, a closed and a never-opened id get the same answer, so that guessing ids tells nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::SlotValue;
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::mesh::slot::SlotRefused;
use crate::mesh::slot::SlotState;
use crate::mesh::slot::travelling;

/// Limits of the sessions that a node opens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct SessionSettings {
    /// How long a session lives without a request. 5 minutes by default: longer than a person thinks between two turns.
    pub idle_timeout: Duration,
    /// Sessions open at once. 10,000 by default; past it a new one is `OVERLOADED`.
    pub max_sessions: usize,
    /// Bytes of all slots of a session together, as JSON text. 1 MiB by default: slots travel with every request, bulk
    /// belongs in bodies.
    pub max_bytes: usize,
    /// Slots of a session. 256 by default, far more than the capabilities of one collaboration declare.
    pub max_slots: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(300),
            max_sessions: 10_000,
            max_bytes: 1024 * 1024,
            max_slots: 256,
        }
    }
}

/// A session that has ended, or never was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session {session} has ended or was never opened here: open a new one")]
#[non_exhaustive]
pub(crate) struct SessionGone {
    /// The id that was given.
    pub session: SessionId,
}

impl SessionGone {
    /// The code that the other side sees.
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode::SessionExpired
    }
}

impl From<SessionGone> for SlotRefused {
    fn from(gone: SessionGone) -> Self {
        Self::SessionGone { session: gone.session }
    }
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OpenRefused {
    /// There are too many.
    #[error(
        "{limit} sessions are open, and no more are allowed: close some, or raise `session.max_sessions`"
    )]
    Overloaded {
        /// How many are allowed.
        limit: usize,
    },
    /// Another session has this id.
    #[error("session {session} is open already")]
    Taken {
        /// The id that was given.
        session: SessionId,
    },
}

impl OpenRefused {
    /// The code that the caller sees.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Overloaded { .. } => ErrorCode::Overloaded,
            Self::Taken { .. } => ErrorCode::InvalidInput,
        }
    }
}

/// A session at its owner. Its slots live until it is closed or has been idle for its timeout.
#[derive(Debug)]
pub(crate) struct SessionState {
    id: SessionId,
    settings: Arc<SessionSettings>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    slots: HashMap<SlotName, SlotState>,
    in_flight: usize,
    used_at: Instant,
    ended: bool,
}

impl SessionState {
    fn new(id: SessionId, settings: Arc<SessionSettings>, now: Instant) -> Self {
        let inner = Inner { slots: HashMap::new(), in_flight: 0, used_at: now, ended: false };
        Self { id, settings, inner: Mutex::new(inner) }
    }

    /// The session's id.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Counts a request in flight for as long as the guard lives; a session with one does not expire.
    ///
    /// # Errors
    /// [`SessionGone`] if it has ended.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<InFlight, SessionGone> {
        let mut inner = self.alive()?;
        inner.in_flight += 1;
        drop(inner);
        Ok(InFlight { session: self.clone() })
    }

    /// The named slots that have a value, as they travel with a request.
    ///
    /// # Errors
    /// [`SessionGone`] if the session has ended: a handler never runs with the slots of a session that is no more.
    pub(crate) fn read<'a>(
        &self,
        names: impl IntoIterator<Item = &'a SlotName>,
    ) -> Result<Vec<SlotValue>, SessionGone> {
        Ok(travelling(&self.alive()?.slots, names))
    }

    /// Applies writes in order, all or none, and returns the versions that they made.
    ///
    /// # Errors
    /// [`SlotRefused`] of the first write that cannot be applied, or if the session has ended or would grow past its
    /// limits.
    pub(crate) fn write(&self, writes: &[SlotValue]) -> Result<Vec<(SlotName, u64)>, SlotRefused> {
        let mut inner = self.alive()?;
        let mut changed: HashMap<SlotName, SlotState> = HashMap::new();
        let mut versions = Vec::with_capacity(writes.len());
        for write in writes {
            let slot = changed
                .entry(write.name.clone())
                .or_insert_with(|| inner.slots.get(&write.name).cloned().unwrap_or_default());
            versions.push((write.name.clone(), slot.apply(write)?));
        }
        self.check_limits(&inner.slots, &changed)?;
        inner.slots.extend(changed);
        Ok(versions)
    }

    fn check_limits(
        &self,
        kept: &HashMap<SlotName, SlotState>,
        changed: &HashMap<SlotName, SlotState>,
    ) -> Result<(), SlotRefused> {
        let count = kept.len() + changed.keys().filter(|name| !kept.contains_key(*name)).count();
        if count > self.settings.max_slots {
            return Err(SlotRefused::TooMany { count, limit: self.settings.max_slots });
        }
        let stay = kept.iter().filter(|(name, _)| !changed.contains_key(*name));
        let bytes = stay.chain(changed).map(|(_, slot)| slot.bytes()).sum();
        if bytes > self.settings.max_bytes {
            return Err(SlotRefused::TooLarge { bytes, limit: self.settings.max_bytes });
        }
        Ok(())
    }

    fn alive(&self) -> Result<parking_lot::MutexGuard<'_, Inner>, SessionGone> {
        let inner = self.inner.lock();
        if inner.ended { Err(SessionGone { session: self.id }) } else { Ok(inner) }
    }

    /// Ends the session if it has been idle for its timeout. Whether a request may begin is decided under the same lock,
    /// so a request either keeps the whole session or does not get it.
    fn end_if_idle(&self, now: Instant) -> bool {
        let mut inner = self.inner.lock();
        let idle = now.saturating_duration_since(inner.used_at) >= self.settings.idle_timeout;
        if !inner.ended && inner.in_flight == 0 && idle {
            inner.end();
        }
        inner.ended
    }
}

impl Inner {
    fn end(&mut self) {
        self.ended = true;
        self.slots = HashMap::new();
    }
}

/// A request in flight in a session. Dropped when the request has ended, which starts the session's idle time anew.
#[derive(Debug)]
pub(crate) struct InFlight {
    session: Arc<SessionState>,
}

impl InFlight {
    /// The session.
    pub(crate) fn session(&self) -> &Arc<SessionState> {
        &self.session
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut inner = self.session.inner.lock();
        inner.in_flight -= 1;
        inner.used_at = Instant::now();
    }
}

/// The sessions that this node has opened.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    settings: Arc<SessionSettings>,
    table: Mutex<HashMap<SessionId, Arc<SessionState>>>,
}

impl Sessions {
    /// An empty table.
    pub(crate) fn new(settings: SessionSettings) -> Self {
        Self { settings: Arc::new(settings), table: Mutex::default() }
    }

    /// Opens a session with an id of its own.
    ///
    /// # Errors
    /// [`OpenRefused::Overloaded`] if there are too many.
    pub(crate) fn open(&self, now: Instant) -> Result<Arc<SessionState>, OpenRefused> {
        self.open_with(SessionId::from_bytes(*Uuid::now_v7().as_bytes()), now)
    }

    /// Opens a session with an id that the caller chose.
    ///
    /// # Errors
    /// [`OpenRefused`] if there are too many, or one of this id.
    pub(crate) fn open_with(&self, id: SessionId, now: Instant) -> Result<Arc<SessionState>, OpenRefused> {
        let mut table = self.table.lock();
        if table.get(&id).is_some_and(|session| !session.end_if_idle(now)) {
            return Err(OpenRefused::Taken { session: id });
        }
        if table.len() >= self.settings.max_sessions {
            remove_idle(&mut table, now);
        }
        if table.len() >= self.settings.max_sessions {
            return Err(OpenRefused::Overloaded { limit: self.settings.max_sessions });
        }
        let session = Arc::new(SessionState::new(id, self.settings.clone(), now));
        table.insert(id, session.clone());
        Ok(session)
    }

    /// The session of this id. A request that uses it holds [`SessionState::begin`] meanwhile.
    ///
    /// # Errors
    /// [`SessionGone`] if it has ended or never was.
    pub(crate) fn session(&self, id: SessionId, now: Instant) -> Result<Arc<SessionState>, SessionGone> {
        let mut table = self.table.lock();
        let session = table.get(&id).ok_or(SessionGone { session: id })?;
        if session.end_if_idle(now) {
            table.remove(&id);
            return Err(SessionGone { session: id });
        }
        Ok(session.clone())
    }

    /// Ends a session at once, whoever still uses it: their reads and writes are refused from now on.
    ///
    /// # Errors
    /// [`SessionGone`] if it has ended or never was.
    pub(crate) fn close(&self, id: SessionId) -> Result<(), SessionGone> {
        let session = self.table.lock().remove(&id).ok_or(SessionGone { session: id })?;
        let mut inner = session.alive()?;
        inner.end();
        Ok(())
    }

    /// Ends the sessions that have been idle for their timeout, frees their slots, and returns how many they were.
    pub(crate) fn expire(&self, now: Instant) -> usize {
        remove_idle(&mut self.table.lock(), now)
    }

    /// How many sessions are open.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().len()
    }
}

fn remove_idle(table: &mut HashMap<SessionId, Arc<SessionState>>, now: Instant) -> usize {
    let before = table.len();
    table.retain(|_, session| !session.end_if_idle(now));
    if table.capacity() > 4 * table.len().max(64) {
        // A crowd that has gone leaves its memory to others.
        table.shrink_to_fit();
    }
    before - table.len()
}

#[cfg(test)]
mod tests;
