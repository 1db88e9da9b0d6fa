//! Is this certificate one that we accept? The same answer for those who dial, who accept, and on live links.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use rustls::CertificateError;
use rustls::DigitallySignedStruct;
use rustls::DistinguishedName;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::danger::ClientCertVerified;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::TrustAnchor;
use rustls_pki_types::UnixTime;
use webpki::CertRevocationList;

use crate::transport::facts::CertificateFacts;
use crate::transport::facts::agent_of;
use crate::transport::tls::error::TlsError;

tokio::task_local! {
    /// Why the certificate of the handshake in progress was refused. rustls hands on only what fits into an alert,
    /// and checks run inside the handshake's own future, so that this can be nobody else's.
    pub(crate) static REFUSAL: RefCell<Option<TlsError>>;
}

/// What is trusted: authorities, and what they revoked.
pub(crate) struct PeerCheck {
    anchors: Vec<TrustAnchor<'static>>,
    lists: Vec<CertRevocationList<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerCheck {
    /// # Errors
    ///
    /// If there is no authority, one is no certificate, or a list is damaged or of an authority that is not trusted.
    pub(crate) fn new(
        roots: &[CertificateDer<'static>],
        lists: &[CertificateRevocationListDer<'static>],
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<Self, TlsError> {
        let anchors = roots
            .iter()
            .map(|root| webpki::anchor_from_trusted_cert(root).map(|anchor| anchor.to_owned()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsError::BadOwn { what: "authority (`ca`)", why: error.to_string() })?;
        if anchors.is_empty() {
            return Err(TlsError::BadOwn { what: "authority (`ca`)", why: "there is none".to_owned() });
        }
        let bad_list = |why: String| TlsError::BadOwn { what: "revocation list (`crl`)", why };
        let mut parsed: Vec<CertRevocationList<'static>> = Vec::new();
        for list in lists {
            let list = webpki::OwnedCertRevocationList::from_der(list)
                .map_err(|error| bad_list(error.to_string()))?;
            let list = CertRevocationList::from(list);
            if !anchors.iter().any(|anchor| anchor.subject.as_ref() == list.issuer()) {
                return Err(bad_list("it is of an authority that is not in the `ca` file".to_owned()));
            }
            parsed.push(list);
        }
        Ok(Self { anchors, lists: parsed, algorithms })
    }

    /// Checks a chain, the peer's own certificate first, for the given use. The clock is this node's.
    ///
    /// # Errors
    ///
    /// What is wrong with the certificate, and what helps.
    pub(crate) fn check(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: impl webpki::ExtendedKeyUsageValidator,
    ) -> Result<(), TlsError> {
        self.verify(end, intermediates, now, usage).map_err(|error| explain(error, end, now))?;
        agent_of(end).map(drop).map_err(|found| match facts(end) {
            Some(certificate) => TlsError::NoAgentUri { certificate, found },
            None => TlsError::BadCertificate { certificate: None, why: found },
        })
    }

    pub(crate) fn verify(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: impl webpki::ExtendedKeyUsageValidator,
    ) -> Result<(), webpki::Error> {
        let lists: Vec<&CertRevocationList<'_>> = self.lists.iter().collect();
        // An authority without a list has revoked nothing: while the mesh moves from one authority to the next, only
        // one of them may have one. A list past its date stays in force and is reported when files are read: a node
        // that lost its way to new lists must not lose the mesh as well.
        let revocation = webpki::RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_status_policy(webpki::UnknownStatusPolicy::Allow)
                .with_expiration_policy(webpki::ExpirationPolicy::Ignore)
                .build()
        });
        webpki::EndEntityCert::try_from(end)?
            .verify_for_usage(self.algorithms.all, &self.anchors, intermediates, now, usage, revocation, None)
            .map(drop)
    }
}

fn facts(certificate: &CertificateDer<'_>) -> Option<Box<CertificateFacts>> {
    CertificateFacts::read(certificate).map(Box::new)
}

fn explain(error: webpki::Error, end: &CertificateDer<'_>, now: UnixTime) -> TlsError {
    let Some(certificate) = facts(end) else {
        return TlsError::BadCertificate { certificate: None, why: error.to_string() };
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
    match error {
        // Only where it is the peer's own certificate: one above it has dates of its own.
        webpki::Error::CertNotValidYet { .. } if now < certificate.not_before => {
            TlsError::NotYetValid { certificate, now }
        }
        webpki::Error::CertExpired { .. } if now > certificate.not_after => {
            TlsError::Expired { certificate, now }
        }
        webpki::Error::CertRevoked => TlsError::Revoked { certificate },
        webpki::Error::UnknownIssuer => TlsError::UnknownIssuer { certificate },
        other => TlsError::BadCertificate { certificate: Some(certificate), why: other.to_string() },
    }
}

/// What rustls shall tell the peer; the whole reason stays with us.
fn refuse(error: TlsError) -> rustls::Error {
    let told = match &error {
        TlsError::NotYetValid { .. } => CertificateError::NotValidYet,
        TlsError::Expired { .. } => CertificateError::Expired,
        TlsError::Revoked { .. } => CertificateError::Revoked,
        TlsError::UnknownIssuer { .. } => CertificateError::UnknownIssuer,
        TlsError::NoAgentUri { .. } => CertificateError::ApplicationVerificationFailure,
        _ => CertificateError::BadEncoding,
    };
    let _outside_of_a_handshake = REFUSAL.try_with(|refusal| refusal.replace(Some(error)));
    told.into()
}

/// Any use: a link that is up was checked for its use when it was made.
pub(crate) struct AnyUse;

impl webpki::ExtendedKeyUsageValidator for AnyUse {
    fn validate(&self, _: webpki::KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

/// [`PeerCheck`] as rustls asks for it: one rule for both sides. Host names play no part, nodes are known by their agent.
#[derive(Debug)]
pub(crate) struct MutualVerifier(pub(crate) Arc<PeerCheck>);

impl ServerCertVerifier for MutualVerifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self.0.check(end, intermediates, now, webpki::KeyUsage::server_auth());
        checked.map(|()| ServerCertVerified::assertion()).map_err(refuse)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for MutualVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A client has one certificate; the hint would only tell strangers which authorities we trust.
        &[]
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let checked = self.0.check(end, intermediates, now, webpki::KeyUsage::client_auth());
        checked.map(|()| ClientCertVerified::assertion()).map_err(refuse)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}

fn no_tls12() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not spoken".to_owned())
}

/// `token` mode: any certificate will do, because none decides anything. Who the peer is, is proven after TLS by an
/// HMAC with the shared token over the handshake **and this connection's exporter**: somebody in the middle has two TLS
/// connections with two exporters, and a proof made for one is worth nothing on the other. The server's signature is
/// still checked, so that the certificate belongs to this connection.
#[derive(Debug)]
pub(crate) struct AnyServer(pub(crate) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

impl std::fmt::Debug for PeerCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerCheck")
            .field("authorities", &self.anchors.len())
            .field("revocation_lists", &self.lists.len())
            .finish_non_exhaustive()
    }
}
