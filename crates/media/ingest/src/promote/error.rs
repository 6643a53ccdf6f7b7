//! Why titles could not be promoted.

use std::io;
use std::path::{Path, PathBuf};

use catalog::MARK;

/// Why titles could not be promoted. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    /// Another process is promoting titles to this folder.
    #[error("another fullbore is promoting titles to {0}: wait for it to finish, or stop it")]
    Busy(PathBuf),
    /// The title in this folder is damaged, or could not be copied without damage.
    #[error(
        "{0} is not copied, because the copy would not match its record ({1}): check the title with `fullbore library verify`"
    )]
    Damaged(PathBuf, String),
    /// The title in this folder was replaced or removed while it was copied.
    #[error("{0} was replaced while it was copied: it is copied next time")]
    Changed(PathBuf),
    /// The title in this folder is no longer the copy that was made there, so it is left alone.
    #[error(
        "{0} was changed since it was copied: remove it, or keep it as a title of its own by removing the file {MARK} in it"
    )]
    NoCopy(PathBuf),
    /// A file or folder could not be used.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The attempted action, as a verb: "make the folder".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Adds to an I/O error what was attempted and on which path.
pub(super) trait Attempt<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, PromoteError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, PromoteError> {
        self.map_err(|source| PromoteError::Io { what, path: path.to_path_buf(), source })
    }
}
