//! A title from the generator's point of view: what to request from it, step by step.

use crate::options::Pattern;
use player::Url;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first bytes that a player requests: enough of an MP4 file for its tables. This and the next two values were observed from clients of
/// a large video service's appliances: "a 45 KB header, then 262 KB and 1.07 MB ranges".
const HEAD_BYTES: u64 = 45_000;

/// The size of most ranges: 256 KiB.
const SMALL_RANGE_BYTES: u64 = 262_144;

/// The size of every fourth range after the head. How often players request the large ones has not been published. One in four is a guess;
/// it gives them more than half of the bytes.
const LARGE_RANGE_BYTES: u64 = 1_070_000;

/// Small ranges between two large ones.
const SMALL_IN_A_ROW: u64 = 3;

/// Three small ranges and a large one.
const CYCLE_BYTES: u64 = SMALL_IN_A_ROW * SMALL_RANGE_BYTES + LARGE_RANGE_BYTES;

/// More than any file has, and small enough that no offset computed from it overflows, whatever a server claims.
const FILM_BYTES_MAX: u64 = 1 << 60;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Path and query of the request line.
    pub(crate) path: String,
    /// The bytes to request; `None` for the whole file.
    pub(crate) range: Option<Range<u64>>,
}

impl Ask {
    /// The request's head, for `authority`.
    pub(crate) fn request(&self, authority: &str) -> String {
        let range = match &self.range {
            Some(range) => format!("Range: bytes={}-{}\r\n", range.start, range.end - 1),
            None => String::new(),
        };
        format!(
            "GET {} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: fullbore-load\r\nAccept: */*\r\n{range}\r\n",
            self.path
        )
    }
}

/// A title.
#[derive(Debug)]
pub(crate) struct Film {
    /// The URL that the user gave: the file or the manifest.
    pub(crate) url: Url,
    /// The index of the server that has it.
    pub(crate) endpoint: usize,
    /// The requests that its manifest lists, in order. Empty unless the pattern is [`Pattern::Title`].
    pub(crate) segments: Vec<Ask>,
    /// Its size, once a response has shown it; 0 before.
    bytes: AtomicU64,
}

impl Film {
    pub(crate) fn new(url: Url, endpoint: usize, segments: Vec<Ask>) -> Self {
        Self { url, endpoint, segments, bytes: AtomicU64::new(0) }
    }

    /// Stores its size.
    pub(crate) fn learn(&self, bytes: u64) {
        self.bytes.store(bytes.min(FILM_BYTES_MAX), Ordering::Relaxed);
    }

    /// Number of steps from start to end; `None` while the size is unknown.
    pub(crate) fn steps(&self, pattern: Pattern) -> Option<u64> {
        match pattern {
            Pattern::Title => Some(self.segments.len() as u64),
            Pattern::Whole | Pattern::Handshakes | Pattern::Idle => Some(1),
            Pattern::Player | Pattern::Ranges { .. } => {
                let bytes = Some(self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)?;
                Some(steps_to(pattern, bytes))
            }
        }
    }

    /// The request for `step`; `None` after the end. While the size is unknown, no step is after the end.
    pub(crate) fn ask(&self, pattern: Pattern, step: u64) -> Option<Ask> {
        if self.steps(pattern).is_some_and(|steps| step >= steps) {
            return None;
        }
        let path = || self.url.path_and_query();
        match pattern {
            Pattern::Title => self.segments.get(usize::try_from(step).ok()?).cloned(),
            Pattern::Whole => Some(Ask { path: path(), range: None }),
            Pattern::Handshakes | Pattern::Idle => Some(Ask { path: path(), range: Some(0..1) }),
            Pattern::Player | Pattern::Ranges { .. } => {
                let known = Some(self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0);
                let (start, end) = (step_start(pattern, step), step_start(pattern, step + 1));
                Some(Ask { path: path(), range: Some(start..end.min(known.unwrap_or(end))) })
            }
        }
    }
}

