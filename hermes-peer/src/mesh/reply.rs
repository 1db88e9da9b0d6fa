//! Answers on their way back.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::SlotValue;

use crate::link::StreamHandle;
use crate::mesh::ending::STILL_ITEMS;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::message::outgoing;
use crate::mesh::seen::Seen;
use crate::mesh::state::Mesh;
use crate::observe::MessageKind;

impl Mesh {
    pub(crate) async fn send_answer(
        &self,
        stream: &Arc<StreamHandle>,
        seen: &Seen,
        answer: Answer,
        writes: Vec<SlotValue>,
        (cancelled, deadline): (&CancellationToken, Instant),
    ) {
        let (body, outcome) = match answer {
            Answer::Value(body) => (body, Outcome::Value),
            Answer::NeedsInput(body) => (body, Outcome::NeedsInput),
            Answer::Stream(items) => {
                let sending = self.send_items(stream, seen, items);
                let sent = tokio::select! {
                    sent = sending => sent,
                    () = cancelled.cancelled() => return stream.conclude(),
                    // Also while the caller takes nothing: an item that waits for its window is no reason to wait for ever.
                    () = tokio::time::sleep_until(deadline) => {
                        cancelled.cancel();
                        Err(Fault::new(ErrorCode::DeadlineExceeded, STILL_ITEMS))
                    }
                };
                match sent {
                    Ok(()) => (
                        Body { bytes: bytes::Bytes::new(), content_type: ContentType::Bytes },
                        Outcome::Value,
                    ),
                    Err(fault) => {
                        seen.answer(self, MessageKind::Error, 0, Some(fault.code), &[]);
                        return self.send_fault(stream, &fault);
                    }
                }
            }
        };
        let mut envelope = Envelope::default();
        envelope.content_type = body.content_type.clone();
        envelope.outcome = outcome;
        envelope.slots = writes;
        seen.answer(self, MessageKind::Response, body.bytes.len(), None, &envelope.slots);
        let sent = outgoing(&envelope, &body).and_then(|message| {
            stream.try_send(MessageType::Response, message, true).map_err(|refused| refused_answer(&refused))
        });
        match sent {
            Ok(()) => stream.conclude(),
            Err(fault) => self.send_fault(stream, &fault),
        }
    }

    async fn send_items(
        &self,
        stream: &StreamHandle,
        seen: &Seen,
        mut items: BoxStream<'static, Result<Body, Fault>>,
    ) -> Result<(), Fault> {
        while let Some(item) = items.next().await {
            let body = item?;
            let mut envelope = Envelope::default();
            envelope.content_type = body.content_type.clone();
            let message = outgoing(&envelope, &body)?;
            stream
                .send(MessageType::Stream, message, false)
                .await
                .map_err(|refused| refused_answer(&refused))?;
            seen.answer(self, MessageKind::Item, body.bytes.len(), None, &[]);
        }
        Ok(())
    }

    pub(crate) fn send_fault(&self, stream: &StreamHandle, fault: &Fault) {
        let body = Body { bytes: fault.encode(), content_type: ContentType::Postcard };
        if let Ok(message) = outgoing(&Envelope::default(), &body) {
            // A stream that has ended needs no error: its caller has one already.
            let _ended = stream.try_send(MessageType::Error, message, true);
        }
        stream.conclude();
    }
}

fn refused_answer(refused: &SendRefused) -> Fault {
    match refused {
        SendRefused::TooLarge { got, limit } => Fault::new(
            ErrorCode::TooLarge,
            format!("the answer has {got} bytes, the caller takes {limit} (`limits.max_message` there)"),
        ),
        _ => Fault::new(ErrorCode::Cancelled, "the caller has gone"),
    }
}
