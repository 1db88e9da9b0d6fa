//! Making and checking proofs: by a certificate's key or by a shared token.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature;
use aws_lc_rs::signature::EcdsaKeyPair;
use aws_lc_rs::signature::Ed25519KeyPair;
use aws_lc_rs::signature::RsaKeyPair;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::SignatureVerificationAlgorithm;
use webpki::EndEntityCert;

use super::token::Token;
use super::token::TokenSet;
use super::transcript::Label;
use super::transcript::TranscriptHash;
use crate::wire::AuthKind;

/// Signed once when a key is taken up, to see that it belongs to its certificate. No proof is made over this.
const SAMPLE: &[u8] = b"hermes-peer does this key belong to this certificate";

/// What this node proves itself with.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "one variant for each AuthKind")]
pub enum Credentials {
    /// The key of a certificate that carries the agent.
    Mtls {
        /// The key with its certificate.
        key: Arc<CertificateKey>,
    },
    /// The tokens that are valid now.
    Token(Arc<TokenSet>),
}

impl Credentials {
    /// The kind that the handshake announces.
    pub fn kind(&self) -> AuthKind {
        match self {
            Self::Mtls { .. } => AuthKind::Mtls,
            Self::Token(_) => AuthKind::Token,
        }
    }
}

/// A key that cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not a key, or not of a kind that is taken.
    #[error("the private key is none of Ed25519, ECDSA P-256, ECDSA P-384 and RSA of 2048 to 8192 bits")]
    Unsupported,
    /// The certificate is no X.509 certificate of version 3.
    #[error("the certificate cannot be read")]
    BadCertificate(#[source] webpki::Error),
    /// Key and certificate do not belong together.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
}

/// A certificate and its private key.
pub struct CertificateKey {
    certificate: CertificateDer<'static>,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(Scheme, EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// A way to sign, by its number in TLS. A certificate's key fits one of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    EcdsaP256Sha256 = 0x0403,
    EcdsaP384Sha384 = 0x0503,
    RsaPssSha256 = 0x0804,
    Ed25519 = 0x0807,
}

impl Scheme {
    const ALL: [Self; 4] = [
        Self::EcdsaP256Sha256,
        Self::EcdsaP384Sha384,
        Self::RsaPssSha256,
        Self::Ed25519,
    ];

    /// As TLS writes it.
    const fn bytes(self) -> [u8; 2] {
        (self as u16).to_be_bytes()
    }

    fn verification(self) -> &'static dyn SignatureVerificationAlgorithm {
        match self {
            Self::EcdsaP256Sha256 => webpki::aws_lc_rs::ECDSA_P256_SHA256,
            Self::EcdsaP384Sha384 => webpki::aws_lc_rs::ECDSA_P384_SHA384,
            Self::RsaPssSha256 => webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
            Self::Ed25519 => webpki::aws_lc_rs::ED25519,
        }
    }
}

impl CertificateKey {
    /// Takes up a key for a certificate.
    ///
    /// # Errors
    /// [`KeyError`] if either cannot be read, the key is of another kind, or the two do not belong together.
    pub fn new(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'_>) -> Result<Self, KeyError> {
        EndEntityCert::try_from(&certificate).map_err(KeyError::BadCertificate)?;
        let pair = Pair::parse(key).ok_or(KeyError::Unsupported)?;
        let sample = pair.sign(SAMPLE);
        if is_signature(&certificate, SAMPLE, &sample) {
            Ok(Self { certificate, pair })
        } else {
            Err(KeyError::KeyMismatch)
        }
    }

    /// The certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }
}

impl fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateKey")
    }
}

