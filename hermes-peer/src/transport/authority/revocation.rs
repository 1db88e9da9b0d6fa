//! What an authority revoked: the list is its only memory of that.

use std::path::Path;
use std::time::Duration;
use std::time::SystemTime;

use rcgen::Issuer;
use rcgen::KeyPair;
use x509_parser::prelude::CertificateRevocationList;
use x509_parser::prelude::FromDer as _;

use crate::transport::authority::error::AuthorityError;
use crate::transport::authority::files;
use crate::transport::authority::validity::BACKDATED;
use crate::transport::authority::validity::DAY;
use crate::transport::facts::hex;
use crate::transport::facts::time;
use crate::transport::pem::PemFile;
use crate::transport::pem::Wanted;

/// How long a revocation list is fresh: reported from then on, never a reason to stop.
const LIST_VALIDITY: Duration = Duration::from_secs(30 * DAY);
/// A list that ends sooner is signed anew when the authority is used: nobody else would do it.
const REFRESH_BEFORE: Duration = Duration::from_secs(15 * DAY);
/// Revoked certificates in one list at most, so that the list stays within what is read from a file.
const MAX_REVOKED: usize = 10_000;

/// The certificates that are revoked, and the list's own number.
#[derive(Debug, Default)]
pub(crate) struct RevocationList {
    revoked: Vec<(Vec<u8>, SystemTime)>,
    pub(crate) number: u64,
    next: Option<SystemTime>,
}

impl RevocationList {
    pub(crate) fn read(path: &Path) -> Result<Self, AuthorityError> {
        let list = PemFile::read(path, Wanted::RevocationList).revocation_lists()?.remove(0);
        let damaged =
            || AuthorityError::NotOurs { path: path.to_owned(), why: "the list is damaged".to_owned() };
        let (_, list) = CertificateRevocationList::from_der(&list).map_err(|_| damaged())?;
        let number = list.crl_number().and_then(|number| u64::try_from(number).ok()).ok_or_else(damaged)?;
        let revoked = list
            .iter_revoked_certificates()
            .map(|one| Ok((parse_serial(&hex(one.raw_serial()))?, time(one.revocation_date))))
            .collect::<Result<_, AuthorityError>>()?;
        Ok(Self { revoked, number, next: list.next_update().map(time) })
    }

    /// Whether it revokes this number, in hexadecimal digits.
    pub(crate) fn has(&self, serial: &str) -> bool {
        parse_serial(serial).is_ok_and(|serial| self.revoked.iter().any(|(revoked, _)| *revoked == serial))
    }

    /// Adds a number that is not in it yet.
    pub(crate) fn add(&mut self, serial: &str) -> Result<(), AuthorityError> {
        if self.revoked.len() >= MAX_REVOKED {
            return Err(AuthorityError::ListFull { most: MAX_REVOKED });
        }
        self.revoked.push((parse_serial(serial)?, SystemTime::now()));
        Ok(())
    }

    /// Whether it should be signed anew.
    pub(crate) fn is_old(&self) -> bool {
        self.next.is_none_or(|next| next < SystemTime::now() + REFRESH_BEFORE)
    }

    /// Signs the list under the next number and puts it in place of the one before.
    pub(crate) fn write(self, path: &Path, issuer: &Issuer<'_, KeyPair>) -> Result<(), AuthorityError> {
        let now = SystemTime::now();
        let revoked = self.revoked.into_iter().map(|(serial, at)| rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(&serial),
            revocation_time: at.into(),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: (now - BACKDATED).into(),
            next_update: (now + LIST_VALIDITY).into(),
            crl_number: (self.number + 1).into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        files::replace(path, &params.signed_by(issuer)?.pem()?)
    }
}

/// A serial number's bytes without leading zeros, so that the same number is the same bytes.
pub(crate) fn parse_serial(given: &str) -> Result<Vec<u8>, AuthorityError> {
    let digits: String = given.trim().chars().filter(|c| *c != ':').collect();
    let refused =
        || AuthorityError::Serial { given: given.chars().take(80).flat_map(char::escape_debug).collect() };
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = digits.trim_start_matches('0');
    // 20 bytes are the most that X.509 allows.
    if !is_hex || digits.is_empty() || digits.len() > 40 {
        return Err(refused());
    }
    let even = format!("{}{digits}", if digits.len().is_multiple_of(2) { "" } else { "0" });
    (0..even.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&even[at..at + 2], 16).map_err(|_| refused()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_is_hexadecimal_and_leading_zeros_do_not_count() {
        assert_eq!(parse_serial("00:0a:FF").unwrap(), [0x0a, 0xff]);
        assert_eq!(parse_serial("aff").unwrap(), [0x0a, 0xff]);
        for refused in ["", "0", "xyz", "知", &"1".repeat(41)] {
            assert!(matches!(parse_serial(refused), Err(AuthorityError::Serial { .. })), "{refused}");
        }
    }
}
