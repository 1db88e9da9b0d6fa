//! What both sides of a handshake hash, and what is derived from it.
//!
//! ```text
//!  part(x)    = length of x as u32, little-endian, then x
//!  T_resume   = SHA-256( part("hermes-peer handshake 1") part(exporter) part(SYN, its resume proof zeroed) )
//!  T_acceptor = SHA-256( part("hermes-peer handshake 1") part(exporter) part(SYN) part(SYN_ACK without its proof) )
//!  T_final    = SHA-256( …all of T_acceptor's input… part(proof of SYN_ACK) part(ESTABLISHED without its proof) )
//! ```
//!
//! Each is used under a label of its own, so that no proof can be taken for another.

use aws_lc_rs::digest::Context;
use aws_lc_rs::digest::SHA256;
use aws_lc_rs::hkdf;
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use super::secret::LinkSecret;
use super::secret::Secret;
use crate::wire::Payload;
use crate::wire::SECRET_LEN;
use crate::wire::Syn;

/// Label of the TLS exporter whose 32 bytes, with an empty context, bind a handshake to its connection.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-hermes-peer";

const PROTOCOL: &[u8] = b"hermes-peer handshake 1";

/// The 32 bytes that TLS exports for this connection under [`EXPORTER_LABEL`]. The two ends of one TLS connection have the
/// same, and nobody in between does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelBinding(Secret<[u8; SECRET_LEN]>);

impl ChannelBinding {
    /// From what TLS exported.
    pub fn new(exported: [u8; SECRET_LEN]) -> Self {
        Self(Secret::new(exported))
    }
}

/// What a transcript's hash is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Acceptor,
    Initiator,
    Resume,
    LinkSecret,
}

impl Label {
    pub(crate) const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Acceptor => b"hermes-peer 1 acceptor proof",
            Self::Initiator => b"hermes-peer 1 initiator proof",
            Self::Resume => b"hermes-peer 1 resume proof",
            Self::LinkSecret => b"hermes-peer 1 link secret",
        }
    }
}

/// A transcript's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TranscriptHash([u8; SECRET_LEN]);

impl TranscriptHash {
    pub(crate) fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// What a proof is made over.
    pub(crate) fn labelled(&self, label: Label) -> Vec<u8> {
        [label.bytes(), &self.0].concat()
    }
}

/// The handshake so far.
#[derive(Clone)]
pub(crate) struct Transcript(Context);

impl Transcript {
    pub(crate) fn new(binding: &ChannelBinding) -> Self {
        let mut transcript = Self(Context::new(&SHA256));
        transcript.absorb(PROTOCOL);
        transcript.absorb(binding.0.expose());
        transcript
    }

    /// The length goes first: otherwise bytes could move from one part to the next.
    pub(crate) fn absorb(&mut self, part: &[u8]) {
        let len = u32::try_from(part.len()).expect("a handshake's payload is far shorter than 4 GiB");
        self.0.update(&len.to_le_bytes());
        self.0.update(part);
    }

    pub(crate) fn hash(&self) -> TranscriptHash {
        let digest = self.0.clone().finish();
        TranscriptHash(*digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
    }
}

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transcript")
    }
}

/// What a SYN that wishes to resume is proven over: all of it but the proof itself.
fn resume_hash(binding: &ChannelBinding, syn: &Syn) -> TranscriptHash {
    let mut unproven = syn.clone();
    if let Some(resume) = &mut unproven.resume {
        resume.proof = [0; SECRET_LEN];
    }
    let mut transcript = Transcript::new(binding);
    transcript.absorb(&unproven.encode());
    transcript.hash()
}

/// Shows that whoever sends this SYN over this connection holds the link's secret.
pub(crate) fn resume_proof(secret: &LinkSecret, binding: &ChannelBinding, syn: &Syn) -> [u8; SECRET_LEN] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    let tag = hmac::sign(&key, &resume_hash(binding, syn).labelled(Label::Resume));
    *tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes")
}

/// Whether the SYN's resume proof was made with this secret, in constant time.
pub(crate) fn is_resume_proof(secret: &LinkSecret, binding: &ChannelBinding, syn: &Syn) -> bool {
    let Some(resume) = &syn.resume else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    hmac::verify(
        &key,
        &resume_hash(binding, syn).labelled(Label::Resume),
        &resume.proof,
    )
    .is_ok()
}

/// The link's secret: HKDF-SHA256 from the exporter, the token if there is one, and the old secret of a link that goes on.
pub(crate) fn derive_link_secret(
    binding: &ChannelBinding,
    token: &[u8],
    former: Option<&LinkSecret>,
    hash: &TranscriptHash,
) -> LinkSecret {
    let former = former.map_or(&[][..], |secret| secret.expose());
    // Filled once: a buffer that grows would leave unwiped copies behind.
    let mut input = Zeroizing::new(Vec::with_capacity(
        3 * size_of::<u32>() + 2 * SECRET_LEN + token.len(),
    ));
    for part in [binding.0.expose(), token, former] {
        let len = u32::try_from(part.len()).expect("tokens are at most 4096 bytes long");
        input.extend_from_slice(&len.to_le_bytes());
        input.extend_from_slice(part);
    }
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, hash.bytes())
        .extract(&input)
        .expand(&[Label::LinkSecret.bytes()], hkdf::HKDF_SHA256)
        .and_then(|output| output.fill(&mut *secret))
        .expect("32 bytes are what HKDF-SHA256 gives in one block");
    LinkSecret::new(*secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(parts: &[&[u8]]) -> TranscriptHash {
        let mut transcript = Transcript::new(&ChannelBinding::new([1; 32]));
        parts.iter().for_each(|part| transcript.absorb(part));
        transcript.hash()
    }

    #[test]
    fn bytes_that_move_between_parts_change_the_hash() {
        assert_ne!(hash_of(&[b"ab", b"c"]), hash_of(&[b"a", b"bc"]));
        assert_ne!(hash_of(&[b"a"]), hash_of(&[b"a", b""]));
        assert_eq!(hash_of(&[b"a", b"b"]), hash_of(&[b"a", b"b"]));
    }

    #[test]
    fn each_input_changes_the_links_secret() {
        let derive = |binding: u8, token: &[u8], former: Option<u8>, part: &[u8]| {
            let former = former.map(|byte| LinkSecret::new([byte; 32]));
            derive_link_secret(
                &ChannelBinding::new([binding; 32]),
                token,
                former.as_ref(),
                &hash_of(&[part]),
            )
        };
        let secret = derive(1, b"token", Some(1), b"x");
        assert_eq!(secret, derive(1, b"token", Some(1), b"x"));
        for other in [
            derive(2, b"token", Some(1), b"x"),
            derive(1, b"tokem", Some(1), b"x"),
            derive(1, b"token", Some(2), b"x"),
            derive(1, b"token", None, b"x"),
            derive(1, b"token", Some(1), b"y"),
            derive(1, &[1; 32], None, b"x"),
            derive(1, b"", Some(1), b"x"),
        ] {
            assert_ne!(secret, other);
        }
        assert_ne!(
            derive(1, &[7; 32], None, b"x"),
            derive(1, b"", Some(7), b"x"),
            "token and old secret do not swap"
        );
    }
}
