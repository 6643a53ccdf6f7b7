//! Subtitles are shown when and as they are in the source.

use super::{Faults, Kind};
use crate::lines::{LINES, collapsed};
use crate::measure::Seen;
use crate::source::{Source, SourceText};
use crate::title::Title;
use crate::webvtt::{cues, stray};

/// Films and WebVTT round times, and the flash that they are compared with is a frame.
const CUE_SECONDS: f64 = 0.08;

pub(super) fn of(
    source: &Source,
    title: &Title,
    index: usize,
    text: &SourceText,
    words: &str,
    faults: &mut Faults,
) {
    let flash = |seen: &Seen| seen.flashes.last().copied();
    let wanted = source.picture.as_ref().and_then(|picture| flash(&picture.seen));
    let got = title.by_hls.seen.first().and_then(flash);
    let Some(moved) = got.zip(wanted).map(|(got, wanted)| got - wanted) else { return };
    let found = match cues(words) {
        Ok(found) => found,
        Err(why) => return faults.add(Kind::Text, format!("text {index}: {why}")),
    };
    for cue in text.cues.iter().filter(|cue| cue.start + moved >= 0.0) {
        let start = cue.start + moved;
        let at: Vec<_> =
            found.iter().filter(|one| (one.start - start).abs() < CUE_SECONDS).collect();
        if !at.iter().any(|one| collapsed(&one.text) == collapsed(cue.text)) {
            let other: Vec<_> = found
                .iter()
                .filter(|one| (one.start - start).abs() < 2.0)
                .map(|one| (one.start, &one.text))
                .collect();
            faults.add(
                Kind::Text,
                format!("text {index}: no {:?} at {start:.3}: {other:?}", cue.text),
            );
        }
    }
    for one in &found {
        let is_drawn = LINES.iter().any(|line| collapsed(line.text) == collapsed(&one.text));
        if !is_drawn || one.end <= one.start {
            faults.add(Kind::Text, format!("text {index}: {one:?} is not in the source"));
        }
    }
    for one in stray(words) {
        faults.add(Kind::Text, format!("text {index}: {one}"));
    }
}
