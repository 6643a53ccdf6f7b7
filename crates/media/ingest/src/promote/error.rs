//! Why titles could not be promoted.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

/// Why titles could not be promoted. The message says what to do.
#[derive(Debug)]
pub enum PromoteError {
    /// Another process is promoting titles to this folder.
    Busy(PathBuf),
    /// The title in this folder is damaged, or could not be copied without damage.
    Damaged(PathBuf, String),
    /// The title in this folder was replaced or removed while it was copied.
    Changed(PathBuf),
    /// The title in this folder is no longer the copy that was made there, so it is left alone.
    NoCopy(PathBuf),
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

impl Display for PromoteError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(to) => write!(
                f,
                "another fullbore is promoting titles to {}: wait for it to finish, or stop it",
                to.display()
            ),
            Self::Damaged(title, why) => write!(
                f,
                "{} is not copied, because the copy would not match its record ({why}): check the title with `fullbore library verify`",
                title.display()
            ),
            Self::Changed(title) => {
                write!(
                    f,
                    "{} was replaced while it was copied: it is copied next time",
                    title.display()
                )
            }
            Self::NoCopy(title) => write!(
                f,
                "{} was changed since it was copied: remove it, or keep it as a title of its own by removing the file {} in it",
                title.display(),
                catalog::MARK
            ),
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for PromoteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
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
