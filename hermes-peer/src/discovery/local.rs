//! Nodes of the same user on the same machine, through a folder that only this user can enter.
//!
//! ```text
//! nlu-agent-01.json   what the node says about itself
//! nlu-agent-01.lock   locked for as long as the node lives; the system lets go of it however the node ends
//! .lock               held for the moment in which somebody looks around, announces or leaves
//! ```
//!
//! A record whose lock nobody holds is left over from a node that died, and is removed by whoever meets it.

use std::fmt;
use std::fs;
use std::fs::TryLockError;
use std::io;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::NodeId;
use serde::Deserialize;
use serde::Serialize;

use crate::transport::endpoint::Endpoint;
use crate::transport::private;

/// Longest record, in bytes: some four hundred capabilities with long names.
const MAX_RECORD: u64 = 64 * 1024;
/// Records that are looked at: more nodes than one machine runs, and an end for whoever fills the folder.
const MAX_RECORDS: usize = 1000;
/// Entries of the folder that are looked at, records or not.
const MAX_ENTRIES: usize = 10 * MAX_RECORDS;
/// Tries to get the folder's own lock, which is held for a few milliseconds at a time, and the pause between two of them:
/// a second in all, after which somebody holds it who was stopped by a debugger.
const TRIES: usize = 200;
const TRY_PAUSE: Duration = Duration::from_millis(5);

/// What a node says about itself to others on the machine. A newer node may say more; what is not known is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    /// The node; the name of its files.
    pub(crate) node_id: NodeId,
    /// Its agent.
    pub(crate) agent: AgentUri,
    /// Where it can be dialled from this machine.
    pub(crate) endpoint: Endpoint,
    /// What it offers.
    pub(crate) capabilities: Vec<CapabilityName>,
    /// Its process.
    pub(crate) pid: u32,
    /// Which start of the node this is.
    pub(crate) epoch: Epoch,
}

/// Why the folder of running nodes cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Another process runs a node of this name.
    #[error("a node `{node}` already runs on this machine{}; stop it, or give this one another `node_id`", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    NodeTaken {
        /// The name.
        node: NodeId,
        /// The other process, if its record can be read.
        pid: Option<u32>,
    },
    /// The folder or a file in it cannot be used.
    #[error("the folder of running nodes cannot be used: {}: {why}; HERMES_PEER_RUNTIME names another", path.display())]
    Unusable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// Somebody holds the folder's lock and does not let go.
    #[error("another process has kept {} locked for a second; is one of them stopped?", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The record would be passed over by others.
    #[error(
        "the record of this node would be {bytes} bytes long, {MAX_RECORD} are read; offer fewer capabilities in one node"
    )]
    TooLarge {
        /// How long it would be.
        bytes: usize,
    },
}

/// The folder in which nodes of this user announce themselves. Its calls block for moments: not for the runtime's threads.
#[derive(Clone, Debug)]
pub(crate) struct LocalFolder {
    path: PathBuf,
}

impl LocalFolder {
    /// The folder of this user: `$HERMES_PEER_RUNTIME`, else `$XDG_RUNTIME_DIR/hermes-peer`, else one in the folder for
    /// temporary files.
    ///
    /// # Errors
    ///
    /// If it cannot be made, belongs to somebody else, or others can enter it.
    pub(crate) fn of_this_user() -> Result<Self, LocalError> {
        Self::open(runtime_folder(|name| std::env::var_os(name).map(PathBuf::from)))
    }

    /// A folder by its path, made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be made, belongs to somebody else, or others can enter it.
    pub(crate) fn open(path: PathBuf) -> Result<Self, LocalError> {
        match private::make_folder(&path).and_then(|()| private::check_folder(&path)) {
            Ok(()) => Ok(Self { path }),
            Err(why) => Err(LocalError::Unusable { path, why }),
        }
    }

