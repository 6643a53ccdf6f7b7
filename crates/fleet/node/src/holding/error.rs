//! Why a title could not be copied, checked or removed.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

use catalog::CatalogError;

use super::disks;
use super::sources::PeerFault;

/// Why a title could not be copied, checked or removed. The message says what to do.
#[derive(Debug)]
pub(crate) enum HoldingError {
    /// The agent is stopping, or the title is no longer wanted.
    Cancelled,
    /// The disk has no room for the rest of the title.
    Full {
        /// Bytes still to write.
        needed_bytes: u64,
        /// Bytes free, without the reserve.
        free_bytes: u64,
    },
    /// The origin does not have the published files, or cannot be reached.
    Origin(String),
    /// No other node sent the right bytes.
    Peer(PeerFault),
    /// The title's form does not allow it to be held.
    Title(String),
    /// The files in the library do not match the record.
    Damaged {
        /// Relative to the title's folder.
        path: String,
        /// The damage.
        why: String,
    },
    /// Another process is working on the title.
    Busy,
    /// The library could not be used.
    Library(String),
    /// The disk under the library failed.
    Disk(String),
}

impl Display for HoldingError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("it is no longer wanted"),
            Self::Full { needed_bytes, free_bytes } => write!(
                f,
                "the disk is full: {needed_bytes} bytes are needed and {free_bytes} are free (withdraw titles, or add room; the copy goes on by itself)"
            ),
            Self::Peer(fault) => write!(f, "a node that holds it was refused: {}", fault.as_str()),
            Self::Origin(why) | Self::Title(why) | Self::Library(why) | Self::Disk(why) => {
                f.write_str(why)
            }
            Self::Damaged { path, why } => write!(f, "{path} {why}"),
            Self::Busy => f.write_str("another fullbore is working on it"),
        }
    }
}

impl std::error::Error for HoldingError {}

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
