//! What a node shows and what it trusts, turned into settings of rustls once.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ClientConfig;
use rustls::ServerConfig;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::UnixTime;
use x509_parser::prelude::CertificateRevocationList;
use x509_parser::prelude::FromDer as _;

use hermes_peer_proto::security::CertificateKey;

use crate::transport::facts::CertificateFacts;
use crate::transport::facts::Utc;
use crate::transport::facts::agent_of;
use crate::transport::facts::time;
use crate::transport::tls::check::AnyServer;
use crate::transport::tls::check::AnyUse;
use crate::transport::tls::check::MutualVerifier;
use crate::transport::tls::check::PeerCheck;
use crate::transport::tls::error::TlsError;

/// What both sides name in the TLS handshake (ALPN): a peer without it is another service.
const ALPN: &[u8] = b"hermes";

/// A certificate with its key, and what is trusted: what mutual TLS needs.
pub(crate) struct TlsIdentity {
    /// This node's certificate first, then those between it and the authority.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The key of the first certificate.
    pub(crate) key: PrivateKeyDer<'static>,
    /// The authorities whose certificates are accepted.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// What the authorities revoked.
    pub(crate) revocation_lists: Vec<CertificateRevocationListDer<'static>>,
}

/// One state of certificates, keys and lists, ready to serve handshakes; replaced as a whole.
pub(crate) struct TlsSnapshot {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    /// None in `token` mode, in which certificates prove nothing.
    pub(crate) mutual: Option<Mutual>,
}

/// The parts of a snapshot that only mutual TLS has.
pub(crate) struct Mutual {
    pub(crate) own: CertificateFacts,
    /// Proves in the handshake inside TLS that this node holds the key.
    pub(crate) prover: Arc<CertificateKey>,
    pub(crate) check: Arc<PeerCheck>,
    /// What the owner of the node should know about these files, though they can be used.
    pub(crate) warnings: Vec<String>,
}

impl TlsSnapshot {
    /// For `mtls`: both sides show certificates of the same authorities.
    ///
    /// # Errors
    ///
    /// If certificate, key, authority or list cannot be used, or certificate and key are not a pair. A certificate that
    /// is valid at another time is a warning: this node's clock may be the one that is wrong, and may be set later.
    pub(crate) fn mutual(identity: TlsIdentity) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (certified, own) = certify(&identity, &provider)?;
        let algorithms = provider.signature_verification_algorithms;
        let check = Arc::new(PeerCheck::new(&identity.roots, &identity.revocation_lists, algorithms)?);
        let warnings = warnings(&check, &identity)?;
        let prover = prover(&identity)?;
        let verifier = Arc::new(MutualVerifier(Arc::clone(&check)));
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let client = client_builder(&provider)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::clone(&resolver) as _);
        let server =
            server_builder(&provider)?.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
        Ok(Self::new(client, server, Some(Mutual { own, prover, check, warnings })))
    }

    /// For `token`: the server makes a certificate for itself that lives as long as this value, the client has none.
    ///
    /// # Errors
    ///
    /// If no key can be made.
    pub(crate) fn for_token() -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let failed =
            |error: rcgen::Error| TlsError::BadOwn { what: "ephemeral certificate", why: error.to_string() };
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let certificate = rcgen::CertificateParams::default().self_signed(&key).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let client = client_builder(&provider)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider.signature_verification_algorithms)))
            .with_no_client_auth();
        let server = server_builder(&provider)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(failed_config)?;
        Ok(Self::new(client, server, None))
    }

    fn new(mut client: ClientConfig, mut server: ServerConfig, mutual: Option<Mutual>) -> Self {
        client.alpn_protocols = vec![ALPN.to_vec()];
        server.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed TLS session would skip the checks of certificate, dates and revocation.
        client.resumption = Resumption::disabled();
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Self { client: Arc::new(client), server: Arc::new(server), mutual }
    }

    /// This node's certificate; none in `token` mode.
    pub(crate) fn own(&self) -> Option<&CertificateFacts> {
        self.mutual.as_ref().map(|mutual| &mutual.own)
    }
}

/// Whether the peer chose to speak Hermes.
pub(crate) fn is_hermes(alpn: Option<&[u8]>) -> bool {
    alpn == Some(ALPN)
}

fn failed_config(error: rustls::Error) -> TlsError {
    TlsError::BadOwn { what: "TLS settings", why: error.to_string() }
}

// The provider is named here and never installed for the process: that would be the application's choice to make. Its
// first key exchange is X25519MLKEM768; both sides fall back to X25519 where the other lacks it.
fn client_builder(
    provider: &Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(failed_config)
}

fn server_builder(
    provider: &Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, TlsError> {
    ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(failed_config)
}

fn certify(
    identity: &TlsIdentity,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, CertificateFacts), TlsError> {
    let bad = |why: &str| TlsError::BadOwn { what: "certificate", why: why.to_owned() };
    let end = identity.chain.first().ok_or_else(|| bad("there is none"))?;
    let own = CertificateFacts::read(end).ok_or_else(|| bad("it is damaged"))?;
    agent_of(end)
        .map_err(|found| bad(&format!("it has {found}; issue one with exactly one agent as URI SAN")))?;
    let certified = CertifiedKey::from_der(identity.chain.clone(), identity.key.clone_key(), provider);
    match certified {
        Ok(certified) => Ok((certified, own)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::KeyMismatch { certificate: Box::new(own) }),
        Err(error) => Err(TlsError::BadOwn { what: "key", why: error.to_string() }),
    }
}

fn prover(identity: &TlsIdentity) -> Result<Arc<CertificateKey>, TlsError> {
    let bad = |why: String| TlsError::BadOwn { what: "key", why };
    let end = identity.chain.first().ok_or_else(|| bad("there is no certificate for it".to_owned()))?;
    CertificateKey::new(end.clone(), &identity.key).map(Arc::new).map_err(|error| bad(error.to_string()))
}

/// Looks at the node's own certificate as its peers will.
fn warnings(check: &PeerCheck, identity: &TlsIdentity) -> Result<Vec<String>, TlsError> {
    let mut warnings = Vec::new();
    if let Some((end, intermediates)) = identity.chain.split_first() {
        match check.verify(end, intermediates, UnixTime::now(), AnyUse) {
            Ok(()) => {}
            // With such a list every certificate of its authority would be refused.
            Err(
                error @ (webpki::Error::InvalidCrlSignatureForPublicKey
                | webpki::Error::UnsupportedCrlSignatureAlgorithmContext(_)
                | webpki::Error::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_)
                | webpki::Error::IssuerNotCrlSigner),
            ) => {
                return Err(TlsError::BadOwn { what: "revocation list (`crl`)", why: error.to_string() });
            }
            Err(error) => warnings.push(format!(
                "peers will refuse this node's own certificate: {error} (this node's clock says {})",
                Utc(SystemTime::now())
            )),
        }
    }
    for list in &identity.revocation_lists {
        let parsed = CertificateRevocationList::from_der(list);
        let next = parsed.ok().and_then(|(_, list)| list.next_update()).map(time);
        if let Some(next) = next.filter(|next| *next < SystemTime::now()) {
            warnings.push(format!(
                "the revocation list was to be renewed by {}; it stays in force, and what was revoked since is not known",
                Utc(next)
            ));
        }
    }
    Ok(warnings)
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("chain", &self.chain.len())
            .field("roots", &self.roots.len())
            .field("revocation_lists", &self.revocation_lists.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSnapshot").field("own", &self.own()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Mutual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutual").field("own", &self.own).finish_non_exhaustive()
    }
}
