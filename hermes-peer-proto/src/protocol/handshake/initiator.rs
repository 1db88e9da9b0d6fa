//! The side that dials.

use rustls_pki_types::CertificateDer;

use super::parts::Authenticated;
use super::parts::FIRST_WITH_RESUME;
use super::parts::Local;
use super::parts::certificate_prover;
use super::parts::check_announced;
use super::parts::check_fields;
use super::parts::payload_of;
use super::parts::take_with_proof;
use super::parts::with_proof;
use crate::protocol::error::HandshakeError;
use crate::protocol::error::Refused;
use crate::protocol::misbehaviour::PeerMisbehaved;
use crate::security::ChannelBinding;
use crate::security::Credentials;
use crate::security::Identity;
use crate::security::Label;
use crate::security::LinkSecret;
use crate::security::Prover;
use crate::security::Transcript;
use crate::security::derive_link_secret;
use crate::security::resume_proof;
use crate::wire::AgentUri;
use crate::wire::Established;
use crate::wire::Frame;
use crate::wire::LinkId;
use crate::wire::MessageType;
use crate::wire::NodeId;
use crate::wire::Payload;
use crate::wire::Resume;
use crate::wire::Resumed;
use crate::wire::SECRET_LEN;
use crate::wire::Side;
use crate::wire::StreamId;
use crate::wire::Syn;
use crate::wire::SynAck;

/// A link that is to go on over the new connection.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what a resume takes")]
pub struct ResumeTicket {
    /// Which link.
    pub link: LinkId,
    /// Data frames of the peer received on it.
    pub received: u64,
    /// Its secret, as the last handshake left it.
    pub secret: LinkSecret,
}

/// Who must answer. What is left open, any authenticated peer may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an identity has two parts")]
pub struct Expected {
    /// The agent. In `mtls` mode the only part that a certificate proves: a node of another agent can claim any node id.
    pub agent: Option<AgentUri>,
    /// The node.
    pub node: Option<NodeId>,
}

/// Has sent its SYN and waits for SYN_ACK.
#[derive(Debug)]
#[must_use = "a handshake does nothing until it is given the next frame"]
pub struct Initiator {
    local: Local,
    binding: ChannelBinding,
    peer_certificate: Option<CertificateDer<'static>>,
    ticket: Option<ResumeTicket>,
    expected: Expected,
    transcript: Transcript,
}

impl Initiator {
    /// Begins a handshake on a new TLS connection, and gives the SYN to send.
    ///
    /// `nonce` is random and never used twice. `peer_certificate` is the leaf that TLS has verified, if there is one. A
    /// ticket is offered only where this node speaks a version that resumes.
    pub fn start(
        local: Local,
        nonce: [u8; SECRET_LEN],
        binding: ChannelBinding,
        peer_certificate: Option<CertificateDer<'static>>,
        ticket: Option<ResumeTicket>,
        expected: Expected,
    ) -> (Self, Frame) {
        let ticket = ticket.filter(|_| local.versions.max() >= FIRST_WITH_RESUME);
        let payload = syn(&local, nonce, &binding, ticket.as_ref()).encode();
        let mut transcript = Transcript::new(&binding);
        transcript.absorb(&payload);
        let machine = Self { local, binding, peer_certificate, ticket, expected, transcript };
        (machine, Frame::control(MessageType::Syn, StreamId::LINK, payload))
    }

    /// Judges the acceptor's answer, and gives the ESTABLISHED to send. The acceptor may still refuse this node: until the
    /// first frame comes in on the connection, keep what a resume of the former one needs.
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed, after [`HandshakeError::refusal`] was sent.
    pub fn syn_ack(mut self, frame: Frame) -> Result<(Authenticated, Frame), HandshakeError> {
        let payload = payload_of(frame, MessageType::SynAck)?;
        let (answer, body, proof) = take_with_proof::<SynAck>(&payload)?;
        self.check_pick(answer.version)?;
        check_fields(SynAck::NAME, &answer.fields)?;
        check_announced(&answer.announced)?;
        let prover = self.prover(&answer)?;
        self.transcript.absorb(body);
        if !prover.is_proof(Label::Acceptor, &self.transcript.hash(), &proof) {
            return Err(Refused::Proof { kind: self.local.credentials.kind() }.into());
        }
        self.check_is_expected(&answer)?;
        self.check_resumed(&answer)?;
        Ok(self.establish(answer, &proof, &prover))
    }

