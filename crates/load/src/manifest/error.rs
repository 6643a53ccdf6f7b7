//! Why a manifest cannot be played.

use super::SEGMENTS_MAX;
use std::fmt;

/// What is wrong with a manifest, or with fetching it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestError {
    /// A document could not be fetched: its URL, and why.
    Fetch(String, String),
    /// A document that is larger than a manifest or an index may be.
    TooLong(String),
    /// Not UTF-8.
    NotText,
    /// Neither HLS nor DASH.
    Neither,
    /// It violates its format: how.
    Malformed(String),
    /// It uses a feature that is not supported.
    Unsupported(&'static str),
    /// No segments, or no renditions.
    Empty,
    /// More segments than a film has.
    TooMany,
    /// A byte range that is empty or ends beyond all numbers.
    Range,
    /// A playlist that leads to further playlists, again and again.
    TooDeep,
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

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(url, why) => write!(f, "cannot fetch {url}: {why}"),
            Self::TooLong(url) => write!(f, "{url} is too long for a manifest or an index"),
            Self::NotText => f.write_str("it is not text"),
            Self::Neither => f.write_str("it is neither an HLS playlist nor a DASH manifest; for plain files use another --pattern"),
            Self::Malformed(how) => write!(f, "it is malformed: {how}"),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
            Self::Empty => f.write_str("it lists nothing to play"),
            Self::TooMany => write!(f, "it lists more than {SEGMENTS_MAX} segments"),
            Self::Range => f.write_str("a byte range in it is empty or too large"),
            Self::TooDeep => f.write_str("its playlist leads to further playlists"),
            Self::Elsewhere(url) => {
                write!(f, "it refers to {url} on another server, but only the manifest's own server is loaded")
            }
            Self::NoRung { rung, count } => {
                write!(f, "there is no rendition {rung}: it has {count}, and 1 is the lowest")
            }
        }
    }
}

impl std::error::Error for ManifestError {}
