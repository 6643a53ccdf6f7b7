//! Why a title's manifest cannot be given pathways.

use std::fmt;

use super::DOCUMENT_BYTES_MAX;

/// What is wrong with a title's own manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// Longer than [`DOCUMENT_BYTES_MAX`].
    Long,
    /// Not UTF-8.
    NotText,
    /// It breaks its format: how.
    Malformed(String),
    /// It refers to something outside the title's folder.
    Outside(String),
    /// It has something that only a fleet may write, or that cannot be repeated for each pathway.
    Unsupported(&'static str),
    /// There is nothing to play in it.
    Empty,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long => write!(f, "it is longer than {} KiB", DOCUMENT_BYTES_MAX >> 10),
            Self::NotText => f.write_str("it is not text"),
            Self::Malformed(how) => write!(f, "it is malformed: {how}"),
            Self::Outside(what) => {
                write!(f, "it refers to {what:?}, which is outside the title's folder")
            }
            Self::Unsupported(what) => write!(f, "it has {what}, which a fleet cannot serve"),
            Self::Empty => f.write_str("it has nothing to play"),
        }
    }
}

impl std::error::Error for DocumentError {}