impl Pair {
    fn parse(key: &PrivateKeyDer<'_>) -> Option<Self> {
        match key {
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let ecdsa = |scheme, algorithm| {
                    EcdsaKeyPair::from_pkcs8(algorithm, der).map(|pair| Self::Ecdsa(scheme, pair))
                };
                Ed25519KeyPair::from_pkcs8(der)
                    .map(Self::Ed25519)
                    .or_else(|_| {
                        ecdsa(
                            Scheme::EcdsaP256Sha256,
                            &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
                        )
                    })
                    .or_else(|_| {
                        ecdsa(
                            Scheme::EcdsaP384Sha384,
                            &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
                        )
                    })
                    .or_else(|_| RsaKeyPair::from_pkcs8(der).map(Self::Rsa))
                    .ok()
            }
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                let ecdsa = |scheme, algorithm| {
                    EcdsaKeyPair::from_private_key_der(algorithm, der).map(|pair| Self::Ecdsa(scheme, pair))
                };
                ecdsa(
                    Scheme::EcdsaP256Sha256,
                    &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
                )
                .or_else(|_| {
                    ecdsa(
                        Scheme::EcdsaP384Sha384,
                        &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
                    )
                })
                .ok()
            }
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).map(Self::Rsa).ok(),
            _ => None,
        }
    }

    /// The scheme's two bytes, then the signature.
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        const SIGNS: &str = "a parsed key signs as long as the system has random numbers";
        let rng = SystemRandom::new();
        match self {
            Self::Ed25519(pair) => tagged(Scheme::Ed25519, pair.sign(message).as_ref()),
            Self::Ecdsa(scheme, pair) => tagged(*scheme, pair.sign(&rng, message).expect(SIGNS).as_ref()),
            Self::Rsa(pair) => {
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PSS_SHA256, &rng, message, &mut signed)
                    .expect(SIGNS);
                tagged(Scheme::RsaPssSha256, &signed)
            }
        }
    }
}

fn tagged(scheme: Scheme, signature: &[u8]) -> Vec<u8> {
    [&scheme.bytes(), signature].concat()
}

fn is_signature(certificate: &CertificateDer<'_>, message: &[u8], proof: &[u8]) -> bool {
    let Some((number, signature)) = proof.split_first_chunk::<2>() else {
        return false;
    };
    let Some(scheme) = Scheme::ALL.into_iter().find(|scheme| scheme.bytes() == *number) else {
        return false;
    };
    EndEntityCert::try_from(certificate)
        .and_then(|parsed| parsed.verify_signature(scheme.verification(), message, signature))
        .is_ok()
}

/// How the two sides of one handshake prove themselves to each other.
#[derive(Clone, Debug)]
pub(crate) enum Prover {
    /// Each by its certificate's key.
    Certificate {
        own: Arc<CertificateKey>,
        peer: CertificateDer<'static>,
    },
    /// Both by this token.
    Token(Token),
}

impl Prover {
    /// This side's proof.
    pub(crate) fn prove(&self, label: Label, hash: &TranscriptHash) -> Vec<u8> {
        let message = hash.labelled(label);
        match self {
            Self::Certificate { own, .. } => own.pair.sign(&message),
            Self::Token(token) => hmac::sign(&token_key(token), &message).as_ref().to_vec(),
        }
    }

    /// Whether the other side's proof holds.
    pub(crate) fn is_proof(&self, label: Label, hash: &TranscriptHash, proof: &[u8]) -> bool {
        let message = hash.labelled(label);
        match self {
            Self::Certificate { peer, .. } => is_signature(peer, &message, proof),
            Self::Token(token) => hmac::verify(&token_key(token), &message, proof).is_ok(),
        }
    }

    /// What both sides know beforehand and nobody else: the token, or nothing.
    pub(crate) fn shared(&self) -> &[u8] {
        match self {
            Self::Certificate { .. } => &[],
            Self::Token(token) => token.expose(),
        }
    }
}

fn token_key(token: &Token) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.expose())
}

#[cfg(test)]
mod tests {
    use rcgen::CertificateParams;
    use rcgen::KeyPair;
    use rustls_pki_types::PrivatePkcs1KeyDer;
    use rustls_pki_types::PrivatePkcs8KeyDer;
    use rustls_pki_types::PrivateSec1KeyDer;

    use super::super::transcript::ChannelBinding;
    use super::super::transcript::Transcript;
    use super::*;