/// The offset at which a step begins.
fn step_start(pattern: Pattern, step: u64) -> u64 {
    match pattern {
        Pattern::Ranges { bytes } => step.saturating_mul(bytes),
        Pattern::Player if step > 0 => {
            let (cycles, small) =
                ((step - 1) / (SMALL_IN_A_ROW + 1), (step - 1) % (SMALL_IN_A_ROW + 1));
            HEAD_BYTES + cycles * CYCLE_BYTES + small * SMALL_RANGE_BYTES
        }
        _ => 0,
    }
}

/// Number of steps needed to request `bytes`.
fn steps_to(pattern: Pattern, bytes: u64) -> u64 {
    match pattern {
        Pattern::Ranges { bytes: range } => bytes.div_ceil(range),
        _ => {
            let after_head = bytes.saturating_sub(HEAD_BYTES);
            let (cycles, rest) = (after_head / CYCLE_BYTES, after_head % CYCLE_BYTES);
            1 + cycles * (SMALL_IN_A_ROW + 1)
                + rest.div_ceil(SMALL_RANGE_BYTES).min(SMALL_IN_A_ROW + 1)
        }
    }
}

/// The size of a typical step, if the pattern determines it.
pub(crate) fn typical_bytes(pattern: Pattern) -> Option<u64> {
    match pattern {
        Pattern::Player => Some(SMALL_RANGE_BYTES),
        Pattern::Ranges { bytes } => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::RANGE_BYTES_MAX;

    fn film(bytes: u64) -> Film {
        let film = Film::new("http://h/film.mp4".parse().expect("a URL"), 0, Vec::new());
        film.learn(bytes);
        film
    }

    fn ranges(film: &Film, pattern: Pattern) -> Vec<Range<u64>> {
        (0..).map_while(|step| film.ask(pattern, step)).filter_map(|ask| ask.range).collect()
    }

    #[test]
    fn a_player_asks_for_a_head_and_then_small_and_large_ranges() {
        let asked = ranges(&film(10_000_000), Pattern::Player);
        let sizes: Vec<_> = asked.iter().map(|range| range.end - range.start).collect();
        assert_eq!(sizes[..6], [45_000, 262_144, 262_144, 262_144, 1_070_000, 262_144]);
    }

    #[test]
    fn ranges_cover_every_byte_once_whatever_the_size() {
        let edges = [1, 44_999, 45_000, 45_001, 307_144, 831_433, 1_901_431, 1_901_433, 9_999_999];
        for pattern in [Pattern::Player, Pattern::Ranges { bytes: 100_000 }] {
            for bytes in edges {
                let film = film(bytes);
                let asked = ranges(&film, pattern);
                assert_eq!(film.steps(pattern), Some(asked.len() as u64), "{pattern:?} {bytes}");
                assert_eq!(asked.first().map(|range| range.start), Some(0));
                assert_eq!(asked.last().map(|range| range.end), Some(bytes));
                assert!(asked.windows(2).all(|two| two[0].end == two[1].start));
                assert!(asked.iter().all(|range| range.start < range.end));
            }
        }
    }

    #[test]
    fn a_size_that_nobody_has_overflows_nothing() {
        let film = film(u64::MAX);
        for pattern in [Pattern::Player, Pattern::Ranges { bytes: RANGE_BYTES_MAX }] {
            let steps = film.steps(pattern).expect("the size is known");
            let last = film.ask(pattern, steps - 1).and_then(|ask| ask.range);
            assert_eq!(last.map(|range| range.end), Some(FILM_BYTES_MAX));
            assert_eq!(film.ask(pattern, steps), None);
        }
    }

    #[test]
    fn before_the_size_is_known_the_first_range_is_asked_in_full() {
        let film = film(0);
        assert_eq!(film.steps(Pattern::Player), None);
        assert_eq!(film.ask(Pattern::Player, 0).and_then(|ask| ask.range), Some(0..45_000));
    }

    #[test]
    fn a_request_names_the_last_byte_of_its_range() {
        let ask = Ask { path: "/a?b".into(), range: Some(10..20) };
        let request = ask.request("h:1");
        assert!(request.starts_with("GET /a?b HTTP/1.1\r\nHost: h:1\r\n"), "{request}");
        assert!(request.ends_with("\r\nRange: bytes=10-19\r\n\r\n"), "{request}");
    }
}
