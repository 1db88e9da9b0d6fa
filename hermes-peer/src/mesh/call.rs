//! The caller's half of a call: a provider, a stream, one ending.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::time::Instant;

use hermes_peer_proto::protocol::DEFAULT_PRIORITY;
use hermes_peer_proto::protocol::Outgoing;
use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::Trace;
use hermes_peer_proto::wire::encode_head;

use crate::link::StreamHandle;
use crate::link::StreamLost;
use crate::mesh::Mesh;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::handler::Scope;
use crate::mesh::participation::SessionUse;
use crate::mesh::peers::Peer;
use crate::mesh::route::Wanted;
use crate::observe::Direction;
use crate::observe::MessageKind;

/// What a caller wants done.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) capability: CapabilityName,
    pub(crate) wanted: Wanted,
    pub(crate) body: Body,
    /// Items follow the request.
    pub(crate) has_items: bool,
    pub(crate) timeout: Option<Duration>,
    /// How long to wait for somebody who provides it.
    pub(crate) provider_wait: Option<Duration>,
    pub(crate) session: Option<SessionUse>,
    pub(crate) key: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) on_behalf_of: Option<AgentUri>,
    pub(crate) budget: Option<u64>,
    /// The call in whose handler this one is made.
    pub(crate) parent: Option<Arc<Scope>>,
}

impl Order {
    pub(crate) fn new(capability: CapabilityName, body: Body) -> Self {
        Self {
            capability,
            wanted: Wanted::default(),
            body,
            has_items: false,
            timeout: None,
            provider_wait: None,
            session: None,
            key: None,
            priority: None,
            on_behalf_of: None,
            budget: None,
            parent: None,
        }
    }
}

/// What comes back, piece by piece.
#[derive(Debug)]
pub(crate) enum Part {
    /// An item of a stream.
    Item(Body),
    /// The end, with the result of a call that does not stream.
    End(Body),
    /// A question to the caller.
    NeedsInput(Body),
}

/// A call on its way. Dropping it cancels the call, hop by hop.
pub(crate) struct Exchange {
    mesh: Arc<Mesh>,
    order: Order,
    message_id: MessageId,
    deadline: Instant,
    route: Route,
    tried: Vec<NodeId>,
    attempt: u8,
    /// Something of the answer has come, or items were sent: from here on it is not sent elsewhere by itself.
    is_committed: bool,
    is_over: bool,
}

enum Route {
    Remote(Remote),
    /// The capability is provided by this node itself.
    Local(Option<crate::mesh::dispatch::LocalCall>),
    LocalItems(crate::mesh::dispatch::LocalItems),
}

struct Remote {
    stream: Arc<StreamHandle>,
    peer: Arc<Peer>,
    info: Arc<CapabilityInfo>,
    started: Instant,
}

impl Mesh {
    /// Sends a call to whoever provides it.
    ///
    /// # Errors
    /// What failed, where, whose fault, what to do.
    pub(crate) async fn call(self: &Arc<Self>, order: Order) -> Result<Exchange, Fault> {
        let deadline = self.deadline(&order);
        self.check_path(&order)?;
        let message_id = self.new_message_id();
        let mut exchange = Exchange {
            mesh: self.clone(),
            order,
            message_id,
            deadline,
            route: Route::Local(None),
            tried: Vec::new(),
            attempt: 0,
            is_committed: false,
            is_over: false,
        };
        exchange.send().await?;
        Ok(exchange)
    }

    /// The order's time, at most what is left to the call that it is made for.
    fn deadline(&self, order: &Order) -> Instant {
        let own = Instant::now() + order.timeout.unwrap_or(self.settings.call_timeout);
        order.parent.as_ref().map_or(own, |parent| own.min(parent.deadline))
    }

    /// Hops are counted where the call is made too, so that the error comes without another journey.
    fn check_path(&self, order: &Order) -> Result<(), Fault> {
        let hops = order.parent.as_ref().map_or(0, |parent| parent.path.len() + 1);
        if hops > usize::from(self.settings.max_hops) {
            let limit = self.settings.max_hops;
            let message = format!("a call passes {limit} handlers at most (`limits.max_hops`)");
            return Err(Fault::new(ErrorCode::LoopDetected, message));
        }
        Ok(())
    }
}

impl Exchange {
    /// The stream, for input items; `None` if the call is handled in this process.
    pub(crate) fn stream(&self) -> Option<Arc<StreamHandle>> {
        match &self.route {
            Route::Remote(remote) => Some(remote.stream.clone()),
            Route::Local(_) | Route::LocalItems(_) => None,
        }
    }

