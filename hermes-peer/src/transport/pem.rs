//! Certificates, keys and revocation lists from PEM files, with a sentence for every way in which a file can be wrong.

use std::fmt;
use std::fs;
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

/// Longest file that is read: a revocation list of some ten thousand certificates. What is longer was meant otherwise.
const MAX_FILE: u64 = 1024 * 1024;

/// What a file should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// A certificate, or several.
    Certificate,
    /// One private key.
    Key,
    /// A certificate revocation list, or several.
    RevocationList,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "a certificate (`BEGIN CERTIFICATE`)",
            Self::Key => "a private key (`BEGIN PRIVATE KEY`)",
            Self::RevocationList => "a revocation list (`BEGIN X509 CRL`)",
        })
    }
}

/// A file that does not hold what it should. The path is the one that was opened, in full.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PemError {
    /// It cannot be opened or read.
    #[error("{} cannot be read: {why}; wanted {wanted}; a relative path is relative to the configuration file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: Wanted,
        /// What the system said.
        why: io::Error,
    },
    /// There is something else than the file should hold.
    #[error("{} holds {found}; wanted {wanted}{}", path.display(), remedy.as_ref().map(|line| format!("; try `{line}`")).unwrap_or_default())]
    Other {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: Wanted,
        /// What it holds.
        found: String,
        /// The command that helps, where one does.
        remedy: Option<String>,
    },
}

/// A file as it was read once, so that what was compared is what is parsed.
#[derive(Debug)]
pub(crate) struct PemFile {
    path: PathBuf,
    wanted: Wanted,
    content: io::Result<Vec<u8>>,
}

/// A key, and what its owner should know about the file it came from.
pub(crate) struct LoadedKey {
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) warning: Option<String>,
}

impl PemFile {
    /// Reads the file; what went wrong is told when its content is asked for.
    pub(crate) fn read(path: &Path, wanted: Wanted) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { content: read_bounded(&path), path, wanted }
    }

    /// The bytes, or the reason why there are none.
    pub(crate) fn content(&self) -> Result<&[u8], io::ErrorKind> {
        self.content.as_deref().map_err(io::Error::kind)
    }

    /// All certificates in the file, one at least.
    ///
    /// # Errors
    ///
    /// If there are none, or one is cut.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemError> {
        self.sections()
    }

    /// All revocation lists in the file, one at least.
    ///
    /// # Errors
    ///
    /// If there are none, or one is cut.
    pub(crate) fn revocation_lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, PemError> {
        self.sections()
    }

    /// The one private key in the file: PKCS#8, PKCS#1 or SEC1, not encrypted.
    ///
    /// # Errors
    ///
    /// If there is none, or more than one.
    pub(crate) fn key(&self) -> Result<LoadedKey, PemError> {
        let mut keys = self.sections::<PrivateKeyDer<'static>>()?;
        match (keys.pop(), keys.len()) {
            (Some(key), 0) => Ok(LoadedKey { key, warning: self.rights_warning() }),
            (_, more) => Err(self.other(format!("{} private keys", more + 1), None)),
        }
    }

    fn sections<T: PemObject>(&self) -> Result<Vec<T>, PemError> {
        let text = match &self.content {
            Ok(text) => text,
            Err(why) => {
                let why = io::Error::new(why.kind(), why.to_string());
                return Err(PemError::Unreadable { path: self.path.clone(), wanted: self.wanted, why });
            }
        };
        let found: Result<Vec<T>, _> = T::pem_slice_iter(text).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(self.instead(text)),
            Err(_) if self.is_encrypted(text) => Err(self.instead(text)),
            Err(error) => Err(self.other(format!("PEM text that is damaged ({error})"), None)),
        }
    }

    /// What is there instead, and how it becomes what is wanted.
    fn instead(&self, text: &[u8]) -> PemError {
        let path = self.path.display();
        if text.trim_ascii().is_empty() {
            return self.other("nothing (it is empty)".to_owned(), None);
        }
        if self.is_encrypted(text) {
            let found = "an encrypted private key, and there is nobody to ask for its password";
            return self.other(found.to_owned(), Some(format!("openssl pkey -in {path} -out {path}.plain")));
        }
        let labels = labels(text);
        if labels.is_empty() {
            return if text.starts_with(&[0x30]) {
                self.binary()
            } else {
                self.other("no PEM text".to_owned(), None)
            };
        }
        self.other(labels.into_iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", "), None)
    }

    fn is_encrypted(&self, text: &[u8]) -> bool {
        let by_header = || text.windows(PROC_TYPE.len()).any(|window| window == PROC_TYPE);
        self.wanted == Wanted::Key
            && (labels(text).iter().any(|label| label.contains("ENCRYPTED")) || by_header())
    }

    fn binary(&self) -> PemError {
        let verb = match self.wanted {
            Wanted::Certificate => "x509",
            Wanted::Key => "pkey",
            Wanted::RevocationList => "crl",
        };
        let path = self.path.display();
        let remedy = format!("openssl {verb} -inform der -in {path} -out {path}.pem");
        self.other("binary data (DER), not PEM text".to_owned(), Some(remedy))
    }

    /// What is no certificate, though it is marked as one.
    pub(crate) fn damaged(&self) -> PemError {
        self.other("a certificate that is damaged".to_owned(), None)
    }

    fn other(&self, found: String, remedy: Option<String>) -> PemError {
        PemError::Other { path: self.path.clone(), wanted: self.wanted, found, remedy }
    }

    /// A key that others can read is used, and its owner is told.
    #[cfg(unix)]
    fn rights_warning(&self) -> Option<String> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&self.path).ok()?.permissions().mode() & 0o777;
        let path = self.path.display();
        (mode & 0o077 != 0).then(|| {
            format!("the private key {path} can be read by others (mode {mode:04o}); run `chmod 600 {path}`")
        })
    }

    #[cfg(not(unix))]
    fn rights_warning(&self) -> Option<String> {
        None
    }
}

/// Older OpenSSL marks encryption by a header inside the section.
const PROC_TYPE: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// The kinds of PEM sections in the text, the first few.
fn labels(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::to_owned))
        .take(4)
        .map(|label| label.chars().take(40).collect())
        .collect()
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {MAX_FILE} bytes"),
        ));
    }
    Ok(content)
}

impl fmt::Debug for LoadedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedKey").field("warning", &self.warning).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
