//! The files of an authority, and the lock under which they are made and changed.

use std::fs;
use std::io;
use std::path::Path;

use crate::transport::authority::error::AuthorityError;
use crate::transport::private;

/// Only one process at a time makes or changes the files of a folder. Given back when the file is closed.
pub(crate) fn lock(folder: &Path) -> Result<fs::File, AuthorityError> {
    let unwritable = |path: &Path, why| AuthorityError::Unwritable { path: path.to_owned(), why };
    private::make_folder(folder).map_err(|why| unwritable(folder, why))?;
    let path = folder.join("ca.lock");
    let file = private::open_lock(&path).map_err(|why| unwritable(&path, why))?;
    file.lock().map_err(|why| unwritable(&path, why))?;
    Ok(file)
}

pub(crate) fn create(path: &Path, text: &str) -> Result<(), AuthorityError> {
    private::create(path, text.as_bytes()).map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => AuthorityError::Exists { path: path.to_owned() },
        _ => AuthorityError::Unwritable { path: path.to_owned(), why },
    })
}

pub(crate) fn replace(path: &Path, text: &str) -> Result<(), AuthorityError> {
    private::replace(path, text.as_bytes())
        .map_err(|why| AuthorityError::Unwritable { path: path.to_owned(), why })
}
