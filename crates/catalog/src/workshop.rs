//! The hidden folder in which one process works on a title: `.ingest-TITLE`, beside the title's place.
//!
//! It is on the library's filesystem, so that what is made in it can be renamed into place. Whoever makes, replaces, completes or removes a
//! title holds a lock on this folder; the kernel drops the lock of a process that dies.

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
    /// Makes the folder for the title `title` of the folder `above`, or finds the one that was left, and locks it.
    ///
    /// # Errors
    /// [`CatalogError::Busy`] if somebody else has it.
    pub fn lock(above: &Path, title: &TitleName) -> Result<Self, CatalogError> {
        let path = above.join(format!("{PREFIX}{title}"));
        loop {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.attempt("make the folder", &path)?,
            }
            let lock = match File::open(&path) {
                // Whoever had it removed it just now.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.attempt("open the folder", &path)?,
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(CatalogError::Busy(title.to_string()));
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
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it to another attempt at the title if there is something in it for that, such as finished renditions.
    pub fn leave(self) {
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes it with all that is in it.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn remove(self) -> Result<(), CatalogError> {
        fs::remove_dir_all(&self.path).attempt("remove", &self.path)
    }

    /// Puts `record` in the place of the one in the title's folder `folder`. Interrupted at any moment, one of the two is there, whole.
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
