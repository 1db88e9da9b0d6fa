//! The provider's half of a call, read from top to bottom: envelope → loop → policy → schema → key → admission →
//! handler → answer. Each step is a call into the file that owns it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::security;
use hermes_peer_proto::security::Action;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::Target;
use hermes_peer_proto::wire::Trace;

use crate::link::LinkHandle;
use crate::link::StreamHandle;
use crate::mesh::admission::Admission;
use crate::mesh::check::check_input;
use crate::mesh::check::check_items;
use crate::mesh::check::check_result;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::handler::CURRENT;
use crate::mesh::handler::Caller;
use crate::mesh::handler::Handler;
use crate::mesh::handler::Incoming;
use crate::mesh::handler::Scope;
use crate::mesh::message::items_of;
use crate::mesh::seen::Seen;
use crate::mesh::slot::SlotView;
use crate::mesh::state::Mesh;
use crate::observe::MessageKind;
use crate::schema::Compiled;
use crate::schema::nearest;

/// A handler and all that stands before it.
pub(crate) struct Registered {
    pub(crate) info: CapabilityInfo,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) input: Option<Compiled>,
    pub(crate) output: Option<Compiled>,
    pub(crate) item: Option<Compiled>,
    pub(crate) admission: Arc<Admission>,
}

/// What a handler gave and the slots that it wrote.
pub(crate) type Outcomes = (Answer, Vec<SlotValue>);

/// Who asks for what: a call before anything about it is checked.
pub(crate) struct Request {
    pub(crate) caller: Caller,
    pub(crate) envelope: Envelope,
    pub(crate) body: Body,
    pub(crate) message_id: MessageId,
    pub(crate) deadline: Instant,
    pub(crate) items: Option<BoxStream<'static, Result<Body, Fault>>>,
    pub(crate) cancelled: CancellationToken,
}

