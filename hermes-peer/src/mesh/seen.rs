//! What observers are told of a call that this node serves.

use tokio::time::Instant;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotValue;

use crate::link::StreamHandle;
use crate::mesh::state::Mesh;
use crate::observe::Direction;
use crate::observe::MessageKind;
use crate::observe::MessageSeen;
use crate::observe::What;

/// What observers are told of one served call.
pub(crate) struct Seen {
    peer: NodeId,
    agent: AgentUri,
    capability: Option<CapabilityName>,
    message_id: MessageId,
    trace_id: MessageId,
    session: Option<SessionId>,
    started: Instant,
}

impl Seen {
    pub(crate) fn new(stream: &StreamHandle, envelope: &Envelope, started: Instant) -> Self {
        let message_id = envelope.message_id.unwrap_or_default();
        Self {
            peer: stream.link().peer().node().clone(),
            agent: stream.link().peer().agent().clone(),
            capability: envelope.capability.clone(),
            message_id,
            trace_id: envelope.correlation_id.unwrap_or(message_id),
            session: envelope.session,
            started,
        }
    }

    pub(crate) fn request(&self, mesh: &Mesh, envelope: &Envelope, bytes: usize) {
        let slots_read = envelope.slots.iter().map(|slot| slot.name.clone()).collect();
        let mut message = self.message(Direction::Received, MessageKind::Request, bytes, None);
        message.slots_read = slots_read;
        mesh.observer.record(What::Message(message));
    }

    pub(crate) fn answer(
        &self,
        mesh: &Mesh,
        kind: MessageKind,
        bytes: usize,
        code: Option<ErrorCode>,
        writes: &[SlotValue],
    ) {
        let mut message = self.message(Direction::Sent, kind, bytes, code);
        message.took = Some(self.started.elapsed());
        message.slots_written = writes.iter().map(|slot| slot.name.clone()).collect();
        mesh.observer.record(What::Message(message));
    }

    fn message(
        &self,
        direction: Direction,
        kind: MessageKind,
        bytes: usize,
        code: Option<ErrorCode>,
    ) -> MessageSeen {
        MessageSeen {
            direction,
            message: kind,
            peer: self.peer.clone(),
            agent: self.agent.clone(),
            capability: self.capability.clone(),
            topic: None,
            message_id: Some(self.message_id),
            trace_id: Some(self.trace_id),
            session: self.session,
            bytes,
            took: None,
            code,
            slots_read: Vec::new(),
            slots_written: Vec::new(),
        }
    }
}
