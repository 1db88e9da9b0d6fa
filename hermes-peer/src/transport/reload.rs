//! Certificates, keys and revocation lists that change while the node runs.
//!
//! What is in force is replaced as a whole, and only by a set that fits together; until then the last good one serves.
//! Handshakes take what is in force when they begin.

pub(crate) mod check;

use std::fmt;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::UnixTime;
use tokio::sync::mpsc;

use crate::transport::ByteStream;
use crate::transport::authority::Authority;
use crate::transport::authority::CA_FILE;
use crate::transport::authority::CRL_FILE;
use crate::transport::authority::error::AuthorityError;
use crate::transport::authority::validity::DEFAULT_VALIDITY;
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

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file does not hold what it should.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The user's own authority issues no certificate.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The files can be read and do not fit.
    #[error("{why} ({})", path.display())]
    Tls {
        /// The certificate's file, or the authority's folder.
        path: PathBuf,
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
    origin: Origin,
    seen: Mutex<Seen>,
}

/// Where the certificate and its key come from.
enum Origin {
    /// From files that somebody else writes.
    Files(TlsFiles),
    /// Issued by the authority in this folder, for this process alone: the key is in no file.
    Issued { folder: PathBuf, agent: AgentUri, node: NodeId },
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
        Self::watched(Origin::Files(paths))
    }

    /// For `mtls`, with a certificate that the authority in the folder issues to this process, and again in time.
    ///
    /// # Errors
    ///
    /// If the authority is broken.
    pub(crate) fn issued_by(folder: PathBuf, agent: AgentUri, node: NodeId) -> Result<Self, LoadError> {
        Self::watched(Origin::Issued { folder, agent, node })
    }

    fn watched(origin: Origin) -> Result<Self, LoadError> {
        let read = FilesRead::read(&origin);
        let snapshot = read.snapshot()?;
        let seen = Mutex::new(Seen { digest: read.digest(), refused: None });
        Ok(Self::new(snapshot, Some(Watched { origin, seen })))
    }

    /// For `mtls`, from values.
    ///
    /// # Errors
    ///
    /// If they do not fit together.
    #[cfg(test)]
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
        Self { shared: Arc::new(Shared { current: ArcSwap::from_pointee(snapshot), files }) }
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
        self.current().mutual.as_ref().map(|mutual| mutual.warnings.clone()).unwrap_or_default()
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
        let read = FilesRead::read(&watched.origin);
        // Contents are compared, not dates: a file can change twice in one tick of the file system's clock.
        let is_same = std::mem::replace(&mut seen.digest, read.digest()) == read.digest();
        if is_same && !self.is_half_over(&watched.origin) {
            return None;
        }
        match read.snapshot() {
            Ok(snapshot) => {
                seen.refused = None;
                let own = snapshot.own()?.clone();
                let warnings =
                    snapshot.mutual.as_ref().map(|mutual| mutual.warnings.clone()).unwrap_or_default();
                self.shared.current.store(Arc::new(snapshot));
                Some(Reload::Reloaded { serial: own.serial, not_after: own.not_after, warnings })
            }
            Err(error) => {
                let why = error.to_string();
                let told = seen.refused.replace(why.clone());
                (told.as_ref() != Some(&why)).then_some(Reload::Refused { why })
            }
        }
    }

    /// Whether it is time for the next certificate of one's own authority.
    fn is_half_over(&self, origin: &Origin) -> bool {
        let left =
            |own: CertificateFacts| own.not_after.duration_since(SystemTime::now()).unwrap_or_default();
        matches!(origin, Origin::Issued { .. })
            && self.own().is_some_and(|own| left(own) < DEFAULT_VALIDITY / 2)
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
struct FilesRead<'a> {
    ca: PemFile,
    crl: Option<PemFile>,
    pair: Pair<'a>,
    /// The certificate's file, or the authority's folder.
    path: &'a Path,
}

/// Where certificate and key are taken from.
enum Pair<'a> {
    Files { cert: PemFile, key: PemFile },
    Issued { agent: &'a AgentUri, node: &'a NodeId },
}

impl<'a> FilesRead<'a> {
    fn read(origin: &'a Origin) -> Self {
        let certificate = |path: &Path| PemFile::read(path, Wanted::Certificate);
        let list = |path: &Path| PemFile::read(path, Wanted::RevocationList);
        match origin {
            Origin::Files(paths) => Self {
                ca: certificate(&paths.ca),
                crl: paths.crl.as_deref().map(list),
                pair: Pair::Files {
                    cert: certificate(&paths.cert),
                    key: PemFile::read(&paths.key, Wanted::Key),
                },
                path: &paths.cert,
            },
            Origin::Issued { folder, agent, node } => Self {
                ca: certificate(&folder.join(CA_FILE)),
                crl: Some(list(&folder.join(CRL_FILE))),
                pair: Pair::Issued { agent, node },
                path: folder,
            },
        }
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let (cert, key) = match &self.pair {
            Pair::Files { cert, key } => (Some(cert), Some(key)),
            Pair::Issued { .. } => (None, None),
        };
        for file in [Some(&self.ca), self.crl.as_ref(), cert, key].into_iter().flatten() {
            file.content().hash(&mut hasher);
        }
        hasher.finish()
    }

    fn snapshot(&self) -> Result<TlsSnapshot, LoadError> {
        let (chain, key, warning) = match &self.pair {
            Pair::Files { cert, key } => {
                let loaded = key.key()?;
                (cert.certificates()?, loaded.key, loaded.warning)
            }
            Pair::Issued { agent, node } => {
                let (certificate, key) = Authority::open(self.path)?.issue_der(agent, node)?;
                (vec![certificate], key, None)
            }
        };
        let roots = self.ca.certificates()?;
        let lists = self.crl.as_ref().map(PemFile::revocation_lists).transpose()?;
        let identity = TlsIdentity { chain, key, roots, revocation_lists: lists.unwrap_or_default() };
        let mut snapshot = TlsSnapshot::mutual(identity)
            .map_err(|why| LoadError::Tls { path: self.path.to_owned(), why })?;
        if let (Some(mutual), Some(warning)) = (&mut snapshot.mutual, warning) {
            mutual.warnings.push(warning);
        }
        Ok(snapshot)
    }
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext").field("own", &self.own()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
