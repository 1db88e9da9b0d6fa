//! A certificate authority in a folder: for development, and for whoever has no other.
//!
//! ```text
//! ca.pem       the authority's certificate: what every node trusts
//! ca.key       its key: whoever has it can be any agent
//! ca.crl.pem   what it revoked; the list is its only memory of that
//! ca.lock      held while any of these is made or changed
//! ```
//!
//! Keys are ECDSA on P-256: every TLS library, hardware module and FIPS profile takes it, which cannot be said of Ed25519.

mod home;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;
use rcgen::CertificateParams;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::Issuer;
use rcgen::KeyPair;
use rcgen::KeyUsagePurpose;
use rcgen::SanType;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::UnixTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::CertificateRevocationList;
use x509_parser::prelude::FromDer as _;
use x509_parser::prelude::X509Certificate;

use crate::transport::facts::CertificateFacts;
use crate::transport::facts::Rough;
use crate::transport::facts::agent_of;
use crate::transport::facts::hex;
use crate::transport::facts::time;
use crate::transport::pem::PemError;
use crate::transport::pem::PemFile;
use crate::transport::pem::Wanted;
use crate::transport::private;
use crate::transport::tls::check::AnyUse;
use crate::transport::tls::check::PeerCheck;

pub(crate) use crate::transport::authority::home::development_authority;

/// How long a certificate is valid if nothing else is said: renewed each quarter, it is renewed by habit.
pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(90 * DAY);
/// The longest that a certificate can be valid: the bound that browsers set for what people forget to renew.
pub const MAX_VALIDITY: Duration = Duration::from_secs(825 * DAY);

const DAY: u64 = 24 * 60 * 60;
/// Certificates begin this long ago: a peer whose clock is a little behind accepts a new one at once.
const BACKDATED: Duration = Duration::from_secs(5 * 60);
/// How long the authority's own certificate is valid.
const CA_VALIDITY: Duration = Duration::from_secs(3650 * DAY);
/// The end of 2049: from 2050 on X.509 writes dates in another form, which some readers still get wrong.
const LAST_DAY: Duration = Duration::from_secs(2_524_607_999);
/// How long a revocation list is fresh: reported from then on, never a reason to stop.
const LIST_VALIDITY: Duration = Duration::from_secs(30 * DAY);
/// Revoked certificates in one list at most, so that the list stays within what is read from a file.
const MAX_REVOKED: usize = 10_000;

/// Why an authority cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// There is one already, and it is never overwritten.
    #[error("{} is there already; an authority is never overwritten: use it, or name another folder", path.display())]
    Exists {
        /// The file that is in the way.
        path: PathBuf,
    },
    /// A file cannot be made or changed.
    #[error("{} cannot be written: {why}", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// A file of the authority does not hold what it should.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The files are of another program, or not a pair.
    #[error("{} is no authority made by Hermes: {why}; make one with `hermes-peer certs init`", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A validity that no certificate gets.
    #[error("a certificate cannot be valid for {}; from 1 minute to {} days, {} by default", Rough(*given), MAX_VALIDITY.as_secs() / DAY, DEFAULT_VALIDITY.as_secs() / DAY)]
    Validity {
        /// What was asked for.
        given: Duration,
    },
    /// A certificate that this authority did not issue, or that lacks an agent or a node.
    #[error("{} cannot be renewed: {why}; issue a new one with `hermes-peer certs issue`", path.display())]
    NotRenewable {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No serial number.
    #[error(
        "`{given}` is no serial number: 1 to 40 hexadecimal digits, as `hermes-peer certs show` prints them"
    )]
    Serial {
        /// What was given.
        given: String,
    },
    /// The list is full.
    #[error("the revocation list is full ({MAX_REVOKED} certificates); make a new authority")]
    ListFull,
    /// The data folder of this user is not known.
    #[error("there is no home folder to keep the development authority in; set HERMES_PEER_HOME")]
    NoHome,
    /// The cryptographic library refused.
    #[error("no certificate can be made: {0}")]
    Crypto(#[from] rcgen::Error),
}

/// A certificate authority in a folder.
pub struct Authority {
    folder: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A new certificate and its key, as PEM text.
#[expect(
    clippy::exhaustive_structs,
    reason = "a certificate and a key is all there is"
)]
pub struct IssuedPem {
    /// The certificate.
    pub cert: String,
    /// Its private key: nobody else may see it.
    pub key: String,
}

