//! Why there is no sample.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

/// Why the sample could not be made. Its text says what to do.
#[derive(Debug)]
pub enum SampleError {
    /// There is no ffmpeg on the PATH.
    FfmpegMissing,
    /// ffmpeg ended with an error; this is the beginning of what it said.
    FfmpegFailed(String),
    /// ffmpeg wrote a title that we cannot finish; this is what is wrong with it.
    TitleUnusable(&'static str),
    /// A file or folder could not be used.
    Io {
        /// What was tried, as a verb: "make the folder".
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Display for SampleError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const OR: &str = "or give a folder with videos: fullbore serve DIR";
        match self {
            Self::FfmpegMissing => {
                write!(f, "making the sample needs ffmpeg: install it (apt install ffmpeg) {OR}")
            }
            Self::FfmpegFailed(said) => {
                write!(f, "ffmpeg could not make the sample; it said: {said}; mend that {OR}")
            }
            Self::TitleUnusable(why) => {
                write!(f, "this ffmpeg makes a sample we cannot use ({why}); update it {OR}")
            }
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for SampleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Says what was tried and on what when it fails.
pub(super) trait Attempt<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, SampleError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, SampleError> {
        self.map_err(|source| SampleError::Io { what, path: path.to_path_buf(), source })
    }
}
