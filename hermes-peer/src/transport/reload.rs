//! Certificates, keys and revocation lists that change while the node runs.
//!
//! What is in force is replaced as a whole, and only by a set that fits together; until then the last good one serves.
//! Handshakes take what is in force when they begin.

use std::fmt;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::UnixTime;
use tokio::sync::mpsc;

use crate::transport::ByteStream;
use crate::transport::facts::CertificateFacts;
use crate::transport::pem::PemError;
use crate::transport::pem::PemFile;
use crate::transport::pem::Wanted;
use crate::transport::tls;
use crate::transport::tls::TlsConnection;
use crate::transport::tls::check::AnyUse;
use crate::transport::tls::error::TlsError;
use crate::transport::tls::identity::TlsIdentity;
use crate::transport::tls::identity::TlsSnapshot;

/// How often files are looked at: soon enough that nobody waits for it, and a few kilobytes each time.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(2);

/// Where a node's certificate, key and what it trusts are kept, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The authorities whose certificates are accepted; several while the mesh moves from one to the next.
    pub ca: PathBuf,
    /// This node's certificate, followed by those between it and the authority, if there are any.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// What the authorities revoked.
    pub crl: Option<PathBuf>,
}

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
        let snapshot = FilesRead::read(self).snapshot(self)?;
        let mutual = snapshot.mutual.ok_or_else(|| LoadError::Tls {
            files: Box::new(self.clone()),
            why: TlsError::NoCertificate,
        })?;
        Ok(CheckedFiles {
            own: mutual.own,
            warnings: mutual.warnings,
        })
    }
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file does not hold what it should.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The files can be read and do not fit.
    #[error("{why} ({} and {})", files.cert.display(), files.key.display())]
    Tls {
        /// The files.
        files: Box<TlsFiles>,
        /// What is wrong.
        why: TlsError,
    },
}

/// What a look at the files brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// They changed and are in force for every handshake from now on.
    Reloaded {
        /// Serial number of the certificate.
        serial: String,
        /// Until when it is valid.
        not_after: SystemTime,
        /// What the owner should know about them.
        warnings: Vec<String>,
    },
    /// They changed and do not fit; the last good ones stay in force. Told once, until they fit or differ in another way.
    Refused {
        /// What is wrong.
        why: String,
    },
}

/// What this node shows and trusts in TLS, now. Clones share it.
#[derive(Clone)]
pub(crate) struct TlsContext {
    shared: Arc<Shared>,
}

struct Shared {
    current: ArcSwap<TlsSnapshot>,
    files: Option<Watched>,
}

struct Watched {
    paths: TlsFiles,
    seen: Mutex<Seen>,
}

/// What the last look at the files found.
struct Seen {
    digest: u64,
    refused: Option<String>,
}

impl TlsContext {
    /// For `mtls`, from files. What they hold from then on is followed by [`Self::check_files`].
    ///
    /// # Errors
    ///
    /// If a file is missing or broken, or they do not fit together; the revocation list too.
    pub(crate) fn from_files(paths: TlsFiles) -> Result<Self, LoadError> {
        let read = FilesRead::read(&paths);
        let snapshot = read.snapshot(&paths)?;
        let seen = Mutex::new(Seen {
            digest: read.digest(),
            refused: None,
        });
        Ok(Self::new(snapshot, Some(Watched { paths, seen })))
    }

    /// For `mtls`, from values.
    ///
    /// # Errors
    ///
    /// If they do not fit together.
    pub(crate) fn from_identity(identity: TlsIdentity) -> Result<Self, TlsError> {
        Ok(Self::new(TlsSnapshot::mutual(identity)?, None))
    }

    /// For `token`: encryption alone; who the peer is must be proven over the connection's channel binding.
    ///
    /// # Errors
    ///
    /// If no key can be made.
    pub(crate) fn for_token() -> Result<Self, TlsError> {
        Ok(Self::new(TlsSnapshot::for_token()?, None))
    }

    fn new(snapshot: TlsSnapshot, files: Option<Watched>) -> Self {
        Self {
            shared: Arc::new(Shared {
                current: ArcSwap::from_pointee(snapshot),
                files,
            }),
        }
    }

    /// What is in force now. Whoever proves with the key takes it from the snapshot of the connection's moment.
    pub(crate) fn current(&self) -> Arc<TlsSnapshot> {
        self.shared.current.load_full()
    }

    /// This node's certificate; none in `token` mode.
    pub(crate) fn own(&self) -> Option<CertificateFacts> {
        self.current().own().cloned()
    }

