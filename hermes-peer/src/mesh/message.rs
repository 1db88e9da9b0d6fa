//! Messages as they go onto a link and streamed items as they come off it.

use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use hermes_peer_proto::protocol::Outgoing;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::encode_head;

use crate::link::StreamHandle;
use crate::mesh::handler::Body;

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

/// A request that the provider would not take.
pub(crate) fn too_large(got: u64, limit: u64, node: &NodeId) -> Fault {
    let message = format!("the request has {got} bytes, {node} takes {limit} (`limits.max_message` there)");
    Fault::new(ErrorCode::TooLarge, message)
}