impl Authority {
    /// Makes an authority in the folder, which is made as well, for this user alone.
    ///
    /// # Errors
    ///
    /// If there is one already, or files cannot be made.
    pub fn create(folder: &Path) -> Result<Self, AuthorityError> {
        let _lock = lock(folder)?;
        for path in [folder.join("ca.key"), folder.join("ca.pem")] {
            if path.exists() {
                return Err(AuthorityError::Exists { path });
            }
        }
        Self::make(folder)
    }

    /// Opens the authority in the folder.
    ///
    /// # Errors
    ///
    /// If its files are missing, broken, not a pair, or were made by another program.
    pub fn open(folder: &Path) -> Result<Self, AuthorityError> {
        let not_ours = |why: &str| AuthorityError::NotOurs {
            path: folder.to_owned(),
            why: why.to_owned(),
        };
        let certificate = PemFile::read(&folder.join("ca.pem"), Wanted::Certificate)
            .certificates()?
            .remove(0);
        let key = KeyPair::try_from(&PemFile::read(&folder.join("ca.key"), Wanted::Key).key()?.key)?;
        let (_, parsed) =
            X509Certificate::from_der(&certificate).map_err(|_| not_ours("ca.pem is damaged"))?;
        if parsed.public_key().raw != rcgen::PublicKeyData::subject_public_key_info(&key) {
            return Err(not_ours("ca.key is not the key of ca.pem"));
        }
        let name = parsed
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok());
        let name = name
            .filter(|name| *name == ca_name(&key))
            .ok_or_else(|| not_ours("its name is another"))?;
        let issuer = Issuer::new(ca_params(name, time(parsed.validity().not_before)), key);
        Ok(Self {
            folder: folder.to_owned(),
            certificate,
            issuer,
        })
    }

    /// Makes the files, under the lock. The certificate comes last: where it is, all is, and where a process was killed
    /// before, the next one goes on with the same key.
    fn make(folder: &Path) -> Result<Self, AuthorityError> {
        let key_path = folder.join("ca.key");
        if !key_path.exists() {
            create(&key_path, &new_key()?.serialize_pem())?;
        }
        let key = KeyPair::try_from(&PemFile::read(&key_path, Wanted::Key).key()?.key)?;
        let params = ca_params(&ca_name(&key), SystemTime::now() - BACKDATED);
        let certificate = params.self_signed(&key)?;
        let made = Self {
            folder: folder.to_owned(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        };
        made.write_list(Vec::new(), 1)?;
        create(&made.ca_path(), &certificate.pem())?;
        Ok(made)
    }

    /// The authority's certificate: the file that nodes name as `ca`.
    pub fn ca_path(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// What the authority revoked: the file that nodes name as `crl`.
    pub fn crl_path(&self) -> PathBuf {
        self.folder.join("ca.crl.pem")
    }

    /// The authority's certificate itself.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Issues a certificate for a node of an agent, valid from 5 minutes ago, [`DEFAULT_VALIDITY`] by convention, and
    /// never longer than the authority's own.
    ///
    /// # Errors
    ///
    /// If the validity is under a minute or over [`MAX_VALIDITY`].
    pub fn issue(
        &self,
        agent: &AgentUri,
        node: &NodeId,
        validity: Duration,
    ) -> Result<IssuedPem, AuthorityError> {
        if !(Duration::from_secs(60)..=MAX_VALIDITY).contains(&validity) {
            return Err(AuthorityError::Validity { given: validity });
        }
        let now = SystemTime::now();
        let last = CertificateFacts::read(&self.certificate).map_or(now, |own| own.not_after);
        let mut params = CertificateParams::default();
        params.not_before = (now - BACKDATED).into();
        params.not_after = (now + validity).min(last).into();
        params.distinguished_name.push(DnType::CommonName, node.as_str());
        params.subject_alt_names = vec![
            SanType::URI(agent.as_str().try_into()?),
            SanType::DnsName(node.as_str().try_into()?),
        ];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = new_key()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(IssuedPem {
            cert: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Issues a certificate for the same agent and node as the one in the file, with a new key and a new serial number.
    ///
    /// # Errors
    ///
    /// If the certificate is not of this authority, is revoked, or does not name one agent and one node.
    pub fn renew(&self, certificate: &Path, validity: Duration) -> Result<IssuedPem, AuthorityError> {
        let refused = |why: &str| AuthorityError::NotRenewable {
            path: certificate.to_owned(),
            why: why.to_owned(),
        };
        let old = PemFile::read(certificate, Wanted::Certificate)
            .certificates()?
            .remove(0);
        let (_, parsed) = X509Certificate::from_der(&old).map_err(|_| refused("it is damaged"))?;
        let check = PeerCheck::new(
            std::slice::from_ref(&self.certificate),
            &[],
            rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms,
        );
        // At a moment within its validity: what has expired can be renewed.
        let then = Duration::from_secs(parsed.validity().not_after.timestamp().unsigned_abs());
        let verified = check.map_err(|error| refused(&error.to_string()))?.verify(
            &old,
            &[],
            UnixTime::since_unix_epoch(then),
            AnyUse,
        );
        verified.map_err(|error| refused(&format!("this authority did not issue it ({error})")))?;
        if self.facts(&old)?.is_some_and(|facts| facts.is_revoked) {
            return Err(refused("it is revoked"));
        }
        let agent = agent_of(&old).map_err(|found| refused(&format!("it has {found}")))?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let node = names
            .into_iter()
            .flat_map(|names| &names.value.general_names)
            .find_map(|name| match name {
                GeneralName::DNSName(name) => name.parse::<NodeId>().ok(),
                _ => None,
            });
        self.issue(
            &agent,
            &node.ok_or_else(|| refused("it names no node"))?,
            validity,
        )
    }

    /// Revokes a certificate by its serial number; nodes that watch the list close its links within a minute. False if
    /// it was revoked before.
    ///
    /// # Errors
    ///
    /// If that is no serial number, or the list cannot be read or written.
    pub fn revoke(&self, serial: &str) -> Result<bool, AuthorityError> {
        let serial = parse_serial(serial)?;
        let _lock = lock(&self.folder)?;
        let (mut revoked, number) = self.read_list()?;
        if revoked.iter().any(|(other, _)| *other == serial) {
            return Ok(false);
        }
        if revoked.len() >= MAX_REVOKED {
            return Err(AuthorityError::ListFull);
        }
        revoked.push((serial, SystemTime::now()));
        self.write_list(revoked, number + 1).map(|()| true)
    }

    /// Signs the list anew, so that it is fresh for another 30 days.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or written.
    pub fn refresh_list(&self) -> Result<(), AuthorityError> {
        let _lock = lock(&self.folder)?;
        let (revoked, number) = self.read_list()?;
        self.write_list(revoked, number + 1)
    }

    /// What the certificate in a file says, and whether this authority revoked it.
    ///
    /// # Errors
    ///
    /// If there is no certificate in the file, or the list cannot be read.
    pub fn show(&self, certificate: &Path) -> Result<CertificateFacts, AuthorityError> {
        let read = PemFile::read(certificate, Wanted::Certificate)
            .certificates()?
            .remove(0);
        self.facts(&read)?.ok_or_else(|| AuthorityError::NotRenewable {
            path: certificate.to_owned(),
            why: "it is damaged".to_owned(),
        })
    }

    fn facts(&self, certificate: &CertificateDer<'_>) -> Result<Option<CertificateFacts>, AuthorityError> {
        let own = X509Certificate::from_der(&self.certificate)
            .map(|(_, own)| own.subject().to_string())
            .ok();
        let Some(mut facts) = CertificateFacts::read(certificate) else {
            return Ok(None);
        };
        if own.is_some_and(|own| own == facts.issuer) {
            let serial = parse_serial(&facts.serial)?;
            facts.is_revoked = self.read_list()?.0.iter().any(|(revoked, _)| *revoked == serial);
        }
        Ok(Some(facts))
    }

    /// Serial numbers and when they were revoked, and the list's own number.
    fn read_list(&self) -> Result<(Vec<(Vec<u8>, SystemTime)>, u64), AuthorityError> {
        let path = self.crl_path();
        let list = PemFile::read(&path, Wanted::RevocationList)
            .revocation_lists()?
            .remove(0);
        let damaged = || AuthorityError::NotOurs {
            path: path.clone(),
            why: "the list is damaged".to_owned(),
        };
        let (_, list) = CertificateRevocationList::from_der(&list).map_err(|_| damaged())?;
        let number = list
            .crl_number()
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(damaged)?;
        let revoked = list
            .iter_revoked_certificates()
            .map(|one| parse_serial(&hex(one.raw_serial())).map(|serial| (serial, time(one.revocation_date))))
            .collect::<Result<_, _>>()?;
        Ok((revoked, number))
    }

    fn write_list(&self, revoked: Vec<(Vec<u8>, SystemTime)>, number: u64) -> Result<(), AuthorityError> {
        let now = SystemTime::now();
        let revoked = revoked.into_iter().map(|(serial, at)| rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(&serial),
            revocation_time: at.into(),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: (now - BACKDATED).into(),
            next_update: (now + LIST_VALIDITY).into(),
            crl_number: number.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        replace(&self.crl_path(), &params.signed_by(&self.issuer)?.pem()?)
    }
}

impl IssuedPem {
    /// Writes both to files that are not there yet, readable by this user alone.
    ///
    /// # Errors
    ///
    /// If one of the files is there, or cannot be written.
    pub fn save(&self, cert: &Path, key: &Path) -> Result<(), AuthorityError> {
        if let Some(path) = [cert, key].into_iter().find(|path| path.exists()) {
            return Err(AuthorityError::Exists {
                path: path.to_owned(),
            });
        }
        create(key, &self.key)?;
        create(cert, &self.cert)
    }

    /// Replaces the files of the certificate that this one renews. A node that sees one of them changed waits for the other.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn replace(&self, cert: &Path, key: &Path) -> Result<(), AuthorityError> {
        replace(key, &self.key)?;
        replace(cert, &self.cert)
    }
}

fn new_key() -> Result<KeyPair, AuthorityError> {
    Ok(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?)
}

/// The name carries a part of the key's digest: two authorities must differ by name, or the one's revocation list would be
/// taken for the other's.
fn ca_name(key: &KeyPair) -> String {
    let id = CertificateParams::default().key_identifier(key);
    format!("Hermes authority {}", hex(&id[..id.len().min(4)]))
}

fn ca_params(name: &str, not_before: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = not_before.into();
    params.not_after = (not_before + CA_VALIDITY)
        .min(SystemTime::UNIX_EPOCH + LAST_DAY)
        .into();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A serial number's bytes without leading zeros, so that the same number is the same bytes.
fn parse_serial(given: &str) -> Result<Vec<u8>, AuthorityError> {
    let digits: String = given.trim().chars().filter(|c| *c != ':').collect();
    let refused = || AuthorityError::Serial {
        given: given.chars().take(80).flat_map(char::escape_debug).collect(),
    };
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = digits.trim_start_matches('0');
    // 20 bytes are the most that X.509 allows.
    if !is_hex || digits.is_empty() || digits.len() > 40 {
        return Err(refused());
    }
    let even = format!("{}{digits}", if digits.len() % 2 == 0 { "" } else { "0" });
    (0..even.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&even[at..at + 2], 16).map_err(|_| refused()))
        .collect()
}

/// Only one process at a time makes or changes the files of a folder. Given back when the file is closed.
fn lock(folder: &Path) -> Result<fs::File, AuthorityError> {
    let unwritable = |path: &Path, why| AuthorityError::Unwritable {
        path: path.to_owned(),
        why,
    };
    private::make_folder(folder).map_err(|why| unwritable(folder, why))?;
    let path = folder.join("ca.lock");
    let file = private::open_lock(&path).map_err(|why| unwritable(&path, why))?;
    file.lock().map_err(|why| unwritable(&path, why))?;
    Ok(file)
}

fn create(path: &Path, text: &str) -> Result<(), AuthorityError> {
    private::create(path, text.as_bytes()).map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => AuthorityError::Exists {
            path: path.to_owned(),
        },
        _ => AuthorityError::Unwritable {
            path: path.to_owned(),
            why,
        },
    })
}

fn replace(path: &Path, text: &str) -> Result<(), AuthorityError> {
    private::replace(path, text.as_bytes()).map_err(|why| AuthorityError::Unwritable {
        path: path.to_owned(),
        why,
    })
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedPem")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