    /// What the owner should know about the files in force, though they can be used.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.current()
            .mutual
            .as_ref()
            .map(|mutual| mutual.warnings.clone())
            .unwrap_or_default()
    }

    /// Sets TLS up as the side that dialled; see [`tls::connect`].
    ///
    /// # Errors
    ///
    /// Why there is no connection, whose certificate it was, and what helps.
    pub(crate) async fn connect(&self, stream: Box<dyn ByteStream>) -> Result<TlsConnection, TlsError> {
        tls::connect(stream, self.current()).await
    }

    /// Sets TLS up as the side that accepted; see [`tls::accept`].
    ///
    /// # Errors
    ///
    /// Why there is no connection, whose certificate it was, and what helps.
    pub(crate) async fn accept(&self, stream: Box<dyn ByteStream>) -> Result<TlsConnection, TlsError> {
        tls::accept(stream, self.current()).await
    }

    /// Whether the certificates that a live link was made with would still be accepted: for a look each minute.
    ///
    /// # Errors
    ///
    /// Expired, revoked, or of an authority that is no longer trusted.
    pub(crate) fn is_still_good(&self, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
        let current = self.current();
        match (&current.mutual, chain.split_first()) {
            (Some(mutual), Some((end, above))) => mutual.check.check(end, above, UnixTime::now(), AnyUse),
            (Some(_), None) => Err(TlsError::NoCertificate),
            (None, _) => Ok(()),
        }
    }

    /// Looks at the files, and puts them in force if they changed and fit. None if there is nothing new.
    pub(crate) fn check_files(&self) -> Option<Reload> {
        let watched = self.shared.files.as_ref()?;
        let mut seen = watched.seen.lock();
        let read = FilesRead::read(&watched.paths);
        // Contents are compared, not dates: a file can change twice in one tick of the file system's clock.
        if std::mem::replace(&mut seen.digest, read.digest()) == read.digest() {
            return None;
        }
        match read.snapshot(&watched.paths) {
            Ok(snapshot) => {
                seen.refused = None;
                let own = snapshot.own()?.clone();
                let warnings = snapshot
                    .mutual
                    .as_ref()
                    .map(|mutual| mutual.warnings.clone())
                    .unwrap_or_default();
                self.shared.current.store(Arc::new(snapshot));
                Some(Reload::Reloaded {
                    serial: own.serial,
                    not_after: own.not_after,
                    warnings,
                })
            }
            Err(error) => {
                let why = error.to_string();
                let told = seen.refused.replace(why.clone());
                (told.as_ref() != Some(&why)).then_some(Reload::Refused { why })
            }
        }
    }

    /// Looks at the files again and again, [`WATCH_EVERY`] by default, until nobody listens to `events` any more.
    pub(crate) async fn watch(self, every: Duration, events: mpsc::Sender<Reload>) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = events.closed() => return,
            }
            let context = self.clone();
            // A file system can stall; the runtime must not.
            let looked = tokio::task::spawn_blocking(move || context.check_files()).await;
            if let Ok(Some(event)) = looked
                && events.send(event).await.is_err()
            {
                return;
            }
        }
    }
}

/// All files as they were at one moment.
struct FilesRead {
    ca: PemFile,
    cert: PemFile,
    key: PemFile,
    crl: Option<PemFile>,
}

impl FilesRead {
    fn read(paths: &TlsFiles) -> Self {
        Self {
            ca: PemFile::read(&paths.ca, Wanted::Certificate),
            cert: PemFile::read(&paths.cert, Wanted::Certificate),
            key: PemFile::read(&paths.key, Wanted::Key),
            crl: paths
                .crl
                .as_ref()
                .map(|path| PemFile::read(path, Wanted::RevocationList)),
        }
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for file in [
            Some(&self.ca),
            Some(&self.cert),
            Some(&self.key),
            self.crl.as_ref(),
        ]
        .into_iter()
        .flatten()
        {
            file.content().hash(&mut hasher);
        }
        hasher.finish()
    }

    fn snapshot(&self, paths: &TlsFiles) -> Result<TlsSnapshot, LoadError> {
        let key = self.key.key()?;
        let identity = TlsIdentity {
            chain: self.cert.certificates()?,
            key: key.key,
            roots: self.ca.certificates()?,
            revocation_lists: self
                .crl
                .as_ref()
                .map(PemFile::revocation_lists)
                .transpose()?
                .unwrap_or_default(),
        };
        let mut snapshot = TlsSnapshot::mutual(identity).map_err(|why| LoadError::Tls {
            files: Box::new(paths.clone()),
            why,
        })?;
        if let (Some(mutual), Some(warning)) = (&mut snapshot.mutual, key.warning) {
            mutual.warnings.push(warning);
        }
        Ok(snapshot)
    }
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext")
            .field("own", &self.own())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
