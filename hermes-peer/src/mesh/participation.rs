//! A session as one call uses it: by its owner, or by a handler that was called within it.

use std::sync::Arc;

use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::SlotValue;

use crate::mesh::handler::Scope;
use crate::mesh::session::InFlight;
use crate::mesh::slot::SlotRefused;

/// Where a call's slots come from and where writes go.
#[derive(Clone, Debug)]
pub(crate) enum SessionUse {
    /// This node holds the session. It does not expire while the call is under way.
    Owner(Arc<InFlight>),
    /// This node was called within the session: it has the slots that travelled, and hands writes back.
    Participant(SessionId, Arc<Scope>),
}

impl SessionUse {
    pub(crate) fn id(&self) -> SessionId {
        match self {
            Self::Owner(in_flight) => in_flight.session().id(),
            Self::Participant(id, _) => *id,
        }
    }

    /// The values of these slots, as far as they have one here.
    pub(crate) fn read<'a>(
        &self,
        names: impl IntoIterator<Item = &'a SlotName>,
    ) -> Result<Vec<SlotValue>, Fault> {
        match self {
            Self::Owner(in_flight) => {
                in_flight.session().read(names).map_err(|gone| SlotRefused::from(gone).into_fault())
            }
            Self::Participant(_, scope) => Ok(scope.slots.lock().values(names)),
        }
    }

    /// Takes over what an answer writes.
    pub(crate) fn absorb(&self, writes: &[SlotValue]) -> Result<(), Fault> {
        match self {
            Self::Owner(in_flight) => in_flight.session().write(writes).map(drop).map_err(SlotRefused::into_fault),
            Self::Participant(_, scope) => {
                scope.slots.lock().absorb(writes.to_vec()).map_err(SlotRefused::into_fault)
            }
        }
    }
}
