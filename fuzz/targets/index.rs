//! The segment index of an MP4 file ('sidx'), which begins anywhere in the file.
//!
//! Checks that nothing panics; that segments follow one another in the file without gaps and come after the index; and that each entry of
//! the input makes at most one segment.

#![no_main]

use fullbore_fuzz::choices::Choices;
use fullbore_fuzz::manifests;
use libfuzzer_sys::fuzz_target;
use player::{Index, Reference, Segments, Source};
use std::time::Duration;

/// Where an index begins: near the start of the file, as usual, and where sums overflow.
const STARTS: [u64; 4] = [0, 831, u64::MAX - 1000, u64::MAX - 1];

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let start = choices.one_of(&STARTS);
    let reference = Reference { url: manifests::url(), range: Some(start..start + 1) };
    let source = Source::Index(Index {
        reference: reference.clone(),
        start: Some(reference),
        begin: Duration::from_secs(7),
        duration: None,
    });
    let bytes = choices.rest();
    let Ok(segments) = Segments::parse(&source, &manifests::url(), bytes) else { return };
    manifests::check_segments(&segments);
    assert!(segments.list.len() <= bytes.len() / 12, "more segments than entries");
    let ranges: Vec<_> =
        segments.list.iter().filter_map(|one| one.reference.range.clone()).collect();
    assert_eq!(ranges.len(), segments.list.len());
    assert!(ranges[0].start >= start, "a segment in front of its index");
    assert!(ranges.windows(2).all(|two| two[0].end == two[1].start), "a gap");
});
