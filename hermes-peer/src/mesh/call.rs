//! The caller's half of a call: a provider, a stream, one ending.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;

use tokio::time::Instant;

use hermes_peer_proto::protocol::DEFAULT_PRIORITY;
use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::Trace;

use crate::link::LinkHandle;
use crate::link::StreamHandle;
use crate::link::StreamLost;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::local::LocalCall;
use crate::mesh::local::LocalItems;
use crate::mesh::message::outgoing;
use crate::mesh::message::too_large;
use crate::mesh::order::Order;
use crate::mesh::participation::SessionUse;
use crate::mesh::peers::Peer;
use crate::mesh::state::AnswerSeen;
use crate::mesh::state::Mesh;
use crate::observe::Direction;
use crate::observe::MessageKind;

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
    pub(super) mesh: Arc<Mesh>,
    pub(super) order: Order,
    pub(super) message_id: MessageId,
    pub(super) deadline: Instant,
    pub(super) route: Route,
    pub(super) tried: Vec<NodeId>,
    pub(super) attempt: u8,
    /// Something of the answer has come, or items were sent: from here on it is not sent elsewhere by itself.
    pub(super) is_committed: bool,
    pub(super) is_over: bool,
}

pub(super) enum Route {
    Remote(Remote),
    /// The capability is provided by this node itself.
    Local(Option<LocalCall>),
    LocalItems(LocalItems),
}

pub(super) struct Remote {
    pub(super) stream: Arc<StreamHandle>,
    pub(super) peer: Arc<Peer>,
    pub(super) info: Arc<CapabilityInfo>,
    pub(super) started: Instant,
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

    /// Who answers; `None` if the call is handled in this process.
    pub(crate) fn provider(&self) -> Option<&NodeId> {
        match &self.route {
            Route::Remote(remote) => Some(&remote.peer.node),
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
            let Some(link) = provider.peer.calling_link() else {
                self.was_not_taken(&provider.peer.node);
                continue;
            };
            let priority = self.order.priority.unwrap_or(DEFAULT_PRIORITY);
            let opened = poll_fn(|cx: &mut Context<'_>| link.poll_open(cx, priority));
            let stream = match tokio::time::timeout_at(self.deadline, opened).await {
                Ok(Ok(stream)) => Arc::new(stream),
                Ok(Err(_)) => {
                    self.was_not_taken(&provider.peer.node);
                    continue;
                }
                Err(_) => return Err(self.expire()),
            };
            let envelope = self.envelope(&provider.info, &link)?;
            let slots_read = envelope.slots.iter().map(|slot| slot.name.clone()).collect();
            let message = outgoing(&envelope, &self.order.body)?;
            match stream.try_send(MessageType::Request, message, !self.order.has_items) {
                Ok(()) => {}
                Err(SendRefused::TooLarge { got, limit }) => {
                    return Err(too_large(got, limit, &provider.peer.node));
                }
                Err(_) => {
                    self.was_not_taken(&provider.peer.node);
                    continue;
                }
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

    fn envelope(&self, info: &CapabilityInfo, link: &LinkHandle) -> Result<Envelope, Fault> {
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
            // What policy keeps from the provider does not travel.
            let names = info.reads.iter().chain(&info.writes);
            envelope.slots = session.read(names.filter(|slot| self.mesh.may_read(link, slot)))?;
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
        if let Err(fault) = self.check_writes(&envelope.slots).and_then(|()| self.absorb(&envelope.slots)) {
            self.give_up();
            return Err(fault);
        }
        if message_type == MessageType::Stream {
            return Ok(Part::Item(body));
        }
        self.conclude(true);
        Ok(match envelope.outcome {
            Outcome::NeedsInput => Part::NeedsInput(body),
            _ => Part::End(body),
        })
    }

    /// Writes of slots that came with the answer.
    fn absorb(&self, writes: &[SlotValue]) -> Result<(), Fault> {
        match &self.order.session {
            Some(session) if !writes.is_empty() => session.absorb(writes),
            _ => Ok(()),
        }
    }

    async fn finish_local(&mut self, call: LocalCall) -> Result<Part, Fault> {
        match call.answer.await? {
            (Answer::Value(body), writes) => {
                self.absorb(&writes)?;
                Ok(Part::End(body))
            }
            (Answer::NeedsInput(body), _) => Ok(Part::NeedsInput(body)),
            (Answer::Stream(items), writes) => {
                self.absorb(&writes)?;
                let mut items = LocalItems::new(items);
                let first = items.next().await;
                self.route = Route::LocalItems(items);
                first
            }
        }
    }

    pub(super) fn observe(
        &self,
        kind: MessageKind,
        bytes: usize,
        code: Option<ErrorCode>,
        slots_written: Vec<hermes_peer_proto::wire::SlotName>,
    ) {
        let Route::Remote(remote) = &self.route else { return };
        self.mesh.observe_answer(AnswerSeen {
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

pub(super) enum Verdict {
    Part(Result<Part, Fault>),
    SendElsewhere,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.give_up();
        }
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}

pub(super) fn ended_already() -> Fault {
    Fault::new(ErrorCode::Internal, "the call has ended already")
}
