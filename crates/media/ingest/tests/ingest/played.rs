//! A title as our player reads it: the HLS playlists and the DASH manifest with its indexes agree about each segment.

use std::fs;
use std::path::Path;

use catalog::Record;
use player::{Presentation, Reference, Rendition, Segments, Source, Url};

/// The address at which the title would be served.
const BASE: &str = "https://films.example/title/";

/// The bytes of a file of the title, or of a part of it.
fn bytes(title: &Path, reference: &Reference) -> Vec<u8> {
    let url = reference.url.to_string();
    let file = title.join(url.strip_prefix(BASE).expect("a file of the title"));
    let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    match &reference.range {
        Some(range) => bytes[range.start as usize..range.end as usize].to_vec(),
        None => bytes,
    }
}

fn presentation(title: &Path, file: &str) -> Presentation {
    let url: Url = format!("{BASE}{file}").parse().expect("a URL");
    let manifest = Reference { url, range: None };
    let bytes = bytes(title, &manifest);
    Presentation::parse(&manifest.url, &bytes).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn segments(title: &Path, rendition: &Rendition) -> Segments {
    let [source] = &rendition.sources[..] else { panic!("one pathway: {rendition:?}") };
    if let Source::Listed(segments) = source {
        return Segments::clone(segments);
    }
    let reference = source.document().expect("a playlist or an index");
    Segments::parse(source, &reference.url, &bytes(title, reference))
        .unwrap_or_else(|error| panic!("{rendition:?}: {error}"))
}

/// Compares the requests of an HLS player and a DASH player, and their times.
pub(crate) fn is_the_same_in_both(title: &Path, record: &Record) {
    let (hls, dash) = (presentation(title, &record.hls), presentation(title, &record.dash));
    assert_eq!(hls.tracks.len(), dash.tracks.len());
    for (one, other) in hls.tracks.iter().zip(&dash.tracks) {
        assert_eq!(one.kind, other.kind);
        assert!(one.renditions.len() <= other.renditions.len());
        for (one, other) in one.renditions.iter().zip(&other.renditions) {
            let (one, other) = (segments(title, one), segments(title, other));
            assert_eq!(one.start, other.start);
            assert_eq!(one.list.len(), other.list.len());
            for (one, other) in one.list.iter().zip(&other.list) {
                assert_eq!(one.reference, other.reference);
                // Playlists have microseconds; the index has the media's own units.
                assert!(one.begin.abs_diff(other.begin).as_millis() == 0, "{one:?} {other:?}");
                assert!(
                    one.duration.abs_diff(other.duration).as_micros() <= 1,
                    "{one:?} {other:?}"
                );
            }
        }
    }
}
