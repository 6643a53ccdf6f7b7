//! Creates or replaces a small file: entirely, or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The most names to try for the new file. A name is taken only if a process with the same number was killed while it used that name.
const NAMES_MAX: usize = 1000;

/// Replaces the file at `path`: writes a new one next to it, syncs it, and renames it. Returns when the name is on the disk, too. The file
/// has `mode` from its first byte on, minus the umask.
///
/// Several writers may replace the same file at the same time: the last one wins. The new file's name begins with a dot, so that it never
/// shows up in a library. A leftover of a killed process does no harm.
///
/// # Errors
/// Errors of creating, writing and renaming. The new file is removed then; only if syncing the folder fails, it is already in place.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write(path, bytes, mode, |beside| fs::rename(beside, path))
}

/// Creates the file at `path`, which must not exist yet: like [`replace`], entirely or not at all.
///
/// # Errors
/// As for [`replace`], and `AlreadyExists` if the path exists; that is left unchanged.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // Check before writing: most callers that find a file there have been here before.
    if fs::symlink_metadata(path).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    write(path, bytes, mode, |beside| rename_to_new(beside, path))
}

/// Writes a new file next to `path`, has `put_in_place` give it its name, and waits until both are on the disk.
fn write(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    put_in_place: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let folder = parent(path);
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let (mut file, beside) = make_beside(&folder.join(name), mode)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.and_then(|()| put_in_place(&beside)).inspect_err(|_| {
        // If that fails, too, the first error is more informative.
        let _ = fs::remove_file(&beside);
    })?;
    sync(folder)
}

/// Renames `from`, if nothing has the name `to`.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some filesystems, such as NFS, do not support that, but they can give a file a second name.
        Err(Errno::INVAL) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

/// The parent folder of `path`. For "file" that would be "", which system calls reject.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a new file next to `path`, for this writer alone.
fn make_beside(path: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    /// Distinguishes the writers of this process.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    for _ in 0..NAMES_MAX {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.new", process::id()));
        let beside = path.with_file_name(name);
        match options.open(&beside) {
            // It may belong to a living process: process numbers repeat between containers.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, beside)),
        }
    }
    let why = format!("{NAMES_MAX} leftover files are next to it; remove those that end in .new");
    Err(io::Error::new(ErrorKind::AlreadyExists, why))
}

/// Syncs the names in `folder`, so that a new one survives a power failure.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some filesystems do not support that for folders.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_beside_it() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("key.pem");
        for (bytes, mode) in [("a key", 0o644), ("", 0o600), ("another key", 0o600)] {
            replace(&path, bytes.as_bytes(), mode).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes.as_bytes());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(names(folder.path()), ["key.pem"]);
        }
    }

    #[test]
    fn an_error_leaves_nothing() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"bytes", 0o600).is_err(), "a folder is not a file");
        assert_eq!(names(folder.path()), ["folder"]);
        assert!(replace(&folder.path().join("no/file"), b"bytes", 0o600).is_err());
        assert_eq!(
            replace(Path::new("/"), b"", 0o600).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }

    #[test]
    fn a_file_is_made_whole_and_never_over_another() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, b"a key", 0o600).unwrap();
        assert_eq!(create(&path, b"other", 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let beside = folder.path().join("beside");
        fs::write(&beside, "other").unwrap();
        let error = rename_to_new(&beside, &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "it came meanwhile");
        assert_eq!(fs::read(&path).unwrap(), b"a key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(beside).unwrap();
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn remains_of_killed_processes_are_in_nobodys_way() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("file");
        let remains = |number| folder.path().join(format!(".file.{}-{number}.new", process::id()));
        // Other tests use up numbers as well, so any single name might never be tried.
        for number in 0..NAMES_MAX / 2 {
            fs::write(remains(number), "half").unwrap();
        }
        replace(&path, b"whole", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read(remains(0)).unwrap(), b"half", "it may belong to another process");
    }

    #[test]
    fn writers_of_one_file_do_not_take_each_others_new_one_away() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("file");
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let path = &path;
                scope.spawn(move || {
                    (0..50).for_each(|_| replace(path, &[writer; 100], 0o600).unwrap());
                });
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 100 && bytes.iter().all(|byte| *byte == bytes[0]));
        assert_eq!(names(folder.path()), ["file"]);
    }
}
