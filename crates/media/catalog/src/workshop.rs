//! The hidden folder in which one process works on a title: `.ingest-TITLE`, next to the title's place.
//!
//! The folder is on the library's filesystem, so that files made in it can be renamed into place. A process that makes, replaces, completes
//! or removes a title holds a lock on this folder; the kernel drops the lock of a process that dies.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Attempt, CatalogError};
use crate::name::TitleName;
use crate::record::{RECORD, Record};

const PREFIX: &str = ".ingest-";

/// A locked folder for work on one title.
#[derive(Debug)]
pub struct Workshop {
    path: PathBuf,
    /// The folder itself, open: the lock.
    _lock: File,
}

impl Workshop {
    /// Creates the folder for the title `title` in the folder `above`, or finds the one that an earlier attempt left, and locks it.
    ///
    /// # Errors
    /// [`CatalogError::Busy`] if another process holds the lock.
    pub fn lock(above: &Path, title: &TitleName) -> Result<Self, CatalogError> {
        let path = above.join(Self::folder_name(title));
        loop {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.attempt("make the folder", &path)?,
            }
            let lock = match File::open(&path) {
                // The process that used it has just removed it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.attempt("open the folder", &path)?,
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(CatalogError::Busy(title.to_string()));
                }
                locked => locked.map_err(Into::into).attempt("lock", &path)?,
            }
            // The folder may have been removed before the lock was taken: only one that still has its name counts.
            let own = lock.metadata().attempt("look at", &path)?;
            if fs::metadata(&path).is_ok_and(|named| named.ino() == own.ino()) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// The folder's name for the title `title`.
    pub fn folder_name(title: &TitleName) -> String {
        format!("{PREFIX}{title}")
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder for another attempt at the title if it contains something useful, such as finished renditions.
    pub fn leave(self) {
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes the folder with everything in it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> Result<(), CatalogError> {
        fs::remove_dir_all(&self.path).attempt("remove", &self.path)
    }

    /// Replaces the record in the title's folder `folder` with `record`. An interruption leaves one of the two, complete.
    pub(crate) fn replace_record(
        &self,
        folder: &Path,
        record: &mut Record,
    ) -> Result<(), CatalogError> {
        let written = self.path.join(RECORD);
        let text = record.seal();
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&written)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().attempt("write", &written)?;
        let place = folder.join(RECORD);
        fs::rename(&written, &place).attempt("put in place", &place)?;
        File::open(folder).and_then(|open| open.sync_all()).attempt("write to the disk", folder)
    }
}