    fn check_pick(&self, picked: u8) -> Result<(), PeerMisbehaved> {
        let offered = self.local.versions;
        if (offered.min()..=offered.max()).contains(&picked) {
            Ok(())
        } else {
            Err(PeerMisbehaved::WrongPick { picked, offered })
        }
    }

    fn prover(&self, answer: &SynAck) -> Result<Prover, HandshakeError> {
        match (&self.local.credentials, answer.token_id) {
            (Credentials::Mtls { key }, None) => {
                Ok(certificate_prover(key, self.peer_certificate.as_ref(), &answer.agent)?)
            }
            (Credentials::Token(tokens), Some(id)) => {
                let token = tokens.get(id).ok_or(PeerMisbehaved::WrongToken)?;
                Ok(Prover::Token(token.clone()))
            }
            _ => Err(PeerMisbehaved::WrongToken.into()),
        }
    }

    fn check_is_expected(&self, answer: &SynAck) -> Result<(), Refused> {
        self.local.check_is_other(&answer.node, answer.epoch)?;
        match (&self.expected.agent, &self.expected.node) {
            (Some(agent), _) if *agent != answer.agent => {
                Err(Refused::WrongAgent { expected: agent.clone(), found: answer.agent.clone() })
            }
            (_, Some(node)) if *node != answer.node => {
                Err(Refused::WrongNode { expected: node.clone(), found: answer.node.clone() })
            }
            _ => Ok(()),
        }
    }

    fn check_resumed(&self, answer: &SynAck) -> Result<(), PeerMisbehaved> {
        let is_old_link = self.ticket.as_ref().is_some_and(|ticket| ticket.link == answer.link);
        let why = match (&self.ticket, answer.resumed) {
            (None, Resumed::New) => return Ok(()),
            (None, _) => "nothing was asked for",
            (Some(_), Resumed::New) => "it was asked for and not answered",
            (Some(_), Resumed::Yes { .. }) if answer.version < FIRST_WITH_RESUME => {
                "the version chosen has no resume"
            }
            (Some(_), Resumed::Yes { .. }) if !is_old_link => "another link than asked for goes on",
            (Some(_), Resumed::No { .. }) if is_old_link => "the link refused is given as the new one",
            (Some(_), Resumed::Yes { .. } | Resumed::No { .. }) => return Ok(()),
        };
        Err(PeerMisbehaved::WrongResume { why })
    }

    fn establish(mut self, answer: SynAck, proof: &[u8], prover: &Prover) -> (Authenticated, Frame) {
        let body = Established { fields: Vec::new() }.encode();
        self.transcript.absorb(proof);
        self.transcript.absorb(&body);
        let hash = self.transcript.hash();
        let payload = with_proof(&body, &prover.prove(Label::Initiator, &hash));
        let former = match answer.resumed {
            Resumed::Yes { .. } => self.ticket.as_ref().map(|ticket| &ticket.secret),
            Resumed::New | Resumed::No { .. } => None,
        };
        let authenticated = Authenticated {
            secret: derive_link_secret(&self.binding, prover.shared(), former, &hash),
            identity: Identity::proven(answer.agent, answer.node),
            epoch: answer.epoch,
            version: answer.version,
            link: answer.link,
            announced: answer.announced,
            capability_digest: Some(answer.capability_digest),
            resumed: answer.resumed,
            side: Side::Initiator,
            token_id: answer.token_id,
        };
        (authenticated, Frame::control(MessageType::Established, StreamId::LINK, payload))
    }
}

fn syn(
    local: &Local,
    nonce: [u8; SECRET_LEN],
    binding: &ChannelBinding,
    ticket: Option<&ResumeTicket>,
) -> Syn {
    let mut syn = Syn {
        min_version: local.versions.min(),
        max_version: local.versions.max(),
        agent: local.agent.clone(),
        node: local.node.clone(),
        epoch: local.epoch,
        nonce,
        auth: local.credentials.kind(),
        token_ids: match &local.credentials {
            Credentials::Mtls { .. } => Vec::new(),
            Credentials::Token(tokens) => tokens.ids().collect(),
        },
        announced: local.announced,
        resume: ticket.map(|ticket| Resume {
            link: ticket.link,
            received: ticket.received,
            proof: [0; SECRET_LEN],
        }),
        fields: Vec::new(),
    };
    if let Some(ticket) = ticket {
        let proof = resume_proof(&ticket.secret, binding, &syn);
        syn.resume = syn.resume.map(|resume| Resume { proof, ..resume });
    }
    syn
}