impl Mesh {
    /// A request has come in whole. It gets a task of its own: a handler that computes without a pause must not hold up the
    /// link that brought it.
    pub(crate) fn serve(self: &Arc<Self>, link: &LinkHandle, stream: StreamId) {
        let stream = Arc::new(StreamHandle::of_peer(link.clone(), stream));
        let cx = std::task::Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Ok(Some(received))) = stream.poll_read(&cx) else { return };
        self.tracker.spawn(self.clone().serve_stream(stream, received));
    }

    async fn serve_stream(self: Arc<Self>, stream: Arc<StreamHandle>, received: Received) {
        let started = Instant::now();
        let Ok(envelope) = Envelope::decode(&received.message.envelope) else {
            let fault = Fault::new(ErrorCode::InvalidFrame, "the request's envelope does not parse");
            self.send_fault(&stream, &fault);
            return;
        };
        let seen = Seen::new(&stream, &envelope, started);
        seen.request(&self, &envelope, received.message.body.len());
        let identity = stream.link().peer();
        let time_left = envelope.time_left.unwrap_or(self.settings.call_timeout);
        let request = Request {
            caller: Caller {
                agent: identity.agent().clone(),
                node: identity.node().clone(),
                is_same_user: self.settings.is_same_user,
            },
            message_id: envelope.message_id.unwrap_or_default(),
            deadline: started + time_left.min(MAX_TIME),
            body: Body { bytes: received.message.body, content_type: envelope.content_type.clone() },
            items: Some(items_of(stream.clone())),
            cancelled: CancellationToken::new(),
            envelope,
        };
        let cancelled = request.cancelled.clone();
        let watched = cancelled.clone();
        // Before the handler begins: one that streams may answer at once, and its items are stopped in the same way.
        stream.watch_cancel(move |_| watched.cancel());
        let deadline = request.deadline;
        match self.clone().run(request).await {
            // The link has answered already: nothing that comes late overwrites it.
            _ if cancelled.is_cancelled() => stream.conclude(),
            Ok((answer, writes)) => {
                self.send_answer(&stream, &seen, answer, writes, (&cancelled, deadline)).await;
            }
            Err(fault) => {
                seen.answer(&self, MessageKind::Error, 0, Some(fault.code), &[]);
                self.send_fault(&stream, &fault);
            }
        }
    }

    /// All steps between a request and its answer.
    pub(crate) async fn run(self: Arc<Self>, request: Request) -> Result<Outcomes, Fault> {
        let registered = self.find_handler(&request.envelope)?;
        self.check_way(&request, &registered.info)?;
        self.check_policy(&request.caller, &registered.info)?;
        let value = check_input(&request.body, &registered)?;
        let Some(key) = request.envelope.idempotency_key.clone() else {
            return self.handle(request, registered, value).await;
        };
        let body = request.body.bytes.clone();
        let (caller, info) = (request.caller.agent.clone(), registered.info.clone());
        self.clone().once(caller, &info, key, &body, move || self.handle(request, registered, value)).await
    }

    fn find_handler(&self, envelope: &Envelope) -> Result<Arc<Registered>, Fault> {
        let Some(name) = &envelope.capability else {
            return Err(Fault::new(ErrorCode::InvalidFrame, "the request names no capability"));
        };
        let is_here = match &envelope.target {
            None => true,
            Some(Target::Node(node)) => *node == self.node,
            Some(Target::Agent(agent)) => *agent == self.agent,
        };
        if !is_here {
            return Err(Fault::new(ErrorCode::NotFound, format!("this is {}, not the target", self.node)));
        }
        let handlers = self.handlers.load();
        let Some(registered) = handlers.get(name) else { return Err(self.unknown(name)) };
        if envelope.wanted.is_some_and(|wanted| !registered.info.version.serves(wanted)) {
            let message = format!("{} provides `{name}` in version {}", self.node, registered.info.version);
            return Err(Fault::new(ErrorCode::NotFound, message));
        }
        Ok(registered.clone())
    }

    fn unknown(&self, name: &CapabilityName) -> Fault {
        let handlers = self.handlers.load();
        let near = nearest(name.as_str(), handlers.keys().map(CapabilityName::as_str));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Fault::new(ErrorCode::NotFound, format!("{} does not provide `{name}`{hint}", self.node))
    }

    /// Whether the call may go on from here at all: no loop, not too far, not too late.
    fn check_way(&self, request: &Request, info: &CapabilityInfo) -> Result<(), Fault> {
        let envelope = &request.envelope;
        let way = || {
            let mut way: Vec<_> =
                envelope.path.iter().map(|hop| format!("{}@{}", hop.capability, hop.node)).collect();
            way.push(format!("{}@{}", info.name, self.node));
            way.join(" → ")
        };
        if envelope.path.iter().any(|hop| hop.capability == info.name) && !info.facts.reentrant {
            let message = format!("the call comes back to a capability that is at work on it: {}", way());
            return Err(Fault::new(ErrorCode::LoopDetected, message));
        }
        if envelope.path.len() > usize::from(self.settings.max_hops) {
            let limit = self.settings.max_hops;
            let message = format!("more than {limit} handlers in a row (`limits.max_hops`): {}", way());
            return Err(Fault::new(ErrorCode::LoopDetected, message));
        }
        if request.deadline <= Instant::now() {
            return Err(Fault::new(
                ErrorCode::DeadlineExceeded,
                "the deadline had passed before the handler ran",
            ));
        }
        Ok(())
    }

    fn check_policy(&self, caller: &Caller, info: &CapabilityInfo) -> Result<(), Fault> {
        let who =
            security::Caller { agent: &caller.agent, node: &caller.node, is_same_user: caller.is_same_user };
        let action = Action::Call { capability: &info.name, access: info.access };
        let decision = self.policy.load().decide(&who, action);
        if decision.allowed {
            return Ok(());
        }
        let message = format!("{} may not call `{}`: {}", caller.agent, info.name, decision.rule);
        Err(Fault::new(ErrorCode::PermissionDenied, message))
    }

    async fn handle(
        self: Arc<Self>,
        request: Request,
        registered: Arc<Registered>,
        value: Option<Value>,
    ) -> Result<Outcomes, Fault> {
        let entering = registered.admission.enter().map_err(|overloaded| {
            let mut fault = Fault::new(
                overloaded.code(),
                format!(
                    "`{}` on {} has as much running and waiting as it takes",
                    registered.info.name, self.node
                ),
            );
            fault.retry_after_ms = u64::try_from(overloaded.retry_after.as_millis()).ok();
            fault
        })?;
        let deadline = request.deadline;
        let cancelled = request.cancelled.clone();
        let name = registered.info.name.clone();
        let scope = self.scope(&request, &registered.info);
        let items = request.items.map(|items| check_items(items, registered.clone()));
        let incoming = Incoming { body: request.body, value, items, scope: scope.clone() };
        let handling = async {
            let permit = entering.permit().await;
            let handler = registered.handler.clone();
            let called = CURRENT.scope(scope.clone(), async move { handler.call(incoming).await });
            let outcome = AssertUnwindSafe(called).catch_unwind().await;
            drop(permit);
            outcome.unwrap_or_else(|panic| Err(self.panicked(&name, &*panic)))
        };
        let answer = tokio::select! {
            biased;
            answer = handling => answer?,
            () = cancelled.cancelled() => return Err(Fault::new(ErrorCode::Cancelled, "the caller gave the call up")),
            () = tokio::time::sleep_until(deadline) => {
                // Calls made by the handler end with it.
                scope.cancelled.cancel();
                let message = format!("the deadline struck while `{}` on {} was at work", registered.info.name, self.node);
                return Err(Fault::new(ErrorCode::DeadlineExceeded, message));
            }
        };
        let answer = self.check_output(answer, &registered)?;
        let writes = scope.slots.lock().take_writes();
        Ok((answer, writes))
    }

    fn scope(&self, request: &Request, info: &CapabilityInfo) -> Arc<Scope> {
        let envelope = &request.envelope;
        let message_id = request.message_id;
        Arc::new(Scope {
            caller: request.caller.clone(),
            capability: info.name.clone(),
            message_id,
            correlation_id: envelope.correlation_id.unwrap_or(message_id),
            session: envelope.session,
            slots: Mutex::new(SlotView::new(envelope.slots.clone(), &info.reads, &info.writes)),
            deadline: request.deadline,
            path: envelope.path.clone(),
            hops: envelope.hops,
            trace: envelope.trace.clone().unwrap_or_else(|| root_trace(message_id)),
            on_behalf_of: envelope.on_behalf_of.clone(),
            budget: envelope.budget,
            attempt: envelope.attempt,
            // A child: what ends with the deadline is the handler, and its caller is still to be told.
            cancelled: request.cancelled.child_token(),
        })
    }

    /// The handler's answer, checked; of a stream each item as it comes.
    fn check_output(self: &Arc<Self>, answer: Answer, registered: &Arc<Registered>) -> Result<Answer, Fault> {
        Ok(match answer {
            Answer::Value(body) => {
                check_result(&body, registered)?;
                Answer::Value(body)
            }
            Answer::NeedsInput(body) => Answer::NeedsInput(body),
            Answer::Stream(items) => {
                let (mesh, registered) = (self.clone(), registered.clone());
                // The author's code runs in the stream as it does in the handler.
                let checked = AssertUnwindSafe(items).catch_unwind().map(move |item| {
                    let body =
                        item.unwrap_or_else(|panic| Err(mesh.panicked(&registered.info.name, &*panic)))?;
                    check_result(&body, &registered)?;
                    Ok(body)
                });
                Answer::Stream(checked.boxed())
            }
        })
    }

    /// The text of a panic is the provider's affair; the caller gets a number that leads to it.
    fn panicked(&self, name: &CapabilityName, panic: &(dyn std::any::Any + Send)) -> Fault {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let incident = self.new_message_id();
        tracing::error!(capability = %name, %incident, panic = text, "a handler panicked");
        let message = format!("the handler of `{name}` on {} panicked; incident {incident}", self.node);
        Fault::new(ErrorCode::HandlerPanicked, message)
    }
}

/// Longest time that a call may ask for: a year, which every clock can add.
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

fn root_trace(message_id: MessageId) -> Trace {
    let mut parent_id = [0; 8];
    parent_id.copy_from_slice(&message_id.as_bytes()[8..]);
    Trace { trace_id: *message_id.as_bytes(), parent_id, flags: 1, state: String::new() }
}
