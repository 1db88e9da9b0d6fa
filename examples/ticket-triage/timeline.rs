//! A session's story as the coordinator's node has seen it: every message, both ways.

use std::sync::Arc;
use std::time::SystemTime;

use hermes_peer::CapabilityName;
use hermes_peer::Direction;
use hermes_peer::ErrorCode;
use hermes_peer::MessageKind;
use hermes_peer::NodeId;
use hermes_peer::Observation;
use hermes_peer::SlotName;
use hermes_peer::What;
use serde::Serialize;

/// A message of the session.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// Milliseconds since the session began.
    pub(crate) at_ms: f64,
    /// The node that sent it.
    pub(crate) from: NodeId,
    /// The node that got it.
    pub(crate) to: NodeId,
    /// What kind of message.
    #[serde(rename = "type")]
    pub(crate) kind: MessageKind,
    /// What it asks for or answers.
    pub(crate) capability: Option<CapabilityName>,
    /// Milliseconds since its request.
    pub(crate) took_ms: Option<f64>,
    /// Slots whose values travelled with it.
    pub(crate) slots_read: Vec<SlotName>,
    /// Slots that it writes.
    pub(crate) slots_written: Vec<SlotName>,
    /// How the call ended, of an error.
    #[serde(skip)]
    pub(crate) code: Option<ErrorCode>,
}

/// Who sent what to whom, seen from `own` in a session that began at `begin`.
pub(crate) fn entries(own: &NodeId, begin: SystemTime, seen: &[Arc<Observation>]) -> Vec<Entry> {
    let entry = |observation: &Arc<Observation>| {
        let What::Message(message) = &observation.what else { return None };
        let (from, to) = match message.direction {
            Direction::Sent => (own, &message.peer),
            Direction::Received => (&message.peer, own),
        };
        let at = observation.at.duration_since(begin).unwrap_or_default();
        Some(Entry {
            at_ms: millis(at.as_secs_f64()),
            from: from.clone(),
            to: to.clone(),
            kind: message.message,
            capability: message.capability.clone(),
            took_ms: message.took.map(|took| millis(took.as_secs_f64())),
            slots_read: message.slots_read.clone(),
            slots_written: message.slots_written.clone(),
            code: message.code,
        })
    };
    seen.iter().filter_map(entry).collect()
}

/// Seconds as milliseconds, to the microsecond.
pub(crate) fn millis(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e3
}
