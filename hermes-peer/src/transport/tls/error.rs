//! What can be wrong with a TLS connection: which side's certificate, and what to do about it.

use std::fmt;
use std::io;
use std::time::SystemTime;

use rustls::AlertDescription;

use crate::transport::facts::CertificateFacts;
use crate::transport::facts::Rough;
use crate::transport::facts::Utc;

/// Why there is no TLS connection, or no longer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The peer's certificate begins in this node's future.
    #[error(
        "the peer's certificate ({certificate}) is not valid yet: this node's clock says {}, {} before it begins; \
         set the clock that is wrong",
        Utc(*now), Rough(certificate.not_before.duration_since(*now).unwrap_or_default())
    )]
    NotYetValid {
        /// The peer's certificate.
        certificate: Box<CertificateFacts>,
        /// What this node's clock says.
        now: SystemTime,
    },
    /// The peer's certificate ended in this node's past.
    #[error(
        "the peer's certificate ({certificate}) has expired: this node's clock says {}, {} after its end; renew it \
         (`hermes-peer certs renew`) on the peer, or set the clock that is wrong",
        Utc(*now), Rough(now.duration_since(certificate.not_after).unwrap_or_default())
    )]
    Expired {
        /// The peer's certificate.
        certificate: Box<CertificateFacts>,
        /// What this node's clock says.
        now: SystemTime,
    },
    /// No authority that this node trusts issued the peer's certificate.
    #[error(
        "the peer's certificate ({certificate}) was issued by another authority ({}) than those in this node's `ca` \
         file; give both nodes certificates of one authority, or add the other one to the file",
        certificate.issuer
    )]
    UnknownIssuer {
        /// The peer's certificate.
        certificate: Box<CertificateFacts>,
    },
    /// The peer's certificate is on a revocation list.
    #[error(
        "the peer's certificate ({certificate}) is revoked; issue a new one (`hermes-peer certs issue`) if that was wrong"
    )]
    Revoked {
        /// The peer's certificate.
        certificate: Box<CertificateFacts>,
    },
    /// The peer's certificate does not say which agent it is for.
    #[error(
        "the peer's certificate ({certificate}) has {found}; issue one with exactly one agent as URI SAN (`hermes-peer certs issue`)"
    )]
    NoAgentUri {
        /// The peer's certificate.
        certificate: Box<CertificateFacts>,
        /// What it has instead.
        found: String,
    },
    /// The peer's certificate cannot be used, for a rarer reason.
    #[error("the peer's certificate{} cannot be used: {why}", certificate.as_ref().map(|c| format!(" ({c})")).unwrap_or_default())]
    BadCertificate {
        /// The peer's certificate, if it can be read.
        certificate: Option<Box<CertificateFacts>>,
        /// What is wrong with it.
        why: String,
    },
    /// The peer dialled without showing a certificate.
    #[error(
        "the peer showed no certificate, and this node asks for one (`auth.mode: mtls`); both need the same `auth.mode`"
    )]
    NoCertificate,
    /// The peer said no to this node's certificate, or to what it offered.
    #[error("the peer refused {}: {why}", Refused(own.as_deref()))]
    PeerRefused {
        /// This node's certificate.
        own: Option<Box<CertificateFacts>>,
        /// What the peer's alert means.
        why: &'static str,
    },
    /// The peer speaks TLS but not for Hermes.
    #[error("the peer speaks TLS but not Hermes (no ALPN `hermes`); is this another service's port?")]
    NoAlpn,
    /// The peer speaks no TLS 1.3.
    #[error(
        "the peer speaks no TLS 1.3, which Hermes needs; is something between the two nodes, or another service there?"
    )]
    OldTls,
    /// The bytes from the other side are no TLS.
    #[error("the other side does not speak TLS; is this another service's port?")]
    NotTls,
    /// The connection ended in the middle.
    #[error(
        "the connection was cut while TLS was set up ({why}); the peer stopped, refused us without a word, or is no Hermes node"
    )]
    Cut {
        /// What the system said.
        why: String,
    },
    /// This node's own certificate and key are not a pair.
    #[error(
        "this node's certificate ({certificate}) and key are not a pair; put the key that the certificate was made for beside it"
    )]
    KeyMismatch {
        /// This node's certificate.
        certificate: Box<CertificateFacts>,
    },
    /// This node's own certificate, key or revocation list cannot be used.
    #[error("this node's own {what} cannot be used: {why}")]
    BadOwn {
        /// Certificate, key, authority or revocation list.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// TLS ended for a rarer reason.
    #[error("TLS failed: {why}")]
    Failed {
        /// What TLS said.
        why: String,
    },
}

