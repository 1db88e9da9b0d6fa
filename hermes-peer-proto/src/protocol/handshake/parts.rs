//! What both roles share: who this node is, who the peer proved to be, messages with proofs.

use std::sync::Arc;

use bytes::Bytes;
use rustls_pki_types::CertificateDer;

use crate::protocol::error::HandshakeError;
use crate::protocol::error::Incompatible;
use crate::protocol::error::Refused;
use crate::protocol::limits::MIN_CHUNK;
use crate::protocol::limits::MIN_HEARTBEAT_MS;
use crate::protocol::limits::MIN_WINDOW;
use crate::protocol::misbehaviour::PeerMisbehaved;
use crate::protocol::version::VersionRange;
use crate::security::CertificateKey;
use crate::security::Credentials;
use crate::security::Identity;
use crate::security::LinkSecret;
use crate::security::Prover;
use crate::security::agent_of_certificate;
use crate::wire::AgentUri;
use crate::wire::Announced;
use crate::wire::Epoch;
use crate::wire::Fault;
use crate::wire::Field;
use crate::wire::Frame;
use crate::wire::LinkId;
use crate::wire::MessageType;
use crate::wire::NodeId;
use crate::wire::Payload;
use crate::wire::Resumed;
use crate::wire::SECRET_LEN;
use crate::wire::Side;
use crate::wire::StreamId;
use crate::wire::TokenId;
use crate::wire::VERSION_MIN;
use crate::wire::WireError;

/// The version in the header of SYN, SYN_ACK, ESTABLISHED and of the ERROR in place of one of them.
pub const HANDSHAKE_VERSION: u8 = VERSION_MIN;

/// From this version on a link can go on over a new connection.
pub(super) const FIRST_WITH_RESUME: u8 = 2;

/// What this node says of itself in a handshake.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "all of it is needed")]
pub struct Local {
    /// The logical identity. In `mtls` mode the one of the own certificate.
    pub agent: AgentUri,
    /// This process.
    pub node: NodeId,
    /// Its start.
    pub epoch: Epoch,
    /// What this node takes.
    pub announced: Announced,
    /// What it proves itself with.
    pub credentials: Credentials,
    /// Hash over the capabilities that it provides.
    pub capability_digest: [u8; SECRET_LEN],
    /// The versions that it speaks.
    pub versions: VersionRange,
}

/// The end of a handshake: a link is up.
#[derive(Debug)]
#[non_exhaustive]
pub struct Authenticated {
    /// Who the peer is.
    pub identity: Identity,
    /// The peer's start.
    pub epoch: Epoch,
    /// The version spoken from here on.
    pub version: u8,
    /// The link that this connection carries.
    pub link: LinkId,
    /// The link's secret from here on, new with each connection.
    pub secret: LinkSecret,
    /// What the peer takes.
    pub announced: Announced,
    /// Hash over the capabilities that the peer provides. Only the initiator is told.
    pub capability_digest: Option<[u8; SECRET_LEN]>,
    /// Whether the link goes on. The counts are the peer's: data frames of this node that it has received.
    pub resumed: Resumed,
    /// Which part this node had in the handshake: who dialled this connection, not necessarily the link.
    pub side: Side,
    /// The token that the proofs were keyed by.
    pub token_id: Option<TokenId>,
}

/// The payload of the frame that is due, or what the other frame means.
pub(super) fn payload_of(frame: Frame, expected: MessageType) -> Result<Bytes, HandshakeError> {
    let is_of_the_link = frame.stream == StreamId::LINK && !frame.is_data();
    match frame.message_type {
        got if got == expected && is_of_the_link => Ok(frame.payload),
        MessageType::Error if is_of_the_link => {
            Err(HandshakeError::RefusedByPeer(Fault::decode(&frame.payload)?))
        }
        got => Err(PeerMisbehaved::UnexpectedFrame { expected, got, stream: frame.stream }.into()),
    }
}

/// A message and the proof that follows it.
pub(super) fn with_proof(body: &[u8], proof: &[u8]) -> Vec<u8> {
    let proof = postcard::to_stdvec(proof).expect("bytes are what postcard can always write");
    [body, &proof].concat()
}

/// Reads a message and the proof that follows it; the message also as the bytes that the proof covers.
pub(super) fn take_with_proof<T: Payload>(payload: &[u8]) -> Result<(T, &[u8], Vec<u8>), WireError> {
    let (message, rest) = T::take(payload)?;
    let body = &payload[..payload.len() - rest.len()];
    let (proof, rest) =
        postcard::take_from_bytes(rest).map_err(|error| WireError::malformed(T::NAME, error))?;
    if rest.is_empty() {
        Ok((message, body, proof))
    } else {
        Err(WireError::TrailingBytes { what: T::NAME, count: rest.len() })
    }
}

/// No version up to 2 defines a field of its own, so each is unknown.
pub(super) fn check_fields(message: &'static str, fields: &[Field]) -> Result<(), Incompatible> {
    match fields.iter().find(|field| field.mandatory) {
        Some(field) => Err(Incompatible::MandatoryField { message, tag: field.tag }),
        None => Ok(()),
    }
}

pub(super) fn check_announced(announced: &Announced) -> Result<(), PeerMisbehaved> {
    for (name, got, least) in [
        ("max_chunk", announced.max_chunk, MIN_CHUNK),
        ("heartbeat_ms", announced.heartbeat_ms, MIN_HEARTBEAT_MS),
        ("max_message", announced.max_message, MIN_WINDOW),
        ("stream_window", announced.stream_window, MIN_WINDOW),
        ("link_window", announced.link_window, MIN_WINDOW),
        ("event_window", announced.event_window, MIN_WINDOW),
    ] {
        if got < least {
            return Err(PeerMisbehaved::BadLimit { name, got, least });
        }
    }
    Ok(())
}

impl Local {
    /// A node never links to itself, nor to another that goes by its id.
    pub(super) fn check_is_other(&self, node: &NodeId, epoch: Epoch) -> Result<(), Refused> {
        if *node != self.node {
            Ok(())
        } else if epoch == self.epoch {
            Err(Refused::SelfConnection { node: node.clone() })
        } else {
            Err(Refused::TwinNode { node: node.clone() })
        }
    }
}

/// Any certificate of the CA is not any agent: the one that the peer claims must stand in its certificate.
pub(super) fn certificate_prover(
    own: &Arc<CertificateKey>,
    peer: Option<&CertificateDer<'static>>,
    claimed: &AgentUri,
) -> Result<Prover, Refused> {
    let peer = peer.ok_or(Refused::NoCertificate)?;
    let agent = agent_of_certificate(peer).map_err(Refused::Certificate)?;
    if agent == *claimed {
        Ok(Prover::Certificate { own: Arc::clone(own), peer: peer.clone() })
    } else {
        Err(Refused::AgentMismatch { expected: agent, found: claimed.clone() })
    }
}
