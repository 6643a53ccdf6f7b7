//! Why a manifest cannot be played.

use super::{DOCUMENT_BYTES_MAX, SEGMENTS_MAX};
use std::fmt;

/// The problem with a manifest, a playlist or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// Longer than a manifest may be.
    TooLong,
    /// Not UTF-8.
    NotText,
    /// Neither HLS nor DASH.
    Neither,
    /// It violates its format; with details.
    Malformed(String),
    /// It uses a feature that is not supported.
    Unsupported(&'static str),
    /// No segments, or no renditions.
    Empty,
    /// More segments than any film has.
    TooMany,
    /// More of something than any title has; with its name.
    Bound(&'static str),
    /// A byte range that is empty or overflows.
    Range,
    /// A playlist that keeps leading to further playlists.
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

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => {
                write!(f, "it is longer than {} MiB", DOCUMENT_BYTES_MAX >> 20)
            }
            Self::NotText => f.write_str("it is not text"),
            Self::Neither => f.write_str("it is neither an HLS playlist nor a DASH manifest"),
            Self::Malformed(how) => write!(f, "it is malformed: {how}"),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
            Self::Empty => f.write_str("it lists nothing to play"),
            Self::TooMany => write!(f, "it lists more than {SEGMENTS_MAX} segments"),
            Self::Bound(what) => write!(f, "it has more {what} than any title has"),
            Self::Range => f.write_str("a byte range in it is empty or too large"),
            Self::TooDeep => f.write_str("its playlist leads to further playlists"),
        }
    }
}

impl std::error::Error for ManifestError {}
