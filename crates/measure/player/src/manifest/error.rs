//! Why a manifest cannot be played.

use super::{DOCUMENT_BYTES_MAX, SEGMENTS_MAX};

/// The problem with a manifest, a playlist or an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Longer than a manifest may be.
    #[error("it is longer than {} MiB", DOCUMENT_BYTES_MAX >> 20)]
    TooLong,
    /// Not UTF-8.
    #[error("it is not text")]
    NotText,
    /// Neither HLS nor DASH.
    #[error("it is neither an HLS playlist nor a DASH manifest")]
    Neither,
    /// It violates its format; with details.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It uses a feature that is not supported.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// No segments, or no renditions.
    #[error("it lists nothing to play")]
    Empty,
    /// More segments than any film has.
    #[error("it lists more than {SEGMENTS_MAX} segments")]
    TooMany,
    /// More of something than any title has; with its name.
    #[error("it has more {0} than any title has")]
    Bound(&'static str),
    /// A byte range that is empty or overflows.
    #[error("a byte range in it is empty or too large")]
    Range,
    /// A playlist that keeps leading to further playlists.
    #[error("its playlist leads to further playlists")]
    TooDeep,
}

impl ManifestError {
    /// A short name, for counters.
    pub fn label(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotText => "not_text",
            Self::Neither => "neither",
            Self::Malformed(_) => "malformed",
            Self::Unsupported(_) => "unsupported",
            Self::Empty => "empty",
            Self::TooMany => "too_many",
            Self::Bound(_) => "bound",
            Self::Range => "range",
            Self::TooDeep => "too_deep",
        }
    }
}