    /// Input items are being sent: the call can no longer be sent elsewhere by itself.
    pub(crate) fn commit(&mut self) {
        self.is_committed = true;
    }

    /// What comes next. After the end or an error nothing does.
    pub(crate) async fn next(&mut self) -> Result<Part, Fault> {
        let deadline = self.deadline;
        let outcome = match tokio::time::timeout_at(deadline, self.next_part()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.expire()),
        };
        match &outcome {
            Ok(Part::Item(_)) => {}
            Ok(Part::End(_) | Part::NeedsInput(_)) | Err(_) => self.is_over = true,
        }
        outcome
    }

    async fn next_part(&mut self) -> Result<Part, Fault> {
        loop {
            let part = match &mut self.route {
                Route::Local(call) => match call.take() {
                    Some(call) => self.finish_local(call).await,
                    None => Err(ended_already()),
                },
                Route::LocalItems(items) => items.next().await,
                Route::Remote(remote) => {
                    let read = remote.stream.read().await;
                    match self.judge(read) {
                        Verdict::Part(part) => part,
                        Verdict::SendElsewhere => {
                            self.send().await?;
                            continue;
                        }
                    }
                }
            };
            return part;
        }
    }

    /// Sends the request to a provider that was not tried yet.
    async fn send(&mut self) -> Result<(), Fault> {
        let mesh = self.mesh.clone();
        loop {
            let found = mesh.find_provider(&self.order, &self.tried, self.deadline).await?;
            let Some(provider) = found else {
                let local = mesh.call_here(&self.order, self.message_id, self.deadline, self.attempt)?;
                self.route = Route::Local(Some(local));
                return Ok(());
            };
            self.tried.push(provider.peer.node.clone());
            let Some(link) = provider.peer.ready_link() else { continue };
            let priority = self.order.priority.unwrap_or(DEFAULT_PRIORITY);
            let opened = poll_fn(|cx: &mut Context<'_>| link.poll_open(cx, priority));
            let stream = match tokio::time::timeout_at(self.deadline, opened).await {
                Ok(Ok(stream)) => Arc::new(stream),
                Ok(Err(_)) => continue,
                Err(_) => return Err(self.expire()),
            };
            let envelope = self.envelope(&provider.info)?;
            let slots_read = envelope.slots.iter().map(|slot| slot.name.clone()).collect();
            let message = outgoing(&envelope, &self.order.body)?;
            match stream.try_send(MessageType::Request, message, !self.order.has_items) {
                Ok(()) => {}
                Err(SendRefused::TooLarge { got, limit }) => {
                    return Err(too_large(got, limit, &provider.peer.node));
                }
                Err(_) => continue,
            }
            provider.peer.score.begin();
            mesh.observe_call(&provider.peer, &self.order, self.message_id, slots_read);
            self.attempt = self.attempt.saturating_add(1);
            self.is_over = false;
            let started = Instant::now();
            self.route = Route::Remote(Remote { stream, peer: provider.peer, info: provider.info, started });
            return Ok(());
        }
    }

    fn envelope(&self, info: &CapabilityInfo) -> Result<Envelope, Fault> {
        let order = &self.order;
        let parent = order.parent.as_deref();
        let mut envelope = Envelope::default();
        envelope.target.clone_from(&order.wanted.target);
        envelope.capability = Some(order.capability.clone());
        envelope.wanted = order.wanted.version;
        envelope.message_id = Some(self.message_id);
        envelope.idempotency_key.clone_from(&order.key);
        envelope.time_left = Some(self.deadline.saturating_duration_since(Instant::now()));
        envelope.content_type = order.body.content_type.clone();
        envelope.on_behalf_of.clone_from(&order.on_behalf_of);
        envelope.budget = order.budget;
        envelope.attempt = self.attempt;
        if let Some(parent) = parent {
            envelope.correlation_id = Some(parent.correlation_id);
            envelope.causation_id = Some(parent.message_id);
            envelope.path.clone_from(&parent.path);
            envelope.path.push(Hop { node: self.mesh.node.clone(), capability: parent.capability.clone() });
            envelope.hops = parent.hops.saturating_add(1);
            envelope.trace = Some(Trace { parent_id: self.span(), ..parent.trace.clone() });
            envelope.on_behalf_of = order.on_behalf_of.clone().or_else(|| parent.on_behalf_of.clone());
            envelope.budget = match (order.budget, parent.budget) {
                (Some(own), Some(left)) => Some(own.min(left)),
                (own, left) => own.or(left),
            };
        }
        if let Some(session) = &order.session {
            envelope.session = Some(session.id());
            envelope.slots = session.read(info.reads.iter().chain(&info.writes))?;
        }
        Ok(envelope)
    }

    /// The part of a trace that this call is: the end of its message id, which is random.
    fn span(&self) -> [u8; 8] {
        let mut span = [0; 8];
        span.copy_from_slice(&self.message_id.as_bytes()[8..]);
        span
    }

    fn judge(&mut self, read: Result<Option<Received>, StreamLost>) -> Verdict {
        match read {
            Ok(Some(received)) => Verdict::Part(self.receive(received)),
            Ok(None) => Verdict::Part(Err(ended_already())),
            Err(lost) => self.lost(&lost),
        }
    }

    fn receive(&mut self, received: Received) -> Result<Part, Fault> {
        self.is_committed = true;
        let Received { message_type, message } = received;
        let envelope = Envelope::decode(&message.envelope)
            .map_err(|error| Fault::new(ErrorCode::InvalidFrame, format!("the answer's {error}")))?;
        if message_type == MessageType::Error {
            return Err(self.failed(&message.body));
        }
        let body = Body { bytes: message.body, content_type: envelope.content_type.clone() };
        let slots_written = envelope.slots.iter().map(|slot| slot.name.clone()).collect();
        let kind =
            if message_type == MessageType::Stream { MessageKind::Item } else { MessageKind::Response };
        self.observe(kind, body.bytes.len(), None, slots_written);
        self.absorb(&envelope.slots)?;
        if message_type == MessageType::Stream {
            return Ok(Part::Item(body));
        }
        self.conclude(true);
        Ok(match envelope.outcome {
            Outcome::NeedsInput => Part::NeedsInput(body),
            _ => Part::End(body),
        })
    }

    fn failed(&mut self, body: &[u8]) -> Fault {
        let mut fault = Fault::decode(body)
            .unwrap_or_else(|error| Fault::new(ErrorCode::InvalidFrame, format!("the answer's {error}")));
        if let Route::Remote(remote) = &self.route {
            fault.node.get_or_insert_with(|| remote.peer.node.clone());
        }
        self.observe(MessageKind::Error, body.len(), Some(fault.code), Vec::new());
        let is_providers_fault = matches!(
            fault.code,
            ErrorCode::Internal | ErrorCode::HandlerPanicked | ErrorCode::Overloaded | ErrorCode::Unavailable
        );
        self.conclude(!is_providers_fault);
        fault
    }

    /// Writes of slots that came with the answer.
    fn absorb(&self, writes: &[SlotValue]) -> Result<(), Fault> {
        match &self.order.session {
            Some(session) if !writes.is_empty() => session.absorb(writes),
            _ => Ok(()),
        }
    }

    fn lost(&mut self, lost: &StreamLost) -> Verdict {
        let Route::Remote(remote) = &self.route else { return Verdict::Part(Err(ended_already())) };
        let (node, info) = (remote.peer.node.clone(), remote.info.clone());
        let may_have_run = matches!(lost, StreamLost::LinkEnded { may_have_run: true, .. });
        self.conclude(false);
        let is_repeatable = !may_have_run || info.facts.idempotent || info.facts.read_only;
        if !self.is_committed && is_repeatable {
            return Verdict::SendElsewhere;
        }
        let why = match lost {
            StreamLost::NotTaken => "it takes no new calls".to_owned(),
            StreamLost::LinkEnded { why, .. } => why.clone(),
        };
        let message = format!("the link to {node} ended before the answer: {why}");
        let mut fault = Fault::new(ErrorCode::Unavailable, message);
        fault.may_have_run = may_have_run;
        fault.node = Some(node);
        Verdict::Part(Err(fault))
    }

    /// Bookkeeping for a remote call that is over.
    fn conclude(&mut self, is_good: bool) {
        let Route::Remote(remote) = &self.route else { return };
        remote.stream.conclude();
        remote.peer.score.finish(is_good.then(|| remote.started.elapsed()));
        self.is_over = true;
    }

    fn expire(&mut self) -> Fault {
        let mut fault =
            Fault::new(ErrorCode::DeadlineExceeded, "the deadline struck while no provider was found");
        if let Route::Remote(remote) = &self.route {
            remote.stream.cancel(ErrorCode::DeadlineExceeded);
            remote.peer.score.finish(None);
            fault.message = format!("the deadline struck while {} was at work", remote.peer.node);
            fault.node = Some(remote.peer.node.clone());
            fault.may_have_run = true;
            self.is_over = true;
            self.observe(MessageKind::Error, 0, Some(ErrorCode::DeadlineExceeded), Vec::new());
        } else if let Route::LocalItems(_) = &self.route {
            "the deadline struck while items still came".clone_into(&mut fault.message);
            fault.may_have_run = true;
            self.is_over = true;
        }
        fault
    }

    async fn finish_local(&mut self, call: crate::mesh::dispatch::LocalCall) -> Result<Part, Fault> {
        match call.answer.await? {
            (Answer::Value(body), writes) => {
                self.absorb(&writes)?;
                Ok(Part::End(body))
            }
            (Answer::NeedsInput(body), _) => Ok(Part::NeedsInput(body)),
            (Answer::Stream(items), writes) => {
                self.absorb(&writes)?;
                let mut items = crate::mesh::dispatch::LocalItems::new(items);
                let first = items.next().await;
                self.route = Route::LocalItems(items);
                first
            }
        }
    }

    fn observe(
        &self,
        kind: MessageKind,
        bytes: usize,
        code: Option<ErrorCode>,
        slots_written: Vec<hermes_peer_proto::wire::SlotName>,
    ) {
        let Route::Remote(remote) = &self.route else { return };
        self.mesh.observe_answer(crate::mesh::AnswerSeen {
            direction: Direction::Received,
            kind,
            peer: &remote.peer.node,
            agent: remote.stream.link().peer().agent(),
            capability: &self.order.capability,
            message_id: self.message_id,
            trace_id: self.order.parent.as_ref().map_or(self.message_id, |parent| parent.correlation_id),
            session: self.order.session.as_ref().map(SessionUse::id),
            bytes,
            took: remote.started.elapsed(),
            code,
            slots_written,
        });
    }
}

