//! Creates folders that survive a power failure.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::replace::{parent, sync};

/// Creates the folder at `path` and its missing parents, with `mode` minus the umask. Returns when their names are on the disk: a file in a
/// folder is lost with the folder's name, however often the file itself was synced.
///
/// # Errors
/// Errors of creating and syncing.
pub fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = parent(path);
    make_folders(above, mode)?;
    match DirBuilder::new().mode(mode).create(path) {
        // Another process may have just created it. A file in its place is an error.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && fs::metadata(path)?.is_dir() => {}
        made => made?,
    }
    match sync(above) {
        // The folder can be written to, but not read. There is no other way to sync it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folders_are_made_with_their_mode_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        for _ in 0..2 {
            make_folders(&path, 0o700).unwrap();
            for made in [path.parent().unwrap(), &path] {
                assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
            }
        }
        make_folders(Path::new(""), 0o700).unwrap();
        fs::write(path.join("file"), "").unwrap();
        assert!(make_folders(&path.join("file"), 0o700).is_err(), "a file is not a folder");
        assert!(make_folders(&path.join("file/below"), 0o700).is_err());
    }
}
