//! Why pathways cannot be added to a title's manifest.

use std::fmt;

use super::DOCUMENT_BYTES_MAX;

/// The fault in a title's own manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// Longer than [`DOCUMENT_BYTES_MAX`].
    Long,
    /// Not UTF-8.
    NotText,
    /// It violates its format, as described.
    Malformed(String),
    /// It refers to something outside the title's folder.
    Outside(String),
    /// It has a feature reserved for the fleet, or one that cannot be repeated for each pathway.
    Unsupported(&'static str),
    /// It contains nothing to play.
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
