//! Why a title could not be changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::record::RecordError;

/// Why a title could not be changed. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Another process is working on the same title.
    #[error("another fullbore is working on the title {0:?}: wait for it to finish")]
    Busy(String),
    /// The folder is not a title made by ingest.
    #[error("{0} is not a title that ingest made")]
    Unknown(PathBuf),
    /// The record of the title in this folder is damaged.
    #[error("the title.json in {path} is damaged ({why}): ingest the title again, or restore it")]
    Damaged {
        /// The title's folder.
        path: PathBuf,
        /// The damage.
        #[source]
        why: RecordError,
    },
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
pub(crate) trait Attempt<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, CatalogError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, CatalogError> {
        self.map_err(|source| CatalogError::Io { what, path: path.to_path_buf(), source })
    }
}
