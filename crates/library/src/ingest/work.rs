//! The folder that a title is made in: beside its place, hidden, locked, and kept when work is interrupted.
//!
//! `LIBRARY/.ingest-TITLE` is on the library's filesystem, so that what is in it can be renamed into place. Whoever works on a title
//! holds a lock on this folder, be it to make, replace or remove the title; the kernel drops the lock of a process that dies.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::{Attempt, IngestError};
use crate::name::TitleName;

const PREFIX: &str = ".ingest-";
/// What the names of finished renditions end in.
pub(super) const FINISHED: &str = ".mp4";
/// The folder in it where a title is put together.
pub(super) const MADE: &str = "made";

/// A locked work folder.
pub(crate) struct Work {
    path: PathBuf,
    /// The folder itself, open: the lock.
    _lock: File,
}

impl Work {
    /// Makes the work folder of a title, or finds the one that was left, and locks it.
    ///
    /// # Errors
    /// [`IngestError::Busy`] if somebody else has it.
    pub(crate) fn lock(library: &Path, title: &TitleName) -> Result<Self, IngestError> {
        let path = library.join(format!("{PREFIX}{title}"));
        loop {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made.attempt("make the folder", &path)?,
            }
            let lock = match File::open(&path) {
                // Whoever had it removed it just now.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.attempt("open the folder", &path)?,
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(IngestError::Busy(title.to_string()));
                }
                locked => locked.map_err(Into::into).attempt("lock", &path)?,
            }
            // A folder that was removed before we had the lock is nobody's: only one that still has its name counts.
            let own = lock.metadata().attempt("look at", &path)?;
            if fs::metadata(&path).is_ok_and(|named| named.ino() == own.ino()) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty folder in it, in place of what an earlier attempt left there.
    pub(crate) fn empty_folder(&self, name: &str) -> Result<PathBuf, IngestError> {
        let path = self.path.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).attempt("remove", &path)?;
        }
        fs::create_dir(&path).attempt("make the folder", &path)?;
        Ok(path)
    }

    /// Removes files of this folder that are not `wanted`: what other settings or an earlier version of the film have left.
    pub(crate) fn keep_only(&self, wanted: impl Fn(&str) -> bool) -> Result<(), IngestError> {
        for entry in fs::read_dir(&self.path).attempt("list", &self.path)? {
            let entry = entry.attempt("list", &self.path)?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && !entry.file_name().to_str().is_some_and(&wanted) {
                fs::remove_file(entry.path()).attempt("remove", &entry.path())?;
            }
        }
        Ok(())
    }

    /// Leaves it for another attempt: without what is unfinished, and not at all if nothing is finished. Best effort: the next attempt
    /// clears up as well.
    pub(crate) fn leave(self) {
        let _ = fs::remove_dir_all(self.path.join(MADE));
        let _ = self.keep_only(|name| name.ends_with(FINISHED));
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes it with all that is in it.
    pub(crate) fn remove(self) -> Result<(), IngestError> {
        fs::remove_dir_all(&self.path).attempt("remove", &self.path)
    }
}
