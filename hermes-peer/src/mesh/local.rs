//! Calls that a node makes to itself: the same steps, without a link.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::MessageId;

use crate::mesh::call::Part;
use crate::mesh::dispatch::Outcomes;
use crate::mesh::dispatch::Request;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::handler::Caller;
use crate::mesh::order::Order;
use crate::mesh::state::Mesh;

/// A call that this node makes to itself.
pub(crate) struct LocalCall {
    pub(crate) answer: Pin<Box<dyn Future<Output = Result<Outcomes, Fault>> + Send>>,
}

/// Items of a call that this node makes to itself.
pub(crate) struct LocalItems(BoxStream<'static, Result<Body, Fault>>);

impl LocalItems {
    pub(crate) fn new(items: BoxStream<'static, Result<Body, Fault>>) -> Self {
        Self(items)
    }

    pub(crate) async fn next(&mut self) -> Result<Part, Fault> {
        match self.0.next().await {
            Some(item) => item.map(Part::Item),
            // As over a link: the end of a stream is no item.
            None => Ok(Part::End(Body::raw(bytes::Bytes::new()))),
        }
    }
}

impl Mesh {
    /// A call from this node to itself takes the same steps, without a link.
    pub(crate) fn call_here(
        self: &Arc<Self>,
        order: &Order,
        message_id: MessageId,
        deadline: Instant,
        attempt: u8,
    ) -> Result<LocalCall, Fault> {
        let mut envelope = Envelope::default();
        envelope.capability = Some(order.capability.clone());
        envelope.message_id = Some(message_id);
        envelope.idempotency_key.clone_from(&order.key);
        envelope.attempt = attempt;
        envelope.budget = order.budget;
        envelope.on_behalf_of.clone_from(&order.on_behalf_of);
        if let Some(parent) = order.parent.as_deref() {
            envelope.correlation_id = Some(parent.correlation_id);
            envelope.path.clone_from(&parent.path);
            envelope.path.push(Hop { node: self.node.clone(), capability: parent.capability.clone() });
            envelope.hops = parent.hops.saturating_add(1);
            envelope.trace = Some(parent.trace.clone());
        }
        if let Some(session) = &order.session
            && let Some(registered) = self.handlers.load().get(&order.capability)
        {
            envelope.session = Some(session.id());
            let info = &registered.info;
            envelope.slots = session.read(info.reads.iter().chain(&info.writes))?;
        }
        let caller = Caller {
            agent: self.agent.clone(),
            node: self.node.clone(),
            is_same_user: self.settings.is_same_user,
        };
        let cancelled = CancellationToken::new();
        let request = Request {
            caller,
            envelope,
            body: order.body.clone(),
            message_id,
            deadline,
            items: None,
            cancelled: cancelled.clone(),
        };
        let run = self.clone().run(request);
        let guard = cancelled.drop_guard();
        Ok(LocalCall {
            answer: Box::pin(async move {
                Ok(match run.await? {
                    // Its caller still reads: the call is given up with the stream, not before.
                    (Answer::Stream(items), writes) => {
                        let guarded = items.inspect(move |_| {
                            let _held = &guard;
                        });
                        (Answer::Stream(guarded.boxed()), writes)
                    }
                    whole => whole,
                })
            }),
        })
    }
}
