//! A session as one call uses it: by its owner, or by a handler that was called within it.

use std::sync::Arc;

use hermes_peer_proto::security;
use hermes_peer_proto::security::Action;
use hermes_peer_proto::security::Decision;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::SlotValue;

use crate::link::LinkHandle;
use crate::mesh::call::Exchange;
use crate::mesh::call::Route;
use crate::mesh::handler::Scope;
use crate::mesh::session::InFlight;
use crate::mesh::slot::SlotRefused;
use crate::mesh::state::Mesh;

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
            Self::Owner(in_flight) => {
                in_flight.session().write(writes).map(drop).map_err(SlotRefused::into_fault)
            }
            Self::Participant(_, scope) => {
                scope.slots.lock().absorb(writes.to_vec()).map_err(SlotRefused::into_fault)
            }
        }
    }
}

impl SessionUse {
    /// The session that calls made in a handler belong to.
    pub(crate) fn of_scope(scope: &Arc<Scope>) -> Option<Self> {
        scope.session.map(|id| Self::Participant(id, scope.clone()))
    }
}

impl Mesh {
    /// Whether a slot may travel to the node at the other end.
    pub(crate) fn may_read(&self, link: &LinkHandle, slot: &SlotName) -> bool {
        self.slot_decision(link, Action::ReadSlot { slot }).allowed
    }

    fn slot_decision(&self, link: &LinkHandle, action: Action<'_>) -> Decision {
        let who = security::Caller {
            agent: link.peer().agent(),
            node: link.peer().node(),
            is_same_user: self.settings.is_same_user,
        };
        self.policy.load().decide(&who, action)
    }
}

impl Exchange {
    /// A provider writes the slots that its capability declares and policy leaves to it, whatever it sends.
    pub(super) fn check_writes(&self, writes: &[SlotValue]) -> Result<(), Fault> {
        let Route::Remote(remote) = &self.route else { return Ok(()) };
        for SlotValue { name, .. } in writes {
            let (node, capability) = (&remote.peer.node, &remote.info.name);
            let why = if remote.info.writes.contains(name) {
                let decision =
                    self.mesh.slot_decision(remote.stream.link(), Action::WriteSlot { slot: name });
                if decision.allowed {
                    continue;
                }
                decision.rule.to_string()
            } else {
                format!("`{capability}` does not declare it")
            };
            let mut fault = Fault::new(
                ErrorCode::PermissionDenied,
                format!("{node} may not write the slot `{name}`: {why}"),
            );
            fault.may_have_run = true;
            fault.node = Some(node.clone());
            return Err(fault);
        }
        Ok(())
    }
}
