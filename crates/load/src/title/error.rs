//! Why a title cannot be played.

use player::ManifestError;
use std::fmt;

/// What is wrong with a manifest, or with fetching it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TitleError {
    /// A document could not be fetched: its URL, and why.
    Fetch(String, String),
    /// A document that is larger than a manifest or an index may be.
    TooLong(String),
    /// A document that cannot be read.
    Manifest(ManifestError),
    /// A reference to another server.
    Elsewhere(String),
    /// A rendition that does not exist.
    NoRung {
        /// The requested one, counted from 1.
        rung: usize,
        /// How many there are.
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
