//! Calls with an idempotency key: the answer of the first as it is kept, and as it comes back.

use std::sync::Arc;

use bytes::Bytes;
use bytes::BytesMut;
use tokio::time::Instant;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;

use crate::mesh::Mesh;
use crate::mesh::dispatch::Outcomes;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::idempotency::Begin;
use crate::mesh::idempotency::CallKey;
use crate::mesh::idempotency::First;
use crate::mesh::idempotency::KeyRefused;
use crate::mesh::idempotency::StoredReply;

impl Mesh {
    /// Runs a call unless its key came before; then the first answer is given again.
    pub(crate) async fn once<F>(
        self: Arc<Self>,
        caller: AgentUri,
        info: &CapabilityInfo,
        key: String,
        body: &[u8],
        run: impl FnOnce() -> F,
    ) -> Result<Outcomes, Fault>
    where
        F: Future<Output = Result<Outcomes, Fault>>,
    {
        let key = CallKey { caller, capability: info.name.clone(), key };
        let guard = loop {
            match self.idempotency.begin(key.clone(), body, info.facts.idempotent, Instant::now()) {
                Ok(Begin::Run(guard)) => break guard,
                Ok(Begin::Replay(reply)) => return restore(&reply),
                Ok(Begin::Wait(first)) => match first.first().await {
                    First::Replied(reply) => return restore(&reply),
                    First::Unknown => return Err(refused(&KeyRefused::OutcomeUnknown)),
                    First::Again => {}
                },
                Err(error) => return Err(refused(&error)),
            }
        };
        let outcome = run().await;
        match &outcome {
            Ok((Answer::Value(body), writes)) => {
                let mut envelope = Envelope::default();
                envelope.content_type = body.content_type.clone();
                envelope.slots.clone_from(writes);
                guard.replied(keep(MessageType::Response, &envelope, &body.bytes));
            }
            // Turned away at the door: the key is free.
            Err(fault) if fault.code == ErrorCode::Overloaded => guard.never_began(),
            // Whether these did their work before their end nobody knows; nor is a stream kept.
            Err(fault) if is_open_ended(fault.code) => {}
            Ok((Answer::Stream(_) | Answer::NeedsInput(_), _)) => {}
            Err(fault) => guard.replied(keep(MessageType::Error, &Envelope::default(), &fault.encode())),
        }
        outcome
    }
}

fn is_open_ended(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::HandlerPanicked
            | ErrorCode::Cancelled
            | ErrorCode::DeadlineExceeded
            | ErrorCode::OutcomeUnknown
    )
}

fn keep(kind: MessageType, envelope: &Envelope, body: &[u8]) -> StoredReply {
    let mut encoded = BytesMut::new();
    envelope.encode_into(&mut encoded);
    StoredReply { kind, envelope: encoded.freeze(), body: Bytes::copy_from_slice(body) }
}

fn restore(reply: &StoredReply) -> Result<Outcomes, Fault> {
    let broken =
        |error: hermes_peer_proto::wire::WireError| Fault::new(ErrorCode::Internal, error.to_string());
    if reply.kind == MessageType::Error {
        return Err(Fault::decode(&reply.body).unwrap_or_else(broken));
    }
    let envelope = Envelope::decode(&reply.envelope).map_err(broken)?;
    let body = Body { bytes: reply.body.clone(), content_type: envelope.content_type };
    Ok((Answer::Value(body), envelope.slots))
}

fn refused(error: &KeyRefused) -> Fault {
    let mut fault = Fault::new(error.code(), error.to_string());
    fault.may_have_run = matches!(error, KeyRefused::OutcomeUnknown);
    fault
}
