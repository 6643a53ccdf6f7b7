//! Titles with manifests: the segments that a player would request, in order.
//!
//! A player of the load generator stays on one rendition of the pictures, and on the manifest's own server. References to other servers are
//! refused, because the load must reach only servers that the user has named.

mod document;
mod error;

pub(crate) use error::TitleError;

use crate::connection::ServerEndpoint;
use crate::film::Ask;
use crate::options::Options;
use document::Documents;
use player::{Format, ManifestError, Presentation, Reference, Rendition, Segments, Source, Url};
use std::io;
use std::sync::Arc;

/// A source of documents: a connection, or a test's table.
trait Library {
    /// Fetches the document, or a part of it.
    fn bring(&mut self, reference: &Reference) -> Result<Vec<u8>, TitleError>;
}

/// Reads the manifest at `url`, and everything else needed to know its segments.
///
/// # Errors
/// An error with a sentence for the user.
pub(crate) fn read(
    endpoint: &ServerEndpoint,
    url: &Url,
    options: &Options,
) -> io::Result<Vec<Ask>> {
    let mut documents = Documents::new(endpoint, options);
    segments(&mut documents, url, options.rung)
        .map_err(|error| io::Error::other(format!("cannot play {url}: {error}")))
}

/// The requests of a player that stays on one rendition.
fn segments(
    library: &mut impl Library,
    url: &Url,
    rung: Option<usize>,
) -> Result<Vec<Ask>, TitleError> {
    let document = library.bring(&Reference { url: url.clone(), range: None })?;
    let presentation = Presentation::parse(url, &document)?;
    if presentation.format == Format::Dash && presentation.reload_after.is_some() {
        let live = "a live stream (a manifest of type dynamic)";
        return Err(ManifestError::Unsupported(live).into());
    }
    let track = presentation.tracks.first().ok_or(ManifestError::Empty)?;
    let source = source(url, pick(&track.renditions, rung)?)?;
    let segments = match source {
        Source::Listed(segments) => Arc::clone(segments),
        source => Arc::new(fetch(library, url, source)?),
    };
    asks(url, &segments)
}

/// Fetches the document that lists the segments, only from the manifest's own server.
fn fetch(
    library: &mut impl Library,
    manifest: &Url,
    source: &Source,
) -> Result<Segments, TitleError> {
    let reference = source.document().ok_or(ManifestError::Empty)?;
    if !manifest.is_same_origin(&reference.url) {
        return Err(TitleError::Elsewhere(reference.url.to_string()));
    }
    let document = library.bring(reference)?;
    Ok(Segments::parse(source, &reference.url, &document)?)
}

/// The source of a rendition: on the pathway of the manifest's own server, or else on the first pathway that has it.
fn source<'a>(manifest: &Url, rendition: &'a Rendition) -> Result<&'a Source, TitleError> {
    let is_here = |source: &&Source| {
        let reference = match source {
            Source::Listed(segments) => segments.list.first().map(|first| &first.reference),
            source => source.document(),
        };
        reference.is_some_and(|reference| manifest.is_same_origin(&reference.url))
    };
    let here = rendition.sources.iter().find(is_here);
    let other = || rendition.sources.iter().find(|source| **source != Source::Absent);
    Ok(here.or_else(other).ok_or(ManifestError::Empty)?)
}

/// Requests for all segments, which must all be on the manifest's own server.
fn asks(manifest: &Url, segments: &Segments) -> Result<Vec<Ask>, TitleError> {
    if segments.list.is_empty() {
        return Err(ManifestError::Empty.into());
    }
    let ask = |reference: &Reference| {
        if !manifest.is_same_origin(&reference.url) {
            return Err(TitleError::Elsewhere(reference.url.to_string()));
        }
        Ok(Ask { path: reference.url.path_and_query(), range: reference.range.clone() })
    };
    let each = segments.list.iter().flat_map(|one| one.start.iter().chain([&one.reference]));
    segments.start.iter().chain(each).map(ask).collect()
}

/// Picks a rendition from those sorted from the lowest rate to the highest.
fn pick<T>(sorted: &[T], rung: Option<usize>) -> Result<&T, TitleError> {
    let count = sorted.len();
    let index = match rung {
        None => count.checked_sub(1).ok_or(ManifestError::Empty)?,
        Some(rung) => rung
            .checked_sub(1)
            .filter(|index| *index < count)
            .ok_or(TitleError::NoRung { rung, count })?,
    };
    Ok(&sorted[index])
}

#[cfg(test)]
mod tests;
