//! An HLS media playlist.
//!
//! Checks that nothing panics; that segments follow one another; that counts, times and memory are within their limits; and that each URL
//! can be requested.

#![no_main]

use fullbore_fuzz::manifests;
use libfuzzer_sys::fuzz_target;
use player::{Reference, Segments, Source};
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let url = manifests::url();
    let source = Source::Document(Reference { url: url.clone(), range: None });
    let Ok(segments) = Segments::parse(&source, &url, bytes) else { return };
    manifests::check_segments(&segments);
    let mut now = Duration::ZERO;
    for segment in &segments.list {
        assert_eq!(segment.begin, now, "a gap");
        now += segment.duration;
    }
    assert_eq!(now, segments.duration());
});
