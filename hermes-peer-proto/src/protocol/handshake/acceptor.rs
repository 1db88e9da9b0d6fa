//! The side that is dialled.

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
use crate::protocol::error::Incompatible;
use crate::protocol::error::Refused;
use crate::protocol::misbehaviour::PeerMisbehaved;
use crate::protocol::version::VersionRange;
use crate::security::ChannelBinding;
use crate::security::Credentials;
use crate::security::Identity;
use crate::security::Label;
use crate::security::LinkSecret;
use crate::security::MAX_TOKENS;
use crate::security::Prover;
use crate::security::Transcript;
use crate::security::derive_link_secret;
use crate::security::is_resume_proof;
use crate::wire::AgentUri;
use crate::wire::Epoch;
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
use crate::wire::TokenId;

/// Waits for a SYN.
#[derive(Debug)]
#[must_use = "a handshake does nothing until it is given the next frame"]
pub struct Acceptor {
    local: Local,
    nonce: [u8; SECRET_LEN],
    binding: ChannelBinding,
    peer_certificate: Option<CertificateDer<'static>>,
}

impl Acceptor {
    /// For a new TLS connection. `nonce` is random and never used twice; `peer_certificate` is the leaf that TLS has
    /// verified, if there is one.
    pub fn new(
        local: Local,
        nonce: [u8; SECRET_LEN],
        binding: ChannelBinding,
        peer_certificate: Option<CertificateDer<'static>>,
    ) -> Self {
        Self { local, nonce, binding, peer_certificate }
    }

    /// Judges a SYN. Nothing in it is proven yet.
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed, after [`HandshakeError::refusal`] was sent.
    pub fn syn(self, frame: Frame) -> Result<SynReceived, HandshakeError> {
        let payload = payload_of(frame, MessageType::Syn)?;
        let syn = Syn::decode(&payload)?;
        let version = self.choose_version(&syn)?;
        check_fields(Syn::NAME, &syn.fields)?;
        check_announced(&syn.announced)?;
        self.local.check_is_other(&syn.node, syn.epoch)?;
        let (prover, token_id) = self.prover(&syn)?;
        let mut transcript = Transcript::new(&self.binding);
        transcript.absorb(&payload);
        let Self { local, nonce, binding, .. } = self;
        Ok(SynReceived { local, nonce, binding, syn, version, prover, token_id, transcript })
    }

    fn choose_version(&self, syn: &Syn) -> Result<u8, HandshakeError> {
        let (min, max) = (syn.min_version, syn.max_version);
        let theirs = VersionRange::new(min, max).ok_or(PeerMisbehaved::BadVersionRange { min, max })?;
        let ours = self.local.versions;
        Ok(ours.choose(theirs).ok_or(Incompatible::Versions { ours, theirs })?)
    }

    fn prover(&self, syn: &Syn) -> Result<(Prover, Option<TokenId>), HandshakeError> {
        let (ours, theirs) = (self.local.credentials.kind(), syn.auth);
        if ours != theirs {
            return Err(Incompatible::AuthKind { ours, theirs }.into());
        }
        let count = syn.token_ids.len();
        if count > MAX_TOKENS {
            return Err(PeerMisbehaved::TooManyTokenIds { count, limit: MAX_TOKENS }.into());
        }
        match &self.local.credentials {
            Credentials::Mtls { key } => {
                Ok((certificate_prover(key, self.peer_certificate.as_ref(), &syn.agent)?, None))
            }
            Credentials::Token(tokens) => {
                let token = tokens
                    .choose(&syn.token_ids)
                    .ok_or_else(|| Refused::UnknownTokens { tried: syn.token_ids.clone() })?;
                Ok((Prover::Token(token.clone()), Some(token.id())))
            }
        }
    }
}

/// What becomes of a wish to resume.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a link is new, goes on, or cannot")]
pub enum Resumption {
    /// Nothing to go on with.
    New,
    /// The link goes on.
    Continue {
        /// Data frames of the initiator received on it.
        received: u64,
        /// Its secret, the one that [`SynReceived::verify_resume`] has verified.
        secret: LinkSecret,
    },
    /// The link cannot go on.
    Refused {
        /// Data frames of the initiator received on it, where that is still known and the wish was verified.
        received: Option<u64>,
    },
}

/// Has read a SYN, and waits for a decision on the link.
#[derive(Debug)]
#[must_use = "a handshake does nothing until it is given the next frame"]
pub struct SynReceived {
    local: Local,
    nonce: [u8; SECRET_LEN],
    binding: ChannelBinding,
    syn: Syn,
    version: u8,
    prover: Prover,
    token_id: Option<TokenId>,
    transcript: Transcript,
}

impl SynReceived {
    /// Who the initiator says it is. In `mtls` mode its certificate says the same, but that it holds the key of that
    /// certificate is shown only by ESTABLISHED.
    pub fn agent(&self) -> &AgentUri {
        &self.syn.agent
    }