    /// Tells the others that this node is here, until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// If another process runs a node of this name, or files cannot be written.
    pub(crate) fn announce(&self, record: NodeRecord) -> Result<Announcement, LocalError> {
        let _folder = self.hold()?;
        let path = self.lock_path(&record.node_id);
        let held =
            private::open_lock(&path).map_err(|why| LocalError::Unusable { path: path.clone(), why })?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = self.read(&record.node_id).map(|other| other.pid);
                return Err(LocalError::NodeTaken { node: record.node_id, pid });
            }
            Err(TryLockError::Error(why)) => return Err(LocalError::Unusable { path, why }),
        }
        self.write(&record)?;
        Ok(Announcement { folder: self.clone(), record, _held: held })
    }

    /// The nodes that run now, by name; records of those that died are removed. The first thousand, if there are more.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub(crate) fn scan(&self) -> Result<Vec<NodeRecord>, LocalError> {
        let _folder = self.hold()?;
        let entries = fs::read_dir(&self.path).map_err(|why| self.unusable(why))?;
        let mut nodes: Vec<NodeId> = entries
            .take(MAX_ENTRIES)
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.parse().ok())
            .take(MAX_RECORDS)
            .collect();
        nodes.sort_unstable();
        Ok(nodes
            .into_iter()
            .filter(|node| self.is_alive_or_removed(node))
            .filter_map(|node| self.read(&node))
            .collect())
    }

    /// Under the folder's lock.
    fn is_alive_or_removed(&self, node: &NodeId) -> bool {
        let alive = match fs::File::open(self.lock_path(node)) {
            Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if !alive {
            self.remove(node);
        }
        alive
    }

    /// Under the folder's lock, which is why nobody can be about to lock the file that goes.
    fn remove(&self, node: &NodeId) {
        for path in [self.record_path(node), self.lock_path(node)] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(path = %path.display(), %error, "the file of a node that is gone cannot be removed");
            }
        }
    }

    /// None, if it is no record of this node: too long, damaged, or under another name.
    fn read(&self, node: &NodeId) -> Option<NodeRecord> {
        let mut text = Vec::new();
        fs::File::open(self.record_path(node)).ok()?.take(MAX_RECORD + 1).read_to_end(&mut text).ok()?;
        let record: NodeRecord =
            (text.len() as u64 <= MAX_RECORD).then(|| serde_json::from_slice(&text).ok())??;
        (record.node_id == *node).then_some(record)
    }

    fn write(&self, record: &NodeRecord) -> Result<(), LocalError> {
        let path = self.record_path(&record.node_id);
        let text = serde_json::to_vec_pretty(record)
            .map_err(|why| LocalError::Unusable { path: path.clone(), why: why.into() })?;
        if text.len() as u64 > MAX_RECORD {
            return Err(LocalError::TooLarge { bytes: text.len() });
        }
        private::replace(&path, &text).map_err(|why| LocalError::Unusable { path, why })
    }

    fn record_path(&self, node: &NodeId) -> PathBuf {
        self.path.join(format!("{node}.json"))
    }

    fn lock_path(&self, node: &NodeId) -> PathBuf {
        self.path.join(format!("{node}.lock"))
    }

    fn hold(&self) -> Result<fs::File, LocalError> {
        let path = self.path.join(".lock");
        let file = private::open_lock(&path).map_err(|why| self.unusable(why))?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(TRY_PAUSE),
                Err(TryLockError::Error(why)) => return Err(LocalError::Unusable { path, why }),
            }
        }
        Err(LocalError::Busy { path })
    }

    fn unusable(&self, why: io::Error) -> LocalError {
        LocalError::Unusable { path: self.path.clone(), why }
    }
}

/// This node is announced for as long as this value lives.
pub(crate) struct Announcement {
    folder: LocalFolder,
    record: NodeRecord,
    /// The lock; others see that the node is gone when the file is closed.
    _held: fs::File,
}

impl Announcement {
    /// Tells the others what the node offers now.
    ///
    /// # Errors
    ///
    /// If the record cannot be written; the old one then stands.
    pub(crate) fn update(&mut self, capabilities: Vec<CapabilityName>) -> Result<(), LocalError> {
        let record = NodeRecord { capabilities, ..self.record.clone() };
        self.folder.write(&record)?;
        self.record = record;
        Ok(())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        match self.folder.hold() {
            Ok(_folder) => self.folder.remove(&self.record.node_id),
            // The lock goes with this value, and the record with the next one who looks.
            Err(error) => tracing::debug!(%error, "the record of this node stays for others to remove"),
        }
    }
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcement").field("record", &self.record).finish_non_exhaustive()
    }
}

fn runtime_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("HERMES_PEER_RUNTIME") {
        return folder;
    }
    absolute("XDG_RUNTIME_DIR").map_or_else(temporary_folder, |folder| folder.join("hermes-peer"))
}

/// Where users share the folder for temporary files, each has an own one in it.
fn temporary_folder() -> PathBuf {
    #[cfg(target_os = "linux")]
    if let Ok(uid) = private::own_uid() {
        // Not `$TMPDIR`: two terminals with two of them must find each other.
        return PathBuf::from(format!("/tmp/hermes-peer-{uid}"));
    }
    std::env::temp_dir().join("hermes-peer")
}

#[cfg(test)]
mod tests;
