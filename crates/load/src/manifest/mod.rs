//! Manifests of titles: which segments a player would ask for, in order.
//!
//! HLS playlists ([`hls`]) and DASH manifests ([`dash`]) both become a list of requests. What a server sends is not
//! trusted: documents, counts and nesting are bounded, references must stay on the manifest's server, and numbers that
//! overflow are refused.

mod dash;
mod document;
mod error;
mod hls;
mod index;
mod template;

pub(crate) use error::ManifestError;

use crate::connection::Endpoint;
use crate::film::Ask;
use crate::options::Options;
use crate::url::Url;
use document::Documents;
use std::io;
use std::ops::Range;

/// More than any film has: a day in segments of one second.
const SEGMENTS_MAX: usize = 86_400;

/// What a manifest refers to: a document or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    url: Url,
    range: Option<Range<u64>>,
}

/// A source of documents: a connection, or a test's table.
trait Source {
    /// The document, or a part of it.
    fn bring(&mut self, reference: &Reference) -> Result<Vec<u8>, ManifestError>;
}

/// Reads the manifest at `url`, and everything else that is needed to know its segments.
///
/// # Errors
/// An error with a sentence for the user.
pub(crate) fn read(endpoint: &Endpoint, url: &Url, options: &Options) -> io::Result<Vec<Ask>> {
    let mut documents = Documents::new(endpoint, options);
    segments(&mut documents, url, options.rung)
        .map_err(|error| io::Error::other(format!("cannot play {url}: {error}")))
}

/// The requests of a player that stays on one rendition.
fn segments(
    source: &mut impl Source,
    url: &Url,
    rung: Option<usize>,
) -> Result<Vec<Ask>, ManifestError> {
    let document = source.bring(&Reference { url: url.clone(), range: None })?;
    let text = std::str::from_utf8(&document).map_err(|_| ManifestError::NotText)?;
    let text = text.trim_start_matches('\u{feff}');
    let references = if text.trim_start().starts_with("#EXTM3U") {
        hls::segments(source, url, text, rung)?
    } else if text.trim_start().starts_with('<') {
        dash::segments(source, url, text, rung)?
    } else {
        return Err(ManifestError::Neither);
    };
    asks(url, references)
}

/// Fetches a further document that the manifest refers to: only from the manifest's own server.
fn bring(
    source: &mut impl Source,
    manifest: &Url,
    reference: &Reference,
) -> Result<Vec<u8>, ManifestError> {
    if !manifest.is_same_origin(&reference.url) {
        return Err(ManifestError::Elsewhere(reference.url.to_string()));
    }
    source.bring(reference)
}

/// Requests for the references, which must all be on the manifest's own server.
fn asks(manifest: &Url, references: Vec<Reference>) -> Result<Vec<Ask>, ManifestError> {
    if references.is_empty() {
        return Err(ManifestError::Empty);
    }
    let ask = |reference: Reference| {
        if !manifest.is_same_origin(&reference.url) {
            return Err(ManifestError::Elsewhere(reference.url.to_string()));
        }
        Ok(Ask { path: reference.url.path_and_query(), range: reference.range })
    };
    references.into_iter().map(ask).collect()
}

/// Picks a rendition from those sorted from the lowest rate to the highest.
fn pick<T>(mut sorted: Vec<T>, rung: Option<usize>) -> Result<T, ManifestError> {
    let count = sorted.len();
    let index = match rung {
        None => count.checked_sub(1).ok_or(ManifestError::Empty)?,
        Some(rung) => rung
            .checked_sub(1)
            .filter(|index| *index < count)
            .ok_or(ManifestError::NoRung { rung, count })?,
    };
    Ok(sorted.swap_remove(index))
}

/// `length` bytes from `start` on.
fn range_of(start: u64, length: u64) -> Result<Range<u64>, ManifestError> {
    match start.checked_add(length) {
        Some(end) if length > 0 => Ok(start..end),
        _ => Err(ManifestError::Range),
    }
}

/// Adds a reference unless there are too many.
fn push(references: &mut Vec<Reference>, reference: Reference) -> Result<(), ManifestError> {
    if references.len() >= SEGMENTS_MAX {
        return Err(ManifestError::TooMany);
    }
    references.push(reference);
    Ok(())
}

#[cfg(test)]
mod tests;
