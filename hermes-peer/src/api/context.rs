//! What a handler can know and do.

use std::any::Any;
use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;

use crate::api::call::Call;
use crate::api::error::Failure;
use crate::api::event::Publish;
use crate::api::node::Node;
use crate::mesh::handler::Caller;
use crate::mesh::handler::Scope;
use crate::mesh::program::ProgramCall;
use crate::mesh::slot::SlotRefused;

/// Values that handlers share, one of each type.
#[derive(Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), value);
    }

    fn of<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

/// The call that a handler works on: who made it, what is left of its time, its session; and a way to make further calls
/// on its behalf.
///
/// Calls made through it, and calls made through a [`Node`] from the handler's own task, inherit session, deadline,
/// path, trace and correlation. A task that the handler spawns inherits only through a context that it is given.
#[derive(Clone)]
pub struct Context {
    node: Node,
    scope: Arc<Scope>,
    states: Arc<States>,
}

impl Context {
    pub(crate) fn new(node: Node, scope: Arc<Scope>, states: Arc<States>) -> Self {
        Self { node, scope, states }
    }

    /// Who called, as this node proved it. Never what the caller says of itself.
    pub fn caller(&self) -> &Caller {
        &self.scope.caller
    }

    /// The agent whose wish the call is, if the caller acts for another one. It says so itself: policy is decided by
    /// [`caller`](Self::caller).
    pub fn on_behalf_of(&self) -> Option<&AgentUri> {
        self.scope.on_behalf_of.as_ref()
    }

    /// The capability that was called.
    pub fn capability(&self) -> &CapabilityName {
        &self.scope.capability
    }

    /// The message that made this call.
    pub fn message_id(&self) -> MessageId {
        self.scope.message_id
    }

    /// The collaboration that the call belongs to.
    pub fn session_id(&self) -> Option<SessionId> {
        self.scope.session
    }

    /// Trace id of the whole story, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        MessageId::from_bytes(self.scope.trace.trace_id).to_string()
    }

    /// The W3C `traceparent` to hand on to other systems.
    pub fn traceparent(&self) -> String {
        let span: String = self.scope.trace.parent_id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("00-{}-{span}-{:02x}", self.trace_id(), self.scope.trace.flags)
    }

    /// What is left of the call's time. When it is over the handler is stopped at its next `await`.
    pub fn time_left(&self) -> Duration {
        self.scope.time_left()
    }

    /// What may still be spent, in the application's own unit, if the caller set a budget.
    pub fn budget(&self) -> Option<u64> {
        self.scope.budget
    }

    /// Which try this is, from 0: the provider before failed.
    pub fn attempt(&self) -> u8 {
        self.scope.attempt
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.scope.cancelled.is_cancelled()
    }

    /// Ready when nobody waits for the answer any more: for work that the handler gave to another task.
    pub async fn cancelled(&self) {
        self.scope.cancelled.cancelled().await;
    }

    /// The value of its type that was given to the node with [`state`](crate::NodeBuilder::state).
    ///
    /// # Errors
    /// `INTERNAL` if the node was given none.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, Failure> {
        self.states.of().ok_or_else(|| {
            let message = format!("the node was given no state of type {}", std::any::type_name::<T>());
            tracing::error!("{message}");
            Failure::with_code(ErrorCode::Internal, "the handler lacks something that its node should have")
        })
    }

    /// Reads a slot of the session; `None` if it was never written. The capability must declare it in `reads` or
    /// `writes`.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if it does not declare the slot, `INVALID_INPUT` if the value is of another type.
    pub fn slot<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let name: SlotName = slot_name(name)?;
        let slots = self.scope.slots.lock();
        let text = slots.text(&name).map_err(refused)?;
        text.map(serde_json::from_str).transpose().map_err(|error| {
            let message = format!("slot `{name}` holds a value of another type: {error}");
            Failure::with_code(ErrorCode::InvalidInput, message)
        })
    }

    /// Writes a slot of the session. The write goes back with the answer; if somebody else wrote the slot meanwhile the
    /// call ends in `SLOT_CONFLICT`. The capability must declare it in `writes`.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if it does not declare the slot, `INVALID_OUTPUT` if the value is no JSON.
    pub fn set_slot(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.write_slot(name, value, Merge::Replace)
    }

    /// Appends to a slot that holds a list.
    ///
    /// # Errors
    /// As [`set_slot`](Self::set_slot), and `INVALID_INPUT` if it holds something else.
    pub fn append_slot(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.write_slot(name, value, Merge::Append)
    }

    /// Merges an object into the object that a slot holds (JSON merge patch, RFC 7396).
    ///
    /// # Errors
    /// As [`set_slot`](Self::set_slot).
    pub fn merge_slot(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.write_slot(name, value, Merge::Merge)
    }

    fn write_slot(&self, name: &str, value: &impl Serialize, merge: Merge) -> Result<(), Failure> {
        let name = slot_name(name)?;
        let text = serde_json::to_string(value).map_err(|error| {
            Failure::with_code(ErrorCode::InvalidOutput, format!("slot `{name}`: {error}"))
        })?;
        self.scope.slots.lock().set(&name, text, merge).map(drop).map_err(refused)
    }

    /// Calls a capability on behalf of this call.
    pub fn call<T>(&self, capability: &str, input: &(impl Serialize + ?Sized)) -> Call<T> {
        Call::new(self.node.clone(), capability, input, Some(self.scope.clone()))
    }

    /// Publishes an event that follows from this call.
    pub fn publish(&self, topic: &str, value: &(impl Serialize + ?Sized)) -> Publish {
        Publish::new(self.node.clone(), topic, value)
    }

    /// What a program is told about the call.
    pub(crate) fn program_call(&self) -> ProgramCall {
        ProgramCall {
            caller: self.scope.caller.agent.clone(),
            session: self.scope.session,
            trace: Some(self.scope.trace.clone()),
            time_left: Some(self.time_left()),
            cancelled: self.scope.cancelled.clone(),
        }
    }

    /// The node that runs the handler.
    pub fn node(&self) -> &Node {
        &self.node
    }
}

fn slot_name(name: &str) -> Result<SlotName, Failure> {
    name.parse().map_err(|error: hermes_peer_proto::wire::InvalidName| {
        Failure::with_code(ErrorCode::Internal, error.to_string())
    })
}

fn refused(refused: SlotRefused) -> Failure {
    Failure::of_fault(refused.into_fault())
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("scope", &self.scope).finish_non_exhaustive()
    }
}
