//! Why a manifest cannot be played.

use super::SEGMENTS_MAX;
use std::fmt;

/// What is wrong with a manifest, or with getting it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestError {
    /// A document could not be had: of which URL, and why.
    Fetch(String, String),
    /// A document larger than a manifest or an index may be.
    TooLong(String),
    /// Not UTF-8.
    NotText,
    /// Neither HLS nor DASH.
    Neither,
    /// It breaks the rules of its format: how.
    Malformed(String),
    /// It uses something that is not followed here.
    Unsupported(&'static str),
    /// No segments, or no renditions.
    Empty,
    /// More segments than a film has.
    TooMany,
    /// A byte range that is empty or ends beyond all numbers.
    Range,
    /// A playlist that leads to a playlist, again and again.
    TooDeep,
    /// Something on another server.
    Elsewhere(String),
    /// A rendition that is not there.
    NoRung {
        /// The one asked for, from 1.
        rung: usize,
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(url, why) => write!(f, "{url} could not be had: {why}"),
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
                write!(f, "it refers to {url} on another server, and only the manifest's own is loaded")
            }
            Self::NoRung { rung, count } => {
                write!(f, "there is no rendition {rung}: it has {count}, 1 being the lowest")
            }
        }
    }
}

impl std::error::Error for ManifestError {}
