//! Manifests as an attacker would write them, and each part of the standards. Manifests as packagers write them are in the crate's
//! `tests/manifests`.

mod clones;
mod dash;
mod hls;
mod hostile;
mod index;

use super::*;
use crate::presentation::{Reference, Rendition, Segments};

fn url(path: &str) -> Url {
    format!("https://h:1/title/{path}").parse().expect("a URL")
}

fn read(path: &str, text: &str) -> Result<Presentation, ManifestError> {
    Presentation::parse(&url(path), text.as_bytes())
}

/// The reason why a manifest is refused.
fn refusal(path: &str, text: &str) -> ManifestError {
    match read(path, text) {
        Err(error) => error,
        Ok(_) => panic!("not refused: {text:.200}"),
    }
}

/// A reference, without its server if that is the manifest's.
fn show(reference: &Reference) -> String {
    let url = reference.url.to_string();
    let path = url.strip_prefix("https://h:1/title/").unwrap_or(&url);
    match &reference.range {
        Some(range) => format!("{path} {}-{}", range.start, range.end),
        None => path.to_owned(),
    }
}

/// All URLs that a player fetches, in order.
fn played(segments: &Segments) -> Vec<String> {
    let each = segments.list.iter().flat_map(|one| one.start.iter().chain([&one.reference]));
    segments.start.iter().chain(each).map(show).collect()
}

/// Begin and duration of each segment, in milliseconds.
fn times(segments: &Segments) -> Vec<(u128, u128)> {
    let time = |one: &crate::Segment| (one.begin.as_millis(), one.duration.as_millis());
    segments.list.iter().map(time).collect()
}

/// The segments that the manifest itself lists, on the first pathway.
fn listed(rendition: &Rendition) -> &Segments {
    match &rendition.sources[0] {
        Source::Listed(segments) => segments,
        source => panic!("not listed: {source:?}"),
    }
}

/// A rendition's source on each pathway.
fn sources(rendition: &Rendition) -> Vec<String> {
    let show = |source: &Source| match source {
        Source::Listed(segments) => played(segments).join(" "),
        Source::Absent => "absent".to_owned(),
        source => show(source.document().expect("a document")),
    };
    rendition.sources.iter().map(show).collect()
}

fn ids(presentation: &Presentation) -> Vec<&str> {
    presentation.pathways.iter().map(|pathway| pathway.id.as_str()).collect()
}
