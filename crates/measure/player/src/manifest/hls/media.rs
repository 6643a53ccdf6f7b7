//! Media playlists: segments in order, each with the initialisation section (EXT-X-MAP) that it needs.

use super::attributes::Attributes;
use super::{Budget, Line, lines, malformed};
use crate::manifest::listing::Listing;
use crate::manifest::{ManifestError, date, range_of, resolve};
use crate::presentation::{Reference, Segments, StartPoint, WallClock};
use crate::url::Url;
use std::ops::Range;
use std::time::Duration;

/// The shortest time between two reloads. Target durations are whole seconds, so a shorter one is a mistake.
const RELOAD_MIN: Duration = Duration::from_secs(1);

/// A new viewer of a live stream begins this many target durations before its end, unless the playlist says otherwise (section 6.3.3).
const HOLD_BACK_TARGETS: u32 = 3;

/// The state of reading a playlist.
struct Reader<'a, 'b> {
    url: &'a Url,
    listing: Listing<'b>,
    /// When the next segment begins.
    now: Duration,
    /// The next segment's duration, from its tags.
    duration: Option<Duration>,
    range: Option<(u64, Option<u64>)>,
    /// The end of the last segment's range, where a range without an offset begins (section 4.3.2.2).
    range_end: u64,
    target: Duration,
    has_ended: bool,
    /// The next segment is not there (EXT-X-GAP).
    is_gap: bool,
    hold_back: Option<Duration>,
    entry: Option<StartPoint>,
    clock: Option<WallClock>,
}

/// Reads the media playlist from `url`.
pub(in crate::manifest) fn segments(url: &Url, text: &str) -> Result<Segments, ManifestError> {
    let mut budget = Budget::new();
    let mut reader = Reader {
        url,
        listing: Listing::new(&mut budget),
        now: Duration::ZERO,
        duration: None,
        range: None,
        range_end: 0,
        target: RELOAD_MIN,
        has_ended: false,
        is_gap: false,
        hold_back: None,
        entry: None,
        clock: None,
    };
    for line in lines(text) {
        match line {
            Line::Tag(tag, value) => reader.take_tag(tag, value)?,
            Line::Uri(uri) => reader.take_segment(uri)?,
        }
    }
    let reload_after = (!reader.has_ended).then_some(reader.target.max(RELOAD_MIN));
    let hold_back =
        reader.hold_back.or(reload_after.map(|after| after.saturating_mul(HOLD_BACK_TARGETS)));
    let live_entry = hold_back.filter(|_| reload_after.is_some()).map(StartPoint::BeforeEnd);
    let (entry, clock) = (reader.entry.or(live_entry), reader.clock);
    Ok(Segments { entry, clock, ..reader.listing.finish(reload_after)? })
}

impl Reader<'_, '_> {
    fn take_tag(&mut self, tag: &str, value: &str) -> Result<(), ManifestError> {
        match tag {
            "#EXTINF" => self.duration = Some(seconds(value)?),
            "#EXT-X-BYTERANGE" => self.range = Some(byte_range(value)?),
            "#EXT-X-MAP" => {
                let start = self.start(Attributes(value))?;
                self.listing.start_with(Some(start));
            }
            "#EXT-X-MEDIA-SEQUENCE" => {
                let number = value.parse().map_err(|_| malformed("its media sequence"))?;
                self.listing.number_from(number);
            }
            "#EXT-X-TARGETDURATION" => self.target = seconds(value)?,
            "#EXT-X-PLAYLIST-TYPE" => self.has_ended |= value == "VOD",
            "#EXT-X-ENDLIST" => self.has_ended = true,
            "#EXT-X-GAP" => self.is_gap = true,
            "#EXT-X-START" => self.entry = start_point(Attributes(value)),
            "#EXT-X-SERVER-CONTROL" => {
                self.hold_back =
                    Attributes(value).value("HOLD-BACK").and_then(|text| seconds(text).ok());
            }
            "#EXT-X-PROGRAM-DATE-TIME" => {
                // An unreadable date leaves the one before it in force.
                if let Some(since_1970) = date::since_1970(value) {
                    self.clock = Some(WallClock { at: self.now, since_1970 });
                }
            }
            "#EXT-X-STREAM-INF" => return Err(ManifestError::TooDeep),
            "#EXT-X-DEFINE" => return Err(ManifestError::Unsupported("a variable (EXT-X-DEFINE)")),
            _ => {}
        }
        Ok(())
    }

    fn take_segment(&mut self, uri: &str) -> Result<(), ManifestError> {
        let duration = self.duration.take().ok_or_else(|| malformed("a segment without EXTINF"))?;
        let range = match self.range.take() {
            Some((length, start)) => Some(range_of(start.unwrap_or(self.range_end), length)?),
            None => None,
        };
        self.range_end = range.as_ref().map_or(0, |range: &Range<u64>| range.end);
        // Low-latency packagers begin a stream with gaps, because some players expect a list of a certain length.
        if std::mem::take(&mut self.is_gap) && self.listing.is_empty() {
            self.listing.skip_first();
            return Ok(());
        }
        let reference = Reference { url: resolve(self.url, uri)?, range };
        self.listing.push(self.now, duration, reference)?;
        // The listing refuses times long before a Duration overflows.
        self.now += duration;
        Ok(())
    }

    fn start(&self, attributes: Attributes<'_>) -> Result<Reference, ManifestError> {
        let uri = attributes.value("URI").ok_or_else(|| malformed("an EXT-X-MAP without URI"))?;
        let range = match attributes.value("BYTERANGE") {
            Some(text) => {
                let (length, start) = byte_range(text)?;
                Some(range_of(start.unwrap_or(0), length)?)
            }
            None => None,
        };
        Ok(Reference { url: resolve(self.url, uri)?, range })
    }
}

/// Parses `seconds` or `seconds,title`.
fn seconds(value: &str) -> Result<Duration, ManifestError> {
    let number = value.split(',').next().unwrap_or("").trim();
    let seconds: Option<f64> = number.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| ManifestError::Malformed(format!("{number:?} is not a duration")))
}

/// The place that EXT-X-START names (section 4.3.5.2): a negative offset counts from the end.
fn start_point(attributes: Attributes<'_>) -> Option<StartPoint> {
    let offset: f64 = attributes.value("TIME-OFFSET")?.parse().ok()?;
    let distance = Duration::try_from_secs_f64(offset.abs()).ok()?;
    Some(if offset < 0.0 {
        StartPoint::BeforeEnd(distance)
    } else {
        StartPoint::AfterBegin(distance)
    })
}

/// Parses `length` or `length@offset` (section 4.3.2.2).
fn byte_range(text: &str) -> Result<(u64, Option<u64>), ManifestError> {
    let parse = |text: &str| text.trim().parse().map_err(|_| ManifestError::Range);
    match text.split_once('@') {
        Some((length, start)) => Ok((parse(length)?, Some(parse(start)?))),
        None => Ok((parse(text)?, None)),
    }
}

/// The bit rate, if the playlist has byte ranges and so reveals the size of its segments; otherwise 1.
pub(super) fn bits_per_second(segments: &Segments) -> u64 {
    let bytes = |range: &Range<u64>| (range.end - range.start) as f64;
    let ranges = segments.list.iter().map(|segment| segment.reference.range.as_ref().map(bytes));
    let bytes: Option<f64> = ranges.sum();
    let rate = bytes.unwrap_or(0.0) * 8.0 / segments.duration().as_secs_f64();
    // The result is infinite if there is no time, and not a number if there are no bytes either.
    if rate.is_finite() { (rate as u64).max(1) } else { 1 }
}
