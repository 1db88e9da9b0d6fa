//! Files that belong to this user alone: made with narrow rights, written whole or not at all.

use std::fs;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// Makes the folder, and those above it, for this user alone. One that is there stays as it is.
///
/// # Errors
///
/// What the system says.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Whether a folder is this user's alone: for those whose place others could guess and take first.
///
/// # Errors
///
/// If it belongs to somebody else, is a symbolic link, or others can enter it.
#[cfg(unix)]
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let refused = |why: &str| {
        let text = format!("{} {why}; remove it, or name another folder", folder.display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(refused("is no folder"));
    }
    if found.uid() != own_uid()? {
        return Err(refused("belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(refused("can be entered by others (its mode should be 0700)"));
    }
    Ok(())
}

/// Whether the folder is there.
///
/// # Errors
///
/// What the system says.
#[cfg(not(unix))]
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    // The user's own folders are private there by default.
    fs::metadata(folder).map(drop)
}

/// The user that this process acts for.
#[cfg(unix)]
pub(crate) fn own_uid() -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt as _;
    #[cfg(target_os = "linux")]
    let owned = Path::new("/proc/self").to_path_buf();
    #[cfg(not(target_os = "linux"))]
    let owned = std::env::home_dir().ok_or_else(|| io::Error::other("no home folder"))?;
    fs::metadata(owned).map(|found| found.uid())
}

/// Replaces the file by these bytes: a reader sees the old ones or the new ones, never a part.
///
/// # Errors
///
/// What the system says; the file is then as it was.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = write_beside(path, bytes)?;
    fs::rename(&beside, path).inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Makes a file that was not there.
///
/// # Errors
///
/// `AlreadyExists` if there is one, however it came there; else what the system says.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = write_beside(path, bytes)?;
    // A link is made only where nothing is, unlike a renamed file.
    let made = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    made
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let beside = path.with_file_name(name);
    let mut file = new_private(&beside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&beside))).map(|()| beside)
}

fn new_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file to lock, made if it is not there.
///
/// # Errors
///
/// What the system says.
pub(crate) fn open_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_for_the_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make_folder(&folder).unwrap();
        let file = folder.join("key");
        create(&file, b"one").unwrap();
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        replace(&file, b"two").unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"two".to_vec(), 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten_by_create() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("key");
        create(&file, b"one").unwrap();
        assert_eq!(create(&file, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check_folder(&folder).unwrap_err().to_string().contains("0700"));
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(check_folder(&link).unwrap_err().to_string().contains("is no folder"));
    }
}
