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

pub(crate) mod error;
pub(crate) mod files;
mod revocation;
pub(crate) mod validity;

use std::fmt;
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
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::UnixTime;
use x509_parser::prelude::FromDer as _;
use x509_parser::prelude::X509Certificate;

use crate::transport::authority::error::AuthorityError;
use crate::transport::authority::revocation::RevocationList;
use crate::transport::authority::validity::BACKDATED;
use crate::transport::authority::validity::CA_VALIDITY;
use crate::transport::authority::validity::DEFAULT_VALIDITY;
use crate::transport::authority::validity::LAST_DAY;
use crate::transport::authority::validity::MAX_VALIDITY;
use crate::transport::facts::CertificateFacts;
use crate::transport::facts::agent_of;
use crate::transport::facts::hex;
use crate::transport::facts::node_of;
use crate::transport::facts::time;
use crate::transport::pem::PemFile;
use crate::transport::pem::Wanted;
use crate::transport::tls::check::AnyUse;
use crate::transport::tls::check::PeerCheck;

/// The authority's certificate, in its folder.
pub(crate) const CA_FILE: &str = "ca.pem";
/// What the authority revoked, in its folder.
pub(crate) const CRL_FILE: &str = "ca.crl.pem";

/// A certificate authority in a folder.
pub struct Authority {
    folder: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A new certificate and its key, as PEM text.
#[non_exhaustive]
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
        let _lock = files::lock(folder)?;
        for path in [folder.join("ca.key"), folder.join(CA_FILE)] {
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
        let not_ours = |why: &str| AuthorityError::NotOurs { path: folder.to_owned(), why: why.to_owned() };
        let certificate = PemFile::read(&folder.join(CA_FILE), Wanted::Certificate).certificates()?.remove(0);
        let key = KeyPair::try_from(&PemFile::read(&folder.join("ca.key"), Wanted::Key).key()?.key)?;
        let (_, parsed) =
            X509Certificate::from_der(&certificate).map_err(|_| not_ours("ca.pem is damaged"))?;
        if parsed.public_key().raw != rcgen::PublicKeyData::subject_public_key_info(&key) {
            return Err(not_ours("ca.key is not the key of ca.pem"));
        }
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let name =
            name.filter(|name| *name == ca_name(&key)).ok_or_else(|| not_ours("its name is another"))?;
        let issuer = Issuer::new(ca_params(name, time(parsed.validity().not_before)), key);
        Ok(Self { folder: folder.to_owned(), certificate, issuer })
    }

    /// Makes the files, under the lock. The certificate comes last: where it is, all is, and where a process was killed
    /// before, the next one goes on with the same key.
    pub(crate) fn make(folder: &Path) -> Result<Self, AuthorityError> {
        let key_path = folder.join("ca.key");
        if !key_path.exists() {
            files::create(&key_path, &new_key()?.serialize_pem())?;
        }
        let key = KeyPair::try_from(&PemFile::read(&key_path, Wanted::Key).key()?.key)?;
        let params = ca_params(&ca_name(&key), SystemTime::now() - BACKDATED);
        let certificate = params.self_signed(&key)?;
        let made = Self {
            folder: folder.to_owned(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        };
        RevocationList::default().write(&made.crl_path(), &made.issuer)?;
        files::create(&made.ca_path(), &certificate.pem())?;
        Ok(made)
    }

    /// Where the authority's files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The authority's certificate: the file that nodes name as `ca`.
    pub fn ca_path(&self) -> PathBuf {
        self.folder.join(CA_FILE)
    }

    /// What the authority revoked: the file that nodes name as `crl`.
    pub fn crl_path(&self) -> PathBuf {
        self.folder.join(CRL_FILE)
    }

    /// The authority's certificate itself.
    #[cfg(test)]
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
        let (certificate, key) = self.sign(agent, node, validity)?;
        Ok(IssuedPem { cert: certificate.pem(), key: key.serialize_pem() })
    }