enum Verdict {
    Part(Result<Part, Fault>),
    SendElsewhere,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over
            && let Route::Remote(remote) = &self.route
        {
            remote.stream.cancel(ErrorCode::Cancelled);
            remote.peer.score.forget();
        }
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}

fn ended_already() -> Fault {
    Fault::new(ErrorCode::Internal, "the call has ended already")
}

fn too_large(got: u64, limit: u64, node: &NodeId) -> Fault {
    let message = format!("the request has {got} bytes, {node} takes {limit} (`limits.max_message` there)");
    Fault::new(ErrorCode::TooLarge, message)
}

/// A message for the link.
pub(crate) fn outgoing(envelope: &Envelope, body: &Body) -> Result<Outgoing, Fault> {
    let head = encode_head(envelope, body.bytes.len())
        .map_err(|error| Fault::new(ErrorCode::TooLarge, format!("the message cannot be sent: {error}")))?;
    Ok(Outgoing { head, body: body.bytes.clone() })
}

/// Items that a caller sends after its request.
#[derive(Debug)]
pub(crate) struct ItemSink {
    stream: Arc<StreamHandle>,
}

impl ItemSink {
    pub(crate) fn new(stream: Arc<StreamHandle>) -> Self {
        Self { stream }
    }

    /// Sends one item, waiting while the provider is behind.
    pub(crate) async fn send(&self, body: Body) -> Result<(), Fault> {
        let mut envelope = Envelope::default();
        envelope.content_type = body.content_type.clone();
        let message = outgoing(&envelope, &body)?;
        self.stream.send(MessageType::Stream, message, false).await.map_err(|refused| match refused {
            SendRefused::TooLarge { got, limit } => too_large(got, limit, self.stream.link().peer().node()),
            _ => Fault::new(ErrorCode::Cancelled, "the stream has ended: the provider reads no more items"),
        })
    }

    pub(crate) fn finish(&self) {
        self.stream.finish();
    }
}

/// Items of a peer's stream, as they come.
pub(crate) fn items_of(stream: Arc<StreamHandle>) -> BoxStream<'static, Result<Body, Fault>> {
    futures_util::stream::poll_fn(move |cx| match stream.poll_read(cx) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Ok(None)) => Poll::Ready(None),
        Poll::Ready(Ok(Some(received))) => {
            let item = Envelope::decode(&received.message.envelope)
                .map(|envelope| Body { bytes: received.message.body, content_type: envelope.content_type })
                .map_err(|error| Fault::new(ErrorCode::InvalidFrame, format!("an input item's {error}")));
            Poll::Ready(Some(item))
        }
        Poll::Ready(Err(_)) => {
            let fault = Fault::new(ErrorCode::Unavailable, "the link ended before the end of the input");
            Poll::Ready(Some(Err(fault)))
        }
    })
    .boxed()
}
