//! A look at a node's files without a node.

use std::path::PathBuf;

use crate::transport::facts::CertificateFacts;
use crate::transport::reload::LoadError;
use crate::transport::reload::TlsContext;
use crate::transport::reload::TlsFiles;
use crate::transport::tls::error::TlsError;

/// What a look at a node's files shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedFiles {
    /// The node's certificate.
    pub own: CertificateFacts,
    /// What the owner should know about the files, though they can be used.
    pub warnings: Vec<String>,
}

impl TlsFiles {
    /// The files of a node.
    pub fn new(ca: PathBuf, cert: PathBuf, key: PathBuf, crl: Option<PathBuf>) -> Self {
        Self { ca, cert, key, crl }
    }

    /// Reads them as a start does.
    ///
    /// # Errors
    ///
    /// What a start would refuse: a file is missing or broken, or they do not fit together.
    pub fn check(&self) -> Result<CheckedFiles, LoadError> {
        let context = TlsContext::from_files(self.clone())?;
        let own = context
            .own()
            .ok_or_else(|| LoadError::Tls { path: self.cert.clone(), why: TlsError::NoCertificate })?;
        Ok(CheckedFiles { own, warnings: context.warnings() })
    }
}
