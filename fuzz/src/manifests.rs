//! Checks of everything that the player reads from a manifest.

use player::manifest::SEGMENTS_MAX;
use player::{Presentation, Reference, Segments, Source, Track, Url};
use std::time::Duration;

/// A time after the end of every segment.
const TIME_MAX: Duration = Duration::from_secs(1 << 32);

/// The manifest's URL.
pub fn url() -> Url {
    "https://h.example:8443/film/manifest?x=1".parse().expect("a URL")
}

/// Checks a presentation and everything that it lists.
pub fn check_presentation(presentation: &Presentation) {
    assert!((1..=16).contains(&presentation.pathways.len()));
    assert!((1..=2).contains(&presentation.tracks.len()));
    assert!(presentation.reload_after.is_none_or(|after| after >= Duration::from_secs(1)));
    for track in &presentation.tracks {
        check_track(track, presentation.pathways.len());
    }
}

fn check_track(track: &Track, pathways: usize) {
    assert!((1..=100).contains(&track.renditions.len()));
    assert!(track.renditions.is_sorted_by_key(|rendition| rendition.bits_per_second));
    for rendition in &track.renditions {
        assert!(rendition.bits_per_second >= 1);
        assert_eq!(rendition.sources.len(), pathways);
        for source in &rendition.sources {
            if let Some(reference) = source.document() {
                check_reference(reference);
            }
            match source {
                Source::Listed(segments) => check_segments(segments),
                Source::Index(index) => index.start.iter().for_each(check_reference),
                Source::Document(_) | Source::Absent => {}
            }
        }
    }
}

/// Checks a list of segments.
pub fn check_segments(segments: &Segments) {
    assert!(segments.list.len() <= SEGMENTS_MAX);
    assert!(!segments.list.is_empty() || segments.reload_after.is_some());
    assert!(segments.list.first().is_none_or(|first| first.start.is_none()));
    assert!(segments.reload_after.is_none_or(|after| after >= Duration::from_secs(1)));
    segments.start.iter().for_each(check_reference);
    for segment in &segments.list {
        assert!(segment.begin <= TIME_MAX && segment.duration <= TIME_MAX);
        check_reference(&segment.reference);
        segment.start.iter().for_each(check_reference);
    }
}

/// Checks that the URL can be requested and stays the same when it is parsed again, and that the range is not empty.
fn check_reference(reference: &Reference) {
    let text = reference.url.to_string();
    assert!(text.len() < 20_000 && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
    if text.len() <= 8 << 10 {
        assert_eq!(text.parse::<Url>().as_ref(), Ok(&reference.url));
    }
    assert!(reference.range.as_ref().is_none_or(|range| range.start < range.end));
}
