//! Which segment follows which, by the numbers in their names: `seg-00013.m4s` follows `seg-00012.m4s`. So it is with most titles of DASH
//! (`SegmentTemplate` with `$Number$`), of which a manifest names no segment.

use crate::http_cache::ResponseKind;
use escape::{percent, unicode};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The longest number: it fits into 64 bits. Names of hashes and times are longer, or have no successor.
const DIGITS_MAX: usize = 18;

/// No number has more digits from here on. The series of one that has would not be known again.
const NUMBER_END: u64 = 10_u64.pow(DIGITS_MAX as u32);

/// For how long nothing is fetched ahead of a series whose next segment isn't there: as long as one or two segments. So the end of a title costs the
/// origin a few requests, those that are under way before the first answer. A live stream, whose next segment is never there yet, costs as many in
/// this time.
const ENDED_FOR: Duration = Duration::from_secs(10);

/// The most series that are known to have ended.
const ENDED_MAX: usize = 256;

/// What all segments of a series have in common: what is before their numbers, and what is after them.
type SeriesName = (Vec<u8>, Vec<u8>);

/// A segment's path, decoded, around its number.
struct NumberedName {
    before: Vec<u8>,
    digits: Vec<u8>,
    after: Vec<u8>,
}

impl NumberedName {
    /// The parts of a path as in [`crate::contract`], if it is that of a segment with a number at the end of its name.
    fn of(path: &str) -> Option<Self> {
        // A query may be a token for this segment alone.
        if path.contains('?') || ResponseKind::of(path, None) != ResponseKind::Media {
            return None;
        }
        let mut before = percent::decode(path.strip_prefix('/')?.as_bytes())?;
        let dot = before.iter().rposition(|byte| *byte == b'.')?;
        let after = before.split_off(dot);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let start = before.iter().rposition(|byte| !is_digit(byte)).map_or(0, |at| at + 1);
        let digits = before.split_off(start);
        (1..=DIGITS_MAX).contains(&digits.len()).then_some(Self { before, digits, after })
    }

    /// The path of the segment with this number. Leading zeros keep the width.
    fn path(&self, number: u64) -> String {
        let number = format!("{number:0width$}", width = self.digits.len());
        let path = [&self.before[..], number.as_bytes(), &self.after].concat();
        crate::escaped(&unicode::composed(&path))
    }

    fn number(&self) -> Option<u64> {
        std::str::from_utf8(&self.digits).ok()?.parse().ok()
    }

    fn series(self) -> SeriesName {
        (self.before, self.after)
    }
}

/// The paths of the segments after the one at `path`, by their numbers.
pub(super) fn after(path: &str, count: u64) -> Vec<String> {
    let Some(name) = NumberedName::of(path) else { return Vec::new() };
    let Some(number) = name.number() else { return Vec::new() };
    let following = (1..=count).map(|more| number + more);
    following.take_while(|number| *number < NUMBER_END).map(|number| name.path(number)).collect()
}

/// Series whose next segment was not there lately, the first one first.
#[derive(Default)]
pub(super) struct EndedSeries(VecDeque<(SeriesName, Instant)>);

impl EndedSeries {
    /// The segment at `path` is not there.
    pub(super) fn note(&mut self, path: &str, now: Instant) {
        let Some(series) = NumberedName::of(path).map(NumberedName::series) else { return };
        self.0.retain(|(one, _)| *one != series);
        self.0.push_back((series, now));
        if self.0.len() > ENDED_MAX {
            self.0.pop_front();
        }
    }

    /// Whether a segment of the series of `path` was not there lately.
    pub(super) fn has(&mut self, path: &str, now: Instant) -> bool {
        while self.0.front().is_some_and(|(_, at)| now >= *at + ENDED_FOR) {
            self.0.pop_front();
        }
        let series = NumberedName::of(path).map(NumberedName::series);
        series.is_some_and(|series| self.0.iter().any(|(one, _)| *one == series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_numbers_keep_their_width() {
        for (path, next) in [
            ("/a/seg-00012.m4s", ["/a/seg-00013.m4s", "/a/seg-00014.m4s"]),
            (
                "/a/chunk-stream0-00009.m4s",
                ["/a/chunk-stream0-00010.m4s", "/a/chunk-stream0-00011.m4s"],
            ),
            ("/video/9.ts", ["/video/10.ts", "/video/11.ts"]),
            ("/v1/098.m4s", ["/v1/099.m4s", "/v1/100.m4s"]),
            ("/1.mp4", ["/2.mp4", "/3.mp4"]),
            ("/a%2009.ts", ["/a%2010.ts", "/a%2011.ts"]),
            ("/caf%C3%A99.ts", ["/caf%C3%A910.ts", "/caf%C3%A911.ts"]),
        ] {
            assert_eq!(after(path, 2), next, "{path}");
        }
    }

    #[test]
    fn what_has_no_number_at_the_end_of_its_name_or_is_no_segment_has_no_next() {
        for path in [
            "/a.ts",
            "/12/a.ts",
            "/seg-12a.ts",
            "/seg-12",
            "/12.m3u8",
            "/12.jpg",
            "/12.vtt",
            "/12.ts?a=1",
            "/.ts",
            "/1234567890123456789.ts",
            "/999999999999999999.ts",
            "/%zz12.ts",
            "",
        ] {
            assert_eq!(after(path, 2), [] as [String; 0], "{path}");
        }
    }

    #[test]
    fn a_series_that_has_ended_is_left_alone_for_a_while_and_others_are_not() {
        let (mut ended, start) = (EndedSeries::default(), Instant::now());
        ended.note("/a/seg-00013.m4s", start);
        ended.note("/list.m3u8", start);
        assert!(ended.has("/a/seg-00001.m4s", start) && ended.has("/a/seg-7.m4s", start));
        for other in ["/b/seg-00013.m4s", "/a/seg-00013.ts", "/a/seg-b-00013.m4s", "/a"] {
            assert!(!ended.has(other, start), "{other}");
        }
        ended.note("/a/seg-00013.m4s", start + ENDED_FOR / 2);
        assert!(ended.has("/a/seg-1.m4s", start + ENDED_FOR));
        assert!(!ended.has("/a/seg-1.m4s", start + 2 * ENDED_FOR) && ended.0.is_empty());
        for number in 0..2 * ENDED_MAX {
            ended.note(&format!("/{number}/1.ts"), start);
        }
        assert_eq!(ended.0.len(), ENDED_MAX);
    }
}
