//! When segments play, in units of a timescale: from a SegmentTimeline, or from one duration for all.

use super::description::{Described, number};
use super::duration::{time, units};
use crate::manifest::{ManifestError, SEGMENTS_MAX};
use roxmltree::Node;
use std::time::Duration;

/// An `S` element of a SegmentTimeline (section 5.3.9.6): start, duration and repeats.
pub(super) struct Entry {
    start: Option<u64>,
    duration: u64,
    /// `None` means until the next one's start or the period's end (-1).
    repeats: Option<u64>,
}

/// The entries of a SegmentTimeline.
pub(super) fn entries(timeline: Node<'_, '_>) -> Result<Vec<Entry>, ManifestError> {
    let children = timeline.children().filter(|node| node.tag_name().name() == "S");
    children.map(entry).collect()
}

fn entry(node: Node<'_, '_>) -> Result<Entry, ManifestError> {
    let says = |name| node.attribute(name).map(|text| number(name, text)).transpose();
    let duration = says("d")?.filter(|duration| *duration > 0).ok_or_else(|| {
        ManifestError::Malformed("a segment without duration in its timeline".into())
    })?;
    let is_open = node.attribute("r").is_some_and(|text| text.trim().starts_with('-'));
    let repeats = if is_open { None } else { Some(says("r")?.unwrap_or(0)) };
    Ok(Entry { start: says("t")?, duration, repeats })
}

/// A segment's start and duration, in units of the timescale.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) duration: u64,
}

/// Relates a representation's units to its period: units per second, and the unit at which the period begins.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    timescale: u64,
    offset: u64,
}

impl Scale {
    pub(super) fn of(described: &Described<'_, '_>) -> Result<Self, ManifestError> {
        let timescale = described.number("timescale", 1)?.max(1);
        Ok(Self { timescale, offset: described.number("presentationTimeOffset", 0)? })
    }

    /// A segment's begin and playing time in a period: it plays until the next one begins, exact to the nanosecond.
    pub(super) fn times(self, period_begin: Duration, span: Span) -> (Duration, Duration) {
        let begin = self.at(period_begin, span.start);
        let end = self.at(period_begin, span.start.saturating_add(span.duration));
        (begin, end.saturating_sub(begin))
    }

    fn at(self, period_begin: Duration, units: u64) -> Duration {
        match units.checked_sub(self.offset) {
            Some(after) => period_begin.saturating_add(time(after, self.timescale)),
            None => period_begin.saturating_sub(time(self.offset - units, self.timescale)),
        }
    }

    /// The number of units in a period.
    fn units(self, length: Duration) -> u64 {
        units(length, self.timescale)
    }
}

/// When each segment of a template plays. A list without an end of its own ends with the period.
pub(super) fn of_template(
    described: &Described<'_, '_>,
    scale: Scale,
    length: Option<Duration>,
    is_live: bool,
) -> Result<Vec<Span>, ManifestError> {
    let length = length.map(|length| scale.units(length));
    if let Some(timeline) = described.timeline() {
        return in_timeline(timeline, length.map(|length| scale.offset.saturating_add(length)));
    }
    if is_live {
        return Err(ManifestError::Unsupported("a live template without a timeline"));
    }
    let duration = described.number("duration", 0)?;
    let (Some(length), true) = (length, duration > 0) else {
        return Err(ManifestError::Malformed("the number of segments is not given".into()));
    };
    even(scale, duration, length.div_ceil(duration), Some(length))
}

/// When each segment of a list plays. If the list has no durations, the segments share the period evenly.
pub(super) fn of_list(
    described: &Described<'_, '_>,
    scale: Scale,
    length: Option<Duration>,
    count: u64,
) -> Result<Vec<Span>, ManifestError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let no_length = || ManifestError::Malformed("the length of its segments is not given".into());
    let length = length.map(|length| scale.units(length));
    if let Some(timeline) = described.timeline() {
        let end = length.map(|length| scale.offset.saturating_add(length));
        let spans = in_timeline(timeline, end)?;
        return if spans.len() as u64 >= count { Ok(spans) } else { Err(no_length()) };
    }
    let duration = match described.number("duration", 0)? {
        0 => length.map(|length| length / count).filter(|duration| *duration > 0),
        duration => Some(duration),
    };
    even(scale, duration.ok_or_else(no_length)?, count, None)
}

/// Segments of equal duration. The last one ends at the end, if that is known.
fn even(
    scale: Scale,
    duration: u64,
    count: u64,
    length: Option<u64>,
) -> Result<Vec<Span>, ManifestError> {
    if count > SEGMENTS_MAX as u64 {
        return Err(ManifestError::TooMany);
    }
    let span = |index: u64| {
        let begin = index.checked_mul(duration).ok_or(ManifestError::Range)?;
        let start = scale.offset.checked_add(begin).ok_or(ManifestError::Range)?;
        let left = length.map_or(duration, |length| length.saturating_sub(begin));
        Ok(Span { start, duration: duration.min(left) })
    };
    (0..count).map(span).collect()
}

/// The segments of a SegmentTimeline. Each entry has at least one, so SEGMENTS_MAX bounds the work.
fn in_timeline(entries: &[Entry], end: Option<u64>) -> Result<Vec<Span>, ManifestError> {
    let mut spans = Vec::new();
    let mut start = 0u64;
    for (index, entry) in entries.iter().enumerate() {
        start = entry.start.unwrap_or(start);
        let count = match entry.repeats {
            Some(repeats) => repeats.saturating_add(1),
            None => {
                let next = entries.get(index + 1).and_then(|next| next.start);
                let end =
                    next.or(end).ok_or(ManifestError::Unsupported("a timeline without end"))?;
                end.saturating_sub(start).div_ceil(entry.duration).max(1)
            }
        };
        if count > (SEGMENTS_MAX - spans.len()) as u64 {
            return Err(ManifestError::TooMany);
        }
        for _ in 0..count {
            spans.push(Span { start, duration: entry.duration });
            start = start.checked_add(entry.duration).ok_or(ManifestError::Range)?;
        }
    }
    Ok(spans)
}