    /// Which process the initiator says it is.
    pub fn node(&self) -> &NodeId {
        &self.syn.node
    }

    /// The initiator's start, as it says.
    pub fn epoch(&self) -> Epoch {
        self.syn.epoch
    }

    /// The link that the initiator wishes to go on with, if the version chosen can do that. The wish counts only if that link
    /// was made with [`agent`](Self::agent) and [`node`](Self::node) in [`epoch`](Self::epoch), and
    /// [`verify_resume`](Self::verify_resume) holds.
    pub fn resume(&self) -> Option<&Resume> {
        self.syn.resume.as_ref().filter(|_| self.version >= FIRST_WITH_RESUME)
    }

    /// Whether the initiator holds this secret of the link that it wishes to go on with.
    pub fn verify_resume(&self, secret: &LinkSecret) -> bool {
        self.resume().is_some() && is_resume_proof(secret, &self.binding, &self.syn)
    }

    /// Answers the SYN, and gives the SYN_ACK to send. `link` is the id of the link if it is a new one.
    ///
    /// A wish is not granted, whatever `resumption` says, unless its proof holds; whether the link went on stands in
    /// [`Authenticated::resumed`].
    pub fn accept(mut self, link: LinkId, resumption: Resumption) -> (ExpectEstablished, Frame) {
        let (link, resumed, former) = self.resolve(link, resumption);
        let body = SynAck {
            version: self.version,
            agent: self.local.agent.clone(),
            node: self.local.node.clone(),
            epoch: self.local.epoch,
            nonce: self.nonce,
            token_id: self.token_id,
            announced: self.local.announced,
            capability_digest: self.local.capability_digest,
            link,
            resumed,
            fields: Vec::new(),
        }
        .encode();
        self.transcript.absorb(&body);
        let proof = self.prover.prove(Label::Acceptor, &self.transcript.hash());
        self.transcript.absorb(&proof);
        let frame = Frame::control(MessageType::SynAck, StreamId::LINK, with_proof(&body, &proof));
        (ExpectEstablished { received: self, link, resumed, former }, frame)
    }

    fn resolve(&self, link: LinkId, resumption: Resumption) -> (LinkId, Resumed, Option<LinkSecret>) {
        if self.syn.resume.is_none() {
            return (link, Resumed::New, None);
        }
        match (resumption, self.resume()) {
            (Resumption::Continue { received, secret }, Some(wish)) if self.verify_resume(&secret) => {
                (wish.link, Resumed::Yes { received }, Some(secret))
            }
            (Resumption::Refused { received }, Some(_)) => (link, Resumed::No { received }, None),
            _ => (link, Resumed::No { received: None }, None),
        }
    }
}

/// Has sent its SYN_ACK and waits for ESTABLISHED.
#[derive(Debug)]
#[must_use = "a handshake does nothing until it is given the next frame"]
pub struct ExpectEstablished {
    received: SynReceived,
    link: LinkId,
    resumed: Resumed,
    former: Option<LinkSecret>,
}

impl ExpectEstablished {
    /// The version in the header of all that this side sends from here on, a refusal of ESTABLISHED included.
    pub fn version(&self) -> u8 {
        self.received.version
    }

    /// Judges the initiator's proof.
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed, after [`HandshakeError::refusal`] was sent in
    /// [`version`](Self::version).
    pub fn established(self, frame: Frame) -> Result<Authenticated, HandshakeError> {
        let payload = payload_of(frame, MessageType::Established)?;
        let (message, body, proof) = take_with_proof::<Established>(&payload)?;
        check_fields(Established::NAME, &message.fields)?;
        let SynReceived { local, binding, syn, version, prover, token_id, mut transcript, .. } =
            self.received;
        transcript.absorb(body);
        let hash = transcript.hash();
        if !prover.is_proof(Label::Initiator, &hash, &proof) {
            return Err(Refused::Proof { kind: local.credentials.kind() }.into());
        }
        Ok(Authenticated {
            secret: derive_link_secret(&binding, prover.shared(), self.former.as_ref(), &hash),
            identity: Identity::proven(syn.agent, syn.node),
            epoch: syn.epoch,
            version,
            link: self.link,
            announced: syn.announced,
            capability_digest: None,
            resumed: seen_from_here(self.resumed, syn.resume.as_ref()),
            side: Side::Acceptor,
            token_id,
        })
    }
}

/// The same answer with the initiator's count instead of this side's.
fn seen_from_here(resumed: Resumed, wish: Option<&Resume>) -> Resumed {
    match (resumed, wish) {
        (Resumed::Yes { .. }, Some(wish)) => Resumed::Yes { received: wish.received },
        (Resumed::No { received: Some(_) }, Some(wish)) => Resumed::No { received: Some(wish.received) },
        (other, _) => other,
    }
}