    fn self_signed(pair: &KeyPair) -> CertificateDer<'static> {
        CertificateParams::default()
            .self_signed(pair)
            .unwrap()
            .der()
            .clone()
    }

    fn pkcs8(pair: &KeyPair) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(pair.serialize_der()).into()
    }

    /// The key inside of a PKCS#8 document, in the form that its kind had before PKCS#8: the last OCTET STRING of the three
    /// elements (or the last but one, where the public key follows).
    fn inner_key(pkcs8: &[u8], header: &[u8]) -> Vec<u8> {
        let at = pkcs8
            .windows(header.len())
            .position(|window| window == header)
            .unwrap()
            + header.len();
        let (len, skip) = match pkcs8[at] {
            0x82 => (usize::from(u16::from_be_bytes([pkcs8[at + 1], pkcs8[at + 2]])), 3),
            0x81 => (usize::from(pkcs8[at + 1]), 2),
            len => (usize::from(len), 1),
        };
        pkcs8[at + skip..at + skip + len].to_vec()
    }

    fn hash() -> TranscriptHash {
        Transcript::new(&ChannelBinding::new([9; 32])).hash()
    }

    fn proves(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'_>) {
        let own = Arc::new(CertificateKey::new(certificate.clone(), key).unwrap());
        let prover = Prover::Certificate {
            own,
            peer: certificate,
        };
        let proof = prover.prove(Label::Acceptor, &hash());
        assert!(prover.is_proof(Label::Acceptor, &hash(), &proof));
        assert!(
            !prover.is_proof(Label::Initiator, &hash(), &proof),
            "a proof is good for its label only"
        );
        let other = Transcript::new(&ChannelBinding::new([8; 32])).hash();
        assert!(!prover.is_proof(Label::Acceptor, &other, &proof));
        for wrong in [
            &[][..],
            &proof[..1],
            &proof[..2],
            &proof[2..],
            &proof[..proof.len() - 1],
        ] {
            assert!(!prover.is_proof(Label::Acceptor, &hash(), wrong));
        }
    }

    #[test]
    fn keys_of_each_kind_and_form_prove_their_certificate() {
        // FC-023
        for algorithm in [
            &rcgen::PKCS_ED25519,
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
        ] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            proves(self_signed(&pair), &pkcs8(&pair));
        }
        let p256 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let oid_of_p256 = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04];
        let sec1 = PrivateSec1KeyDer::from(inner_key(&p256.serialize_der(), &oid_of_p256));
        proves(self_signed(&p256), &sec1.into());
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
        proves(self_signed(&rsa), &pkcs8(&rsa));
        let rsa_oid_and_null = [
            0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00, 0x04,
        ];
        let pkcs1 = PrivatePkcs1KeyDer::from(inner_key(&rsa.serialize_der(), &rsa_oid_and_null));
        proves(self_signed(&rsa), &pkcs1.into());
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_when_it_is_taken_up() {
        // FC-023
        let [one, two] = [(); 2].map(|()| KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
        let other_kind = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let refused = |key: &PrivateKeyDer<'_>| CertificateKey::new(self_signed(&one), key).unwrap_err();
        assert_eq!(refused(&pkcs8(&two)), KeyError::KeyMismatch);
        assert_eq!(refused(&pkcs8(&other_kind)), KeyError::KeyMismatch);
        assert_eq!(
            refused(&PrivatePkcs8KeyDer::from(vec![0x30, 0]).into()),
            KeyError::Unsupported
        );
        assert_eq!(
            refused(&PrivateSec1KeyDer::from(vec![]).into()),
            KeyError::Unsupported
        );
        assert!(matches!(
            CertificateKey::new(CertificateDer::from(vec![]), &pkcs8(&one)),
            Err(KeyError::BadCertificate(_))
        ));
    }

    #[test]
    fn a_token_proves_what_it_was_used_for_and_nothing_else() {
        let [one, two] = [b"one-one-one-one-one", b"two-two-two-two-two"]
            .map(|bytes| Prover::Token(Token::parse(bytes).unwrap()));
        let proof = one.prove(Label::Acceptor, &hash());
        assert!(one.is_proof(Label::Acceptor, &hash(), &proof));
        assert!(!one.is_proof(Label::Initiator, &hash(), &proof));
        assert!(!two.is_proof(Label::Acceptor, &hash(), &proof));
        assert!(!one.is_proof(Label::Acceptor, &hash(), &proof[..31]));
        assert!(!one.is_proof(Label::Acceptor, &hash(), &[]));
    }
}
