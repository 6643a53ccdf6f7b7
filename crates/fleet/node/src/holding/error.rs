//! Why a title could not be copied, checked or removed.

use std::io;
use std::path::Path;

use catalog::CatalogError;

use super::disks;
use super::sources::PeerFault;

/// Why a title could not be copied, checked or removed. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldingError {
    /// The agent is stopping, or the title is no longer wanted.
    #[error("it is no longer wanted")]
    Cancelled,
    /// The disk has no room for the rest of the title.
    #[error(
        "the disk is full: {needed_bytes} bytes are needed and {free_bytes} are free (withdraw titles, or add room; the copy goes on by itself)"
    )]
    Full {
        /// Bytes still to write.
        needed_bytes: u64,
        /// Bytes free, without the reserve.
        free_bytes: u64,
    },
    /// The origin does not have the published files, or cannot be reached.
    #[error("{0}")]
    Origin(String),
    /// No other node sent the right bytes.
    #[error("a node that holds it was refused: {}", .0.as_str())]
    Peer(PeerFault),
    /// The title's form does not allow it to be held.
    #[error("{0}")]
    Title(String),
    /// The files in the library do not match the record.
    #[error("{path} {why}")]
    Damaged {
        /// Relative to the title's folder.
        path: String,
        /// The damage.
        why: String,
    },
    /// Another process is working on the title.
    #[error("another fullbore is working on it")]
    Busy,
    /// The library could not be used.
    #[error("{0}")]
    Library(String),
    /// The disk under the library failed.
    #[error("{0}")]
    Disk(String),
}

impl From<CatalogError> for HoldingError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Busy(_) => Self::Busy,
            CatalogError::Io { ref source, .. } if disks::is_failure(source) => {
                Self::Disk(error.to_string())
            }
            other => Self::Library(other.to_string()),
        }
    }
}

/// Adds to an I/O error what was attempted and on which path.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: &str, path: &Path) -> Result<T, HoldingError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: &str, path: &Path) -> Result<T, HoldingError> {
        self.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                HoldingError::Full { needed_bytes: 0, free_bytes: 0 }
            }
            _ => {
                let why = format!("cannot {what} {}: {error}", path.display());
                if disks::is_failure(&error) {
                    HoldingError::Disk(why)
                } else {
                    HoldingError::Library(why)
                }
            }
        })
    }
}
