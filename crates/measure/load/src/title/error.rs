//! Why a title cannot be played.

use player::ManifestError;
use std::fmt;

/// A problem with a manifest, or with fetching it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TitleError {
    /// A document could not be fetched; with its URL and the reason.
    Fetch(String, String),
    /// A document is larger than a manifest or an index may be.
    TooLong(String),
    /// A document cannot be read.
    Manifest(ManifestError),
    /// A reference leads to another server.
    Elsewhere(String),
    /// The rendition does not exist.
    NoRung {
        /// The requested one, counted from 1.
        rung: usize,
        /// The number of renditions.
        count: usize,
    },
}

impl From<ManifestError> for TitleError {
    fn from(error: ManifestError) -> Self {
        Self::Manifest(error)
    }
}

impl fmt::Display for TitleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(url, why) => write!(f, "cannot fetch {url}: {why}"),
            Self::TooLong(url) => write!(f, "{url} is too long for a manifest or an index"),
            Self::Manifest(error @ ManifestError::Neither) => {
                write!(f, "{error}; for plain files use another --pattern")
            }
            Self::Manifest(error) => write!(f, "{error}"),
            Self::Elsewhere(url) => {
                write!(
                    f,
                    "it refers to {url} on another server, but only the manifest's own server is loaded"
                )
            }
            Self::NoRung { rung, count } => {
                write!(f, "there is no rendition {rung}: it has {count}, and 1 is the lowest")
            }
        }
    }
}

impl std::error::Error for TitleError {}
