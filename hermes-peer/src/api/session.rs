//! Sessions as their owner holds them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::SlotValue;

use crate::api::error::CallError;
use crate::mesh::Mesh;
use crate::mesh::participation::SessionUse;
use crate::mesh::session::SessionState;
use crate::mesh::slot::SlotRefused;

/// One collaboration, held by the node that opened it: an id and named slots.
///
/// Calls made with [`Call::session`](crate::Call::session) carry the id and the slots that the capability declares; what
/// handlers write comes back with their answers. A session that nothing used for its timeout (5 min by default) ends:
/// its slots are freed and using it answers `SESSION_EXPIRED`. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    mesh: Arc<Mesh>,
    state: Arc<SessionState>,
}

impl Session {
    pub(crate) fn new(mesh: Arc<Mesh>, state: Arc<SessionState>) -> Self {
        Self { mesh, state }
    }

    /// Its id, by which every message of the collaboration can be found on every node. It opens nothing.
    pub fn id(&self) -> SessionId {
        self.state.id()
    }

    /// A slot's value; `None` if it was never written.
    ///
    /// # Errors
    /// `SESSION_EXPIRED`, `INVALID_INPUT` if the name is none or the value is of another type.
    pub fn get<T: DeserializeOwned>(&self, slot: &str) -> Result<Option<T>, CallError> {
        let name: SlotName = slot.parse()?;
        let mut values = self.state.read([&name]).map_err(|gone| SlotRefused::from(gone).into_fault())?;
        let Some(value) = values.pop() else { return Ok(None) };
        serde_json::from_str(&value.value).map(Some).map_err(|error| {
            CallError::new(
                ErrorCode::InvalidInput,
                format!("slot `{name}` holds a value of another type: {error}"),
            )
        })
    }

    /// Sets a slot, whatever it held before.
    ///
    /// # Errors
    /// `SESSION_EXPIRED`, `TOO_LARGE` past the session's limits, `INVALID_INPUT` if the name is none or the value no JSON.
    pub fn set(&self, slot: &str, value: &impl Serialize) -> Result<(), CallError> {
        let name: SlotName = slot.parse()?;
        let text = serde_json::to_string(value)
            .map_err(|error| CallError::new(ErrorCode::InvalidInput, format!("slot `{name}`: {error}")))?;
        loop {
            let known = self.state.read([&name]).map_err(|gone| SlotRefused::from(gone).into_fault())?;
            let version = known.first().map_or(0, |value| value.version);
            let write = SlotValue { name: name.clone(), version, merge: Merge::Replace, value: text.clone() };
            match self.state.write(&[write]) {
                // An answer wrote it between the two steps: the owner's word is the later one.
                Err(SlotRefused::Conflict { .. }) => {}
                outcome => return outcome.map(drop).map_err(|refused| refused.into_fault().into()),
            }
        }
    }

    /// Ends it and frees its slots. Calls that run in it go on.
    pub fn close(self) {
        // It may have expired meanwhile, which is the same end.
        let _ended = self.mesh.sessions.close(self.id());
    }

    /// One call in the session: it does not expire meanwhile.
    pub(crate) fn begin(&self) -> Result<SessionUse, Fault> {
        let state = self.mesh.sessions.session(self.id(), Instant::now());
        let state = state.map_err(|gone| SlotRefused::from(gone).into_fault())?;
        let in_flight = state.begin().map_err(|gone| SlotRefused::from(gone).into_fault())?;
        Ok(SessionUse::Owner(Arc::new(in_flight)))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).finish_non_exhaustive()
    }
}
