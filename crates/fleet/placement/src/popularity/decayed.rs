//! Counts that decay: a fast one, in which views of a day ago count half, and a slow one with a half-life of a week. The count of the first
//! day does not decay, because the next title of a series is compared with it.

use fleet_protocol::WatchCount;

/// The half-life of the fast count. Titles are placed by this count: a film that came out this morning has to show up tonight.
pub(crate) const FAST_SECONDS: f64 = 24.0 * 3600.0;

/// The half-life of the slow count. The difference between the two shows how fast demand changes.
pub(crate) const SLOW_SECONDS: f64 = 7.0 * FAST_SECONDS;

const DAY_SECONDS: f64 = 24.0 * 3600.0;

/// The length of a first day.
pub(crate) const FIRST_SECONDS: u64 = 24 * 3600;

/// A rate cannot be estimated from less time than this.
const AGE_SECONDS_MIN: f64 = 3600.0;

/// The views of a title, or of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Decayed {
    /// The time of the numbers below, in seconds since 1970.
    pub(crate) at: u64,
    pub(crate) bytes: f64,
    pub(crate) starts: f64,
    pub(crate) slow_bytes: f64,
    /// The first day, unless its date is unknown.
    pub(crate) first: Option<FirstDay>,
}

/// The views in the 24 hours after the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FirstDay {
    /// When it began, in seconds since 1970.
    pub(crate) begun: u64,
    pub(crate) bytes: f64,
    pub(crate) starts: f64,
}

impl FirstDay {
    fn has(&self, time: u64) -> bool {
        time.saturating_sub(self.begun) <= FIRST_SECONDS
    }

    /// Merges the first days of two counts of the same title: starts at the earlier beginning.
    fn joined(self, other: Self) -> Self {
        let (mut first, later) =
            if self.begun <= other.begun { (self, other) } else { (other, self) };
        if first.has(later.begun) {
            first.bytes += later.bytes;
            first.starts += later.starts;
        }
        first
    }
}

/// The fraction that remains after `seconds`.
fn left(seconds: u64, half_life: f64) -> f64 {
    (-(seconds as f64) / half_life).exp2()
}

/// Converts a count gathered for `age` seconds to a rate per day. At a steady rate the count converges to rate x half-life / ln 2, and
/// `part` is the fraction of that reached after `age`.
fn a_day_of(count: f64, age: u64, half_life: f64) -> f64 {
    let age = (age as f64).max(AGE_SECONDS_MIN);
    let part = 1.0 - (-age / half_life).exp2();
    count * std::f64::consts::LN_2 * DAY_SECONDS / half_life / part
}

impl Decayed {
    /// An empty count of a title that is watched for the first time.
    pub(crate) fn begun(begun: u64) -> Self {
        let first = Some(FirstDay { begun, bytes: 0.0, starts: 0.0 });
        Self { first, ..Self::default() }
    }

    /// The first day, once it is over.
    pub(crate) fn whole_first_day(self, now: u64) -> Option<FirstDay> {
        self.first.filter(|first| now.saturating_sub(first.begun) >= FIRST_SECONDS)
    }

    /// The count at `now`.
    pub(crate) fn at(self, now: u64) -> Self {
        let seconds = now.saturating_sub(self.at);
        let fast = left(seconds, FAST_SECONDS);
        Self {
            at: self.at.max(now),
            bytes: self.bytes * fast,
            starts: self.starts * fast,
            slow_bytes: self.slow_bytes * left(seconds, SLOW_SECONDS),
            first: self.first,
        }
    }

    pub(crate) fn add(&mut self, count: WatchCount, now: u64) {
        *self = self.at(now);
        self.bytes += count.bytes as f64;
        self.slow_bytes += count.bytes as f64;
        self.starts += count.starts as f64;
        if let Some(first) = self.first.as_mut().filter(|first| first.has(now)) {
            first.bytes += count.bytes as f64;
            first.starts += count.starts as f64;
        }
    }

    /// Adds another count, which may be as of another time.
    pub(crate) fn join(&mut self, other: Self) {
        let now = self.at.max(other.at);
        let (own, other) = (self.at(now), other.at(now));
        *self = Self {
            at: now,
            bytes: own.bytes + other.bytes,
            starts: own.starts + other.starts,
            slow_bytes: own.slow_bytes + other.slow_bytes,
            first: match (own.first, other.first) {
                (Some(one), Some(two)) => Some(one.joined(two)),
                (one, two) => one.or(two),
            },
        };
    }

    /// Bytes a day, if it was gathered since `since`.
    pub(crate) fn bytes_a_day(self, since: u64, now: u64) -> f64 {
        a_day_of(self.at(now).bytes, now.saturating_sub(since), FAST_SECONDS)
    }

    /// Starts a day.
    pub(crate) fn starts_a_day(self, since: u64, now: u64) -> f64 {
        a_day_of(self.at(now).starts, now.saturating_sub(since), FAST_SECONDS)
    }

    /// Bytes a day by the slow count.
    pub(crate) fn slow_bytes_a_day(self, since: u64, now: u64) -> f64 {
        a_day_of(self.at(now).slow_bytes, now.saturating_sub(since), SLOW_SECONDS)
    }

    /// Whether it has decayed to nothing.
    pub(crate) fn is_gone(self, now: u64) -> bool {
        self.at(now).slow_bytes < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_800_000_000;
    const DAY: u64 = 86_400;

    fn watched(bytes: u64) -> WatchCount {
        WatchCount { starts: bytes / 1000, bytes }
    }

    #[test]
    fn a_count_halves_in_a_day_and_the_slow_one_in_a_week() {
        let mut count = Decayed::default();
        count.add(watched(8_000_000), BEGIN);
        let later = count.at(BEGIN + DAY);
        assert_eq!((later.bytes, later.starts), (4_000_000.0, 4_000.0));
        assert_eq!(count.at(BEGIN + 7 * DAY).slow_bytes, 4_000_000.0);
        assert!(!count.is_gone(BEGIN + 100 * DAY) && count.is_gone(BEGIN + 200 * DAY));
    }

    #[test]
    fn a_steady_rate_is_told_right_after_an_hour_a_day_and_a_month() {
        let mut count = Decayed::default();
        for minute in 1..=30 * 1440_u64 {
            count.add(watched(1_000_000), BEGIN + minute * 60);
            if [60, 1440, 30 * 1440].contains(&minute) {
                let now = BEGIN + minute * 60;
                for told in [count.bytes_a_day(BEGIN, now), count.slow_bytes_a_day(BEGIN, now)] {
                    assert!((told / 1.44e9 - 1.0).abs() < 0.01, "{minute}: {told}");
                }
                assert!((count.starts_a_day(BEGIN, now) / 1.44e6 - 1.0).abs() < 0.01);
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_undoes_nothing() {
        let mut count = Decayed::default();
        count.add(watched(1000), BEGIN);
        count.add(watched(1000), BEGIN - 30 * DAY);
        assert_eq!((count.at, count.bytes), (BEGIN, 2000.0));
        assert_eq!(count.at(0).bytes, 2000.0);
    }
}
