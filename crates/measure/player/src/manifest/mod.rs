//! Reads manifests: HLS playlists (`hls`), DASH manifests (`dash`) and the indexes of MP4 files (`index`).
//!
//! Data from servers is not trusted. Documents, counts, times and the memory of segment lists are bounded, numbers that overflow are
//! refused, and the time to read a document grows only with its length. Unknown tags, elements and attributes are ignored. References may
//! lead to any server: a caller that wants to stay on one has to check the URLs.

mod clones;
mod codecs;
mod dash;
mod date;
mod error;
mod hls;
mod index;
mod listing;

pub use error::ManifestError;

use crate::presentation::{Presentation, Segments, Source};
use crate::url::Url;
use std::ops::Range;

/// The longest document to read: a day of one-second segments at 90 bytes a line is 8 MB.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// More than any film has: a day in segments of one second.
pub const SEGMENTS_MAX: usize = 86_400;

/// More servers than any title names.
pub(crate) const PATHWAYS_MAX: usize = 16;

/// More bit rates than any track has.
const RENDITIONS_MAX: usize = 100;

impl Presentation {
    /// Reads the manifest from `url`.
    ///
    /// # Errors
    /// If it is not a manifest, violates its format, needs an unsupported feature, or exceeds a bound.
    pub fn parse(url: &Url, bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = text(bytes)?;
        if is_playlist(text) {
            hls::presentation(url, text)
        } else if text.starts_with('<') {
            dash::presentation(url, text)
        } else {
            Err(ManifestError::Neither)
        }
    }
}

impl Segments {
    /// Reads the document that `source` refers to, from `url`.
    ///
    /// # Errors
    /// If it is not a media playlist or an index, violates its format, or exceeds a bound.
    pub fn parse(source: &Source, url: &Url, bytes: &[u8]) -> Result<Self, ManifestError> {
        if let Source::Index(index) = source {
            return index::segments(index, bytes);
        }
        let text = text(bytes)?;
        if !is_playlist(text) {
            return Err(ManifestError::Neither);
        }
        hls::segments(url, text)
    }
}

fn text(bytes: &[u8]) -> Result<&str, ManifestError> {
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(ManifestError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::NotText)?;
    Ok(text.trim_start_matches('\u{feff}').trim_start())
}

fn is_playlist(text: &str) -> bool {
    text.starts_with("#EXTM3U")
}

fn resolve(base: &Url, reference: &str) -> Result<Url, ManifestError> {
    base.resolve(reference)
        .map_err(|error| ManifestError::Malformed(format!("the reference {reference:?}: {error}")))
}

/// `length` bytes from `start` on.
fn range_of(start: u64, length: u64) -> Result<Range<u64>, ManifestError> {
    match start.checked_add(length) {
        Some(end) if length > 0 => Ok(start..end),
        _ => Err(ManifestError::Range),
    }
}

#[cfg(test)]
mod tests;
