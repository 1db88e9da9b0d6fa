//! The development authority of this user: what lets the processes of one user trust each other and nobody else.

use std::path::Path;
use std::path::PathBuf;

use crate::transport::authority::Authority;
use crate::transport::authority::error::AuthorityError;
use crate::transport::authority::files;
use crate::transport::private;

/// The authority in this user's data folder, made at first use: `$HERMES_PEER_HOME/ca`, else
/// `$XDG_DATA_HOME/hermes-peer/ca`, else `~/.local/share/hermes-peer/ca` (macOS `~/Library/Application Support`, Windows
/// `%LOCALAPPDATA%`). Any number of processes can ask for it at the same moment.
///
/// # Errors
///
/// If there is no such folder, it belongs to somebody else, or the authority in it is broken.
pub(crate) fn development_authority() -> Result<Authority, AuthorityError> {
    let folder = data_folder(|name| std::env::var_os(name).map(PathBuf::from), std::env::home_dir());
    authority_in(&folder.ok_or(AuthorityError::NoHome)?.join("ca"))
}

/// The data folder, from the environment. Relative paths are no answer: each process would find another.
fn data_folder(variable: impl Fn(&str) -> Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("HERMES_PEER_HOME") {
        return Some(folder);
    }
    let shared = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")))
    };
    shared.map(|shared| shared.join("hermes-peer"))
}

/// The authority in this folder, made at first use.
///
/// # Errors
///
/// As for [`development_authority`].
pub(crate) fn authority_in(folder: &Path) -> Result<Authority, AuthorityError> {
    let authority = {
        let _lock = files::lock(folder)?;
        private::check_folder(folder)
            .map_err(|why| AuthorityError::Unwritable { path: folder.to_owned(), why })?;
        if folder.join("ca.pem").exists() { Authority::open(folder)? } else { Authority::make(folder)? }
    };
    authority.refresh_list()?;
    Ok(authority)
}

#[cfg(test)]
mod tests;
