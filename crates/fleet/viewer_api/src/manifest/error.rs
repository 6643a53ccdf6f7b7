//! Why pathways cannot be added to a title's manifest.

use super::DOCUMENT_BYTES_MAX;

/// The fault in a title's own manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Longer than [`DOCUMENT_BYTES_MAX`].
    #[error("it is longer than {} KiB", DOCUMENT_BYTES_MAX >> 10)]
    Long,
    /// Not UTF-8.
    #[error("it is not text")]
    NotText,
    /// It violates its format, as described.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It refers to something outside the title's folder.
    #[error("it refers to {0:?}, which is outside the title's folder")]
    Outside(String),
    /// It has a feature reserved for the fleet, or one that cannot be repeated for each pathway.
    #[error("it has {0}, which a fleet cannot serve")]
    Unsupported(&'static str),
    /// It contains nothing to play.
    #[error("it has nothing to play")]
    Empty,
}
