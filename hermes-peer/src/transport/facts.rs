//! What a certificate says, for people: dates, serial number, whose it is.

use std::fmt;
use std::path::Path;
use std::time::Duration;
use std::time::SystemTime;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::ASN1Time;
use x509_parser::prelude::FromDer as _;
use x509_parser::prelude::X509Certificate;

use crate::transport::pem::PemError;
use crate::transport::pem::PemFile;
use crate::transport::pem::Wanted;

/// What a certificate says. Reading it proves nothing about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFacts {
    /// The agent, if the certificate names exactly one.
    pub agent: Option<AgentUri>,
    /// The node, if the certificate names one: a DNS name that is a node's. Nothing is decided by it.
    pub node: Option<NodeId>,
    /// Whether it is an authority's.
    pub is_authority: bool,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// From when it is valid.
    pub not_before: SystemTime,
    /// Until when it is valid.
    pub not_after: SystemTime,
    /// Who issued it.
    pub issuer: String,
    /// Whether the list of its authority revokes it; false where no list was looked at.
    pub is_revoked: bool,
}

impl CertificateFacts {
    /// Reads the first certificate in a PEM file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Self, PemError> {
        let file = PemFile::read(path, Wanted::Certificate);
        Self::read(&file.certificates()?.remove(0)).ok_or_else(|| file.damaged())
    }

    /// Reads a certificate; none, if it is none.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(Self {
            agent: agent_of(certificate).ok(),
            node: node_of(&parsed),
            is_authority: parsed.is_ca(),
            serial: hex(parsed.raw_serial()),
            not_before: time(parsed.validity().not_before),
            not_after: time(parsed.validity().not_after),
            issuer: parsed.issuer().to_string().chars().take(200).flat_map(char::escape_debug).collect(),
            is_revoked: false,
        })
    }
}

impl fmt::Display for CertificateFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.agent {
            Some(agent) => write!(f, "{agent}, serial {}", self.serial)?,
            None => write!(f, "no agent, serial {}", self.serial)?,
        }
        write!(f, ", valid from {} to {}", Utc(self.not_before), Utc(self.not_after))
    }
}

/// The agent that a certificate names.
///
/// # Errors
///
/// What it has instead of exactly one well-formed `agent://` name.
pub(crate) fn agent_of(certificate: &CertificateDer<'_>) -> Result<AgentUri, String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| "no readable name".to_owned())?;
    let mut agents = parsed.valid_uri_names().filter(|uri| uri.starts_with("agent:"));
    match (agents.next(), agents.next()) {
        (None, _) => Err("no `agent://` name".to_owned()),
        (Some(_), Some(_)) => Err("more than one `agent://` name".to_owned()),
        (Some(agent), None) => {
            agent.parse().map_err(|error: hermes_peer_proto::wire::InvalidName| error.to_string())
        }
    }
}

/// The node that a certificate names.
pub(crate) fn node_of(certificate: &X509Certificate<'_>) -> Option<NodeId> {
    let names = certificate.subject_alternative_name().ok().flatten()?;
    names.value.general_names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) => name.parse().ok(),
        _ => None,
    })
}

/// A time in UTC, to the second, as people write it: `2026-11-30 20:06:08 UTC`. With `{:#}` as programs do (RFC 3339):
/// `2026-11-30T20:06:08Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(pub SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(time) = ASN1Time::from_timestamp(seconds(self.0)) else {
            return f.write_str("a time out of range");
        };
        let time = time.to_datetime();
        let (hour, minute, second) = time.to_hms();
        let (between, zone) = if f.alternate() { ("T", "Z") } else { (" ", " UTC") };
        write!(f, "{}{between}{hour:02}:{minute:02}:{second:02}{zone}", time.date())
    }
}

/// A length of time in its two largest units: `3d 2h`.
pub(crate) struct Rough(pub(crate) Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.as_secs();
        match (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60) {
            (0, 0, 0, seconds) => write!(f, "{seconds}s"),
            (0, 0, minutes, seconds) => write!(f, "{minutes}m {seconds}s"),
            (0, hours, minutes, _) => write!(f, "{hours}h {minutes}m"),
            (days, hours, ..) => write!(f, "{days}d {hours}h"),
        }
    }
}

/// Seconds since 1970, negative before.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

pub(crate) fn time(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds >= 0 { SystemTime::UNIX_EPOCH + distance } else { SystemTime::UNIX_EPOCH - distance }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_069_168);
        assert_eq!(Utc(at).to_string(), "2026-11-30 20:06:08 UTC");
        assert_eq!(format!("{:#}", Utc(at)), "2026-11-30T20:06:08Z");
        assert_eq!(
            Utc(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).to_string(),
            "1969-12-31 23:59:59 UTC"
        );
        assert_eq!(Rough(Duration::from_secs(93_600)).to_string(), "1d 2h");
        assert_eq!(Rough(Duration::from_secs(61)).to_string(), "1m 1s");
    }
}
