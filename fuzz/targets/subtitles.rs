//! A file of subtitles of any bytes: SubRip, SubStation Alpha or WebVTT, as people put them next to films. Ingest reads it outside of its sandbox.
//!
//! Checks that nothing panics, and that the WebVTT of the title is what every strict reader takes: blocks are styles, regions or cues; a cue
//! has one arrow, a length and no empty line; cues are in order; and reading it again changes nothing.

#![no_main]

use ingest::ingest::subtitles_as_webvtt;
use libfuzzer_sys::fuzz_target;

/// Escaping makes a text up to five times as long, and a cue of more than 16 KiB is not read again.
const AGAIN_BYTES_MAX: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = subtitles_as_webvtt(bytes) else { return };
    let (head, rest) = text.split_once('\n').expect("a first line");
    assert_eq!(head, "WEBVTT");
    let mut last = String::new();
    for block in rest.trim_matches('\n').split("\n\n") {
        if !block.contains("-->") {
            let first = block.lines().next().unwrap_or_default();
            assert!(
                ["STYLE", "REGION"].contains(&first.trim_end_matches([' ', '\t'])),
                "{block:?}"
            );
            continue;
        }
        let times = block.lines().take(2).find_map(|line| line.split_once(" --> "));
        let (start, end) = times.expect("a line of times");
        assert_eq!(block.matches("-->").count(), 1, "{block:?}");
        let (start, end) = (padded(start), padded(end.split(' ').next().unwrap_or_default()));
        assert!(start < end && last <= start, "{last} {block:?}");
        last = start;
    }
    if text.len() <= AGAIN_BYTES_MAX {
        assert_eq!(subtitles_as_webvtt(text.as_bytes()).as_ref(), Some(&text));
    }
});

/// A time with as many letters as any other, so that the order of the letters is that of the times.
fn padded(time: &str) -> String {
    let time = if time.len() == 9 { format!("00:{time}") } else { time.to_owned() };
    format!("{time:0>16}")
}
