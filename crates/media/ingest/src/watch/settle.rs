//! Decides when a film can be ingested: when it has stopped growing, and when the wait after a failure is over. No I/O and no clock, so
//! tests run in virtual time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::look::{Found, Stamp};

/// The wait before a film is tried again after a failure that may pass, such as a full disk. It doubles with each failure.
const RETRY_MIN: Duration = Duration::from_secs(60);
const RETRY_MAX: Duration = Duration::from_secs(3600);

/// The films of a watched folder over time. Times count from any fixed moment.
#[derive(Debug)]
pub(super) struct Settling {
    settle: Duration,
    films: HashMap<String, Film>,
}

#[derive(Debug)]
struct Film {
    stamp: Stamp,
    /// It can be ingested from this time on, if it does not change before.
    from: Duration,
    failures: u32,
}

impl Settling {
    /// A film can be ingested once it has not changed for `settle`.
    pub(super) fn new(settle: Duration) -> Self {
        Self { settle, films: HashMap::new() }
    }

    /// Takes what was found at `now`; returns the indexes of films that can be ingested.
    pub(super) fn settled(&mut self, now: Duration, found: &[Found]) -> Vec<usize> {
        let names: HashSet<_> = found.iter().map(|one| one.file.as_str()).collect();
        self.films.retain(|file, _| names.contains(file.as_str()));
        let settle = self.settle;
        let mut settled = Vec::new();
        for (index, one) in found.iter().enumerate() {
            let seen = || Film { stamp: one.stamp.clone(), from: now + settle, failures: 0 };
            let film = self.films.entry(one.file.clone()).or_insert_with(seen);
            if film.stamp != one.stamp {
                *film = seen();
            } else if now >= film.from {
                settled.push(index);
            }
        }
        settled
    }

    /// Whether a film has not changed since it was `found`, and can still be ingested.
    pub(super) fn is_settled(&self, now: Duration, found: &Found) -> bool {
        let film = self.films.get(&found.file);
        film.is_some_and(|film| film.stamp == found.stamp && now >= film.from)
    }

    /// Postpones a film that failed for a reason that may pass. Returns how long.
    pub(super) fn postpone(&mut self, now: Duration, file: &str) -> Duration {
        let Some(film) = self.films.get_mut(file) else { return RETRY_MIN };
        let wait = RETRY_MIN.saturating_mul(1 << film.failures.min(10)).min(RETRY_MAX);
        film.failures = film.failures.saturating_add(1);
        film.from = now + wait;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn found(bytes: u64) -> Vec<Found> {
        let stamp = Stamp { bytes, modified: (0, 0), subtitles: Vec::new() };
        vec![Found {
            file: "a.mkv".into(),
            path: "/in/a.mkv".into(),
            stamp,
            subtitles: Vec::new(),
            ignored: Vec::new(),
        }]
    }

    #[test]
    fn a_film_that_grows_is_left_alone_until_it_has_not_changed_for_the_whole_time() {
        let mut settling = Settling::new(at(30));
        for second in 0..100 {
            assert!(
                settling.settled(at(second), &found(second)).is_empty(),
                "it grew at {second} s"
            );
        }
        assert!(settling.settled(at(128), &found(99)).is_empty());
        assert_eq!(settling.settled(at(129), &found(99)), [0]);
        // It waits for its turn, and meanwhile it is replaced.
        assert!(settling.is_settled(at(130), &found(99)[0]));
        settling.settled(at(131), &found(7));
        assert!(!settling.is_settled(at(131), &found(99)[0]));
        settling.settled(at(132), &[]);
        assert!(!settling.is_settled(at(132), &found(7)[0]));
    }

    #[test]
    fn a_film_that_was_away_counts_as_new() {
        let mut settling = Settling::new(at(30));
        settling.settled(at(0), &found(1));
        settling.settled(at(20), &[]);
        assert!(settling.settled(at(40), &found(1)).is_empty());
        assert_eq!(settling.settled(at(70), &found(1)), [0]);
    }

    #[test]
    fn failures_are_tried_again_less_and_less_often_and_at_once_when_the_film_changes() {
        let mut settling = Settling::new(at(30));
        settling.settled(at(0), &found(1));
        assert_eq!(settling.settled(at(30), &found(1)), [0]);
        assert_eq!(settling.postpone(at(30), "a.mkv"), at(60));
        assert!(settling.settled(at(89), &found(1)).is_empty());
        assert_eq!(settling.settled(at(90), &found(1)), [0]);
        assert_eq!(settling.postpone(at(90), "a.mkv"), at(120));
        for _ in 0..100 {
            assert!(settling.postpone(at(100), "a.mkv") <= RETRY_MAX);
        }
        settling.settled(at(110), &found(2));
        assert_eq!(settling.settled(at(140), &found(2)), [0]);
    }
}
