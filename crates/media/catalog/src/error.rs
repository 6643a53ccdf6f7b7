//! Why a title could not be changed.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

use crate::record::RecordError;

/// Why a title could not be changed. The message says what to do.
#[derive(Debug)]
pub enum CatalogError {
    /// Another process is working on the same title.
    Busy(String),
    /// The folder is not a title made by ingest.
    Unknown(PathBuf),
    /// The record of the title in this folder is damaged.
    Damaged {
        /// The title's folder.
        path: PathBuf,
        /// The damage.
        why: RecordError,
    },
    /// A file or folder could not be used.
    Io {
        /// The attempted action, as a verb: "make the folder".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Display for CatalogError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(title) => {
                write!(
                    f,
                    "another fullbore is working on the title {title:?}: wait for it to finish"
                )
            }
            Self::Unknown(path) => {
                write!(f, "{} is not a title that ingest made", path.display())
            }
            Self::Damaged { path, why } => write!(
                f,
                "the title.json in {} is damaged ({why}): ingest the title again, or restore it",
                path.display()
            ),
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Damaged { why, .. } => Some(why),
            Self::Busy(_) | Self::Unknown(_) => None,
        }
    }
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