/// What a peer's refusal was about.
struct Refused<'a>(Option<&'a CertificateFacts>);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(own) => write!(f, "our certificate ({own})"),
            None => f.write_str("the connection"),
        }
    }
}

impl TlsError {
    /// Whether time alone may mend it: a connection that broke off. A certificate has to be changed by somebody, a clock
    /// to be set.
    pub(crate) fn is_worth_retrying(&self) -> bool {
        matches!(self, Self::Cut { .. } | Self::Failed { .. })
    }

    /// What an I/O error of a TLS stream means. Errors that have nothing to do with TLS are none.
    pub(crate) fn from_io(error: &io::Error, own: Option<&CertificateFacts>) -> Option<Self> {
        let inner = error.get_ref()?;
        if let Some(known) = inner.downcast_ref::<Self>() {
            return Some(known.clone());
        }
        inner.downcast_ref::<rustls::Error>().map(|error| Self::from_rustls(error, own))
    }

    /// What an error of the handshake means.
    pub(crate) fn from_handshake(error: &io::Error, own: Option<&CertificateFacts>) -> Self {
        Self::from_io(error, own).unwrap_or_else(|| Self::Cut { why: error.to_string() })
    }

    fn from_rustls(error: &rustls::Error, own: Option<&CertificateFacts>) -> Self {
        use rustls::Error;
        match error {
            Error::AlertReceived(alert) => Self::from_alert(*alert, own),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::NoApplicationProtocol => Self::NoAlpn,
            Error::PeerIncompatible(reason) if is_old(reason) => Self::OldTls,
            Error::InvalidMessage(
                rustls::InvalidMessage::InvalidContentType
                | rustls::InvalidMessage::UnknownProtocolVersion
                | rustls::InvalidMessage::MessageTooLarge
                | rustls::InvalidMessage::InvalidEmptyPayload,
            ) => Self::NotTls,
            other => Self::Failed { why: other.to_string() },
        }
    }

    fn from_alert(alert: AlertDescription, own: Option<&CertificateFacts>) -> Self {
        let why = match alert {
            AlertDescription::ProtocolVersion => return Self::OldTls,
            AlertDescription::NoApplicationProtocol => return Self::NoAlpn,
            AlertDescription::CertificateExpired => {
                "at its clock it is not valid yet, or no longer; renew it, or set the clock that is wrong"
            }
            AlertDescription::CertificateRevoked => "it is revoked there; issue a new one",
            AlertDescription::UnknownCA => {
                "its `ca` file does not have the authority that issued it; give both nodes certificates of one authority"
            }
            AlertDescription::AccessDenied => {
                "it names no agent; issue one with exactly one agent as URI SAN"
            }
            AlertDescription::CertificateRequired => {
                "it asks for a certificate (`auth.mode: mtls`) and we showed none; both need the same `auth.mode`"
            }
            AlertDescription::UnsupportedCertificate => {
                "it is not issued for this use (client and server authentication)"
            }
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "it cannot be used there; see its log"
            }
            AlertDescription::DecryptError => {
                "a signature does not match; is its `ca` file one of the same name but older?"
            }
            AlertDescription::HandshakeFailure => "it has no algorithm in common with us",
            _ => {
                return Self::Failed { why: format!("the peer ended it with the alert {alert:?}") };
            }
        };
        Self::PeerRefused { own: own.map(|own| Box::new(own.clone())), why }
    }
}

fn is_old(reason: &rustls::PeerIncompatible) -> bool {
    use rustls::PeerIncompatible;
    matches!(
        reason,
        PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
    )
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
