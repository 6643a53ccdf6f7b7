//! The hidden folder in which a title is made ([`Workshop`]). It is kept after an interruption, so that another attempt can continue.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::{TitleName, Workshop};

use super::error::{Attempt, IngestError};

/// The suffix of finished renditions.
pub(super) const FINISHED: &str = ".mp4";
/// The folder in it where a title is assembled.
pub(super) const MADE: &str = "made";

/// A locked work folder.
pub(crate) struct Work(Workshop);

impl Work {
    /// Creates the work folder of a title, or finds the one that an earlier attempt left, and locks it.
    ///
    /// # Errors
    /// [`IngestError::Busy`] if another process holds the lock.
    pub(crate) fn lock(library: &Path, title: &TitleName) -> Result<Self, IngestError> {
        Ok(Self(Workshop::lock(library, title)?))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// An empty folder in it; anything from an earlier attempt is removed.
    pub(crate) fn empty_folder(&self, name: &str) -> Result<PathBuf, IngestError> {
        let path = self.path().join(name);
        if path.exists() {
            fs::remove_dir_all(&path).attempt("remove", &path)?;
        }
        fs::create_dir(&path).attempt("make the folder", &path)?;
        Ok(path)
    }

    /// Removes files that are not `wanted`: leftovers of other settings or of an earlier version of the film.
    pub(crate) fn keep_only(&self, wanted: impl Fn(&str) -> bool) -> Result<(), IngestError> {
        for entry in fs::read_dir(self.path()).attempt("list", self.path())? {
            let entry = entry.attempt("list", self.path())?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && !entry.file_name().to_str().is_some_and(&wanted) {
                fs::remove_file(entry.path()).attempt("remove", &entry.path())?;
            }
        }
        Ok(())
    }

    /// Leaves the folder for another attempt, without unfinished files; a folder without finished ones is removed. Best effort: the next
    /// attempt cleans up, too.
    pub(crate) fn leave(self) {
        let _ = fs::remove_dir_all(self.path().join(MADE));
        let _ = self.keep_only(|name| name.ends_with(FINISHED));
        self.0.leave();
    }

    /// Removes the folder with everything in it.
    pub(crate) fn remove(self) -> Result<(), IngestError> {
        Ok(self.0.remove()?)
    }
}