    /// Like [`Self::issue`] with [`DEFAULT_VALIDITY`], for this process alone: the key never gets into a file.
    ///
    /// # Errors
    ///
    /// If the cryptographic library refuses.
    pub(crate) fn issue_der(
        &self,
        agent: &AgentUri,
        node: &NodeId,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), AuthorityError> {
        let (certificate, key) = self.sign(agent, node, DEFAULT_VALIDITY)?;
        Ok((certificate.into(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    }

    fn sign(
        &self,
        agent: &AgentUri,
        node: &NodeId,
        validity: Duration,
    ) -> Result<(rcgen::Certificate, KeyPair), AuthorityError> {
        if !(Duration::from_secs(60)..=MAX_VALIDITY).contains(&validity) {
            return Err(AuthorityError::Validity { given: validity });
        }
        let now = SystemTime::now();
        let last = CertificateFacts::read(&self.certificate).map_or(now, |own| own.not_after);
        let mut params = CertificateParams::default();
        params.not_before = (now - BACKDATED).into();
        params.not_after = (now + validity).min(last).into();
        params.distinguished_name.push(DnType::CommonName, node.as_str());
        params.subject_alt_names =
            vec![SanType::URI(agent.as_str().try_into()?), SanType::DnsName(node.as_str().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = new_key()?;
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }

    /// Issues a certificate for the same agent and node as the one in the file, with a new key and a new serial number.
    ///
    /// # Errors
    ///
    /// If the certificate is not of this authority, is revoked, or does not name one agent and one node.
    pub fn renew(&self, certificate: &Path, validity: Duration) -> Result<IssuedPem, AuthorityError> {
        let refused =
            |why: &str| AuthorityError::NotRenewable { path: certificate.to_owned(), why: why.to_owned() };
        let old = PemFile::read(certificate, Wanted::Certificate).certificates()?.remove(0);
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
        let node = node_of(&parsed).ok_or_else(|| refused("it names no node"))?;
        self.issue(&agent, &node, validity)
    }

    /// Revokes a certificate by its serial number; nodes that watch the list close its links within a minute. False if
    /// it was revoked before.
    ///
    /// # Errors
    ///
    /// If that is no serial number, or the list cannot be read or written.
    pub fn revoke(&self, serial: &str) -> Result<bool, AuthorityError> {
        let _lock = files::lock(&self.folder)?;
        let mut list = RevocationList::read(&self.crl_path())?;
        if list.has(serial) {
            return Ok(false);
        }
        list.add(serial)?;
        list.write(&self.crl_path(), &self.issuer).map(|()| true)
    }

    /// Signs the list anew if it ends within 15 days, so that it is fresh for another 30.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or written.
    pub fn refresh_list(&self) -> Result<(), AuthorityError> {
        let _lock = files::lock(&self.folder)?;
        let list = RevocationList::read(&self.crl_path())?;
        if list.is_old() { list.write(&self.crl_path(), &self.issuer) } else { Ok(()) }
    }

    /// What the certificate in a file says, and whether this authority revoked it.
    ///
    /// # Errors
    ///
    /// If there is no certificate in the file, or the list cannot be read.
    pub fn show(&self, certificate: &Path) -> Result<CertificateFacts, AuthorityError> {
        let read = PemFile::read(certificate, Wanted::Certificate).certificates()?.remove(0);
        self.facts(&read)?.ok_or_else(|| AuthorityError::NotRenewable {
            path: certificate.to_owned(),
            why: "it is damaged".to_owned(),
        })
    }

    fn facts(&self, certificate: &CertificateDer<'_>) -> Result<Option<CertificateFacts>, AuthorityError> {
        let own = X509Certificate::from_der(&self.certificate).map(|(_, own)| own.subject().to_string()).ok();
        let Some(mut facts) = CertificateFacts::read(certificate) else {
            return Ok(None);
        };
        if own.is_some_and(|own| own == facts.issuer) {
            facts.is_revoked = RevocationList::read(&self.crl_path())?.has(&facts.serial);
        }
        Ok(Some(facts))
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
            return Err(AuthorityError::Exists { path: path.to_owned() });
        }
        files::create(key, &self.key)?;
        files::create(cert, &self.cert)
    }

    /// Replaces the files of the certificate that this one renews. A node that sees one of them changed waits for the other.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn replace(&self, cert: &Path, key: &Path) -> Result<(), AuthorityError> {
        files::replace(key, &self.key)?;
        files::replace(cert, &self.cert)
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
    params.not_after = (not_before + CA_VALIDITY).min(SystemTime::UNIX_EPOCH + LAST_DAY).into();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedPem").field("cert", &self.cert).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
