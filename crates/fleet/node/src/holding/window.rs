//! Fill windows: a part of each day, by the clock of a time zone.
//!
//! A window is computed for each day from the zone's rules. So it begins and ends at the right local time when the clocks change, too:
//! "02:00-12:00" is an hour shorter or longer then. A local time that is skipped means the moment of the change; of a local time that
//! occurs twice, the first counts.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// How many days ahead windows are searched: no zone skips more than a day.
const DAYS_AHEAD: usize = 4;
/// Bounds the search. A fill that takes longer gets no estimate of its end.
const STEPS_MAX: usize = 2000;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A part of each day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillWindow {
    start: Time,
    end: Time,
    zone: TimeZone,
}

/// The text is no [`FillWindow`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FillWindowError(String);

impl FromStr for FillWindow {
    type Err = FillWindowError;

    fn from_str(text: &str) -> Result<Self, FillWindowError> {
        let form = || {
            FillWindowError(format!(
                "{text:?} is not a window: write a part of the day and its zone, such as \"02:00-12:00 Europe/Berlin\""
            ))
        };
        let (times, zone) = text.split_once(' ').ok_or_else(form)?;
        let (start, end) = times.split_once('-').ok_or_else(form)?;
        let (start, end) = time(start).zip(time(end)).ok_or_else(form)?;
        if start == end {
            return Err(FillWindowError(format!(
                "{text:?} begins when it ends: leave the window out to fill all day"
            )));
        }
        let zone = TimeZone::get(zone.trim()).map_err(|_| {
            FillWindowError(format!(
                "this machine does not know the zone {:?}: write it as in /usr/share/zoneinfo, such as Europe/Berlin or UTC, or install the package tzdata",
                zone.trim()
            ))
        })?;
        Ok(Self { start, end, zone })
    }
}

/// `02:00`; `24:00` is the midnight after.
fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let fits = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        fits.then(|| digits.parse::<i8>().ok()).flatten()
    };
    match (two(hour)?, two(minute)?) {
        (24, 0) => Some(Time::midnight()),
        (hour, minute) => Time::new(hour, minute, 0, 0).ok(),
    }
}

impl FillWindow {
    /// The window that begins on `date`: its start and its end, in seconds since 1970.
    fn on(&self, date: Date) -> Option<(u64, u64)> {
        let ends = if self.end <= self.start { date.tomorrow().ok()? } else { date };
        Some((self.at(date, self.start)?, self.at(ends, self.end)?))
    }

    /// When the local clock shows `time`, in seconds since 1970.
    fn at(&self, date: Date, time: Time) -> Option<u64> {
        let found = self.zone.to_ambiguous_timestamp(date.to_datetime(time));
        let at = match found.offset() {
            // With the offset that holds after the change, the skipped time lies just before the change.
            AmbiguousOffset::Gap { .. } => {
                let before = found.earlier().ok()?;
                self.zone.following(before).next()?.timestamp()
            }
            _ => found.compatible().ok()?,
        };
        u64::try_from(at.as_second()).ok()
    }

    /// The windows around a time, beginning with the day before.
    fn around(&self, unix_seconds: u64) -> impl Iterator<Item = (u64, u64)> {
        let now = i64::try_from(unix_seconds).ok().and_then(|now| Timestamp::from_second(now).ok());
        let first = now.and_then(|now| self.zone.to_datetime(now).date().yesterday().ok());
        let dates = std::iter::successors(first, |date| date.tomorrow().ok());
        dates.take(DAYS_AHEAD + 2).filter_map(|date| self.on(date))
    }
}

/// When a box fills. Without windows, always.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows(pub(crate) Vec<FillWindow>);

impl Windows {
    /// Whether a window is open.
    pub(crate) fn is_open(&self, unix_seconds: u64) -> bool {
        self.0.is_empty() || self.closes(unix_seconds).is_some()
    }

    fn closes(&self, now: u64) -> Option<u64> {
        let all = self.0.iter().flat_map(|window| window.around(now));
        all.filter(|(start, end)| (*start..*end).contains(&now)).map(|(_, end)| end).max()
    }

    /// When the open window began, or else the last one, or the day by UTC if there are no windows.
    pub(crate) fn began(&self, now: u64) -> u64 {
        let all = self.0.iter().flat_map(|window| window.around(now));
        let begun = all.map(|(start, _)| start).filter(|start| *start <= now).max();
        begun.unwrap_or(now / DAY_SECONDS * DAY_SECONDS)
    }

    fn opens(&self, now: u64) -> Option<u64> {
        let all = self.0.iter().flat_map(|window| window.around(now));
        all.map(|(start, _)| start).filter(|start| *start > now).min()
    }

    /// For how many of the next `ahead` seconds a window is open.
    pub(crate) fn open_seconds(&self, mut now: u64, ahead: u64) -> u64 {
        if self.0.is_empty() {
            return ahead;
        }
        let end = now.saturating_add(ahead);
        let mut open = 0;
        for _ in 0..STEPS_MAX {
            let next = match self.closes(now) {
                Some(closes) => {
                    open += closes.min(end) - now;
                    Some(closes)
                }
                None => self.opens(now),
            };
            match next.filter(|next| *next < end) {
                Some(next) => now = next,
                None => break,
            }
        }
        open
    }

    /// When `seconds` of open windows have passed, if that is within the next few years.
    pub(crate) fn after(&self, mut now: u64, mut seconds: u64) -> Option<u64> {
        if self.0.is_empty() {
            return now.checked_add(seconds);
        }
        for _ in 0..STEPS_MAX {
            match self.closes(now) {
                Some(end) if seconds <= end - now => return Some(now + seconds),
                Some(end) => {
                    seconds -= end - now;
                    now = end;
                }
                None => now = self.opens(now)?,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_second() as u64
    }

    fn windows(texts: &[&str]) -> Windows {
        Windows(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn a_window_is_open_by_the_clock_on_the_wall() {
        let one = windows(&["02:00-12:00 Europe/Berlin"]);
        // Winter: one hour ahead of UTC. Summer: two.
        for (day, before, open, last, after) in [
            ("2026-01-15", "00:59:59", "01:00:00", "10:59:59", "11:00:00"),
            ("2026-07-15", "23:59:59", "00:00:00", "09:59:59", "10:00:00"),
        ] {
            let eve = if before > open { "2026-07-14" } else { day };
            assert!(!one.is_open(at(&format!("{eve}T{before}Z"))), "{day}");
            assert!(one.is_open(at(&format!("{day}T{open}Z"))), "{day}");
            assert!(one.is_open(at(&format!("{day}T{last}Z"))), "{day}");
            assert!(!one.is_open(at(&format!("{day}T{after}Z"))), "{day}");
        }
    }

    #[test]
    fn on_the_days_when_the_hour_changes_it_is_open_once_and_shorter_or_longer() {
        let seconds = |day: &str, window: &str| {
            let one = windows(&[window]);
            let noon = at(&format!("{day}T00:00:00Z")) - 12 * 3600;
            (noon..noon + 24 * 3600).filter(|now| one.is_open(*now)).count()
        };
        let night = "01:00-06:00 Europe/Berlin";
        assert_eq!(seconds("2026-03-28", night), 5 * 3600);
        assert_eq!(seconds("2026-03-29", night), 4 * 3600, "from 02:00 to 03:00 there is nothing");
        assert_eq!(seconds("2026-10-25", night), 6 * 3600, "from 02:00 to 03:00 comes twice");
        // Begins in the hour that is skipped, and in the one that comes twice.
        assert_eq!(seconds("2026-03-29", "02:30-05:00 Europe/Berlin"), 2 * 3600);
        assert_eq!(seconds("2026-10-25", "02:30-05:00 Europe/Berlin"), 3 * 3600 + 1800);
        // A skipped local time is the moment of the change, at which this window begins or ends.
        assert_eq!(seconds("2026-03-29", "02:30-03:30 Europe/Berlin"), 1800, "from 03:00 on");
        assert_eq!(seconds("2026-03-29", "01:30-02:30 Europe/Berlin"), 1800, "until 02:00");
        assert_eq!(seconds("2026-03-29", "02:00-03:00 Europe/Berlin"), 0, "all of it is skipped");
        assert_eq!(seconds("2026-03-29", "02:15-02:45 Europe/Berlin"), 0, "all of it is skipped");
        assert_eq!(seconds("2026-03-28", "02:30-03:30 Europe/Berlin"), 3600);
        // An hour that Lord Howe changes by half.
        assert_eq!(seconds("2026-04-05", "01:00-03:00 Australia/Lord_Howe"), 2 * 3600 + 1800);
    }

    #[test]
    fn a_window_may_pass_midnight_and_there_may_be_several() {
        let one = windows(&["23:00-01:00 UTC", "12:00-13:00 UTC", "22:00-24:00 UTC"]);
        for (time, is_open) in [
            ("21:59:59", false),
            ("22:00:00", true),
            ("23:59:59", true),
            ("00:59:59", true),
            ("01:00:00", false),
            ("12:30:00", true),
        ] {
            assert_eq!(one.is_open(at(&format!("2026-05-05T{time}Z"))), is_open, "{time}");
        }
        assert!(Windows::default().is_open(0));
    }

    #[test]
    fn a_window_is_known_by_when_it_began_also_after_it() {
        assert_eq!(windows(&[]).began(at("2026-06-01T13:00:00Z")), at("2026-06-01T00:00:00Z"));
        let one = windows(&["23:00-01:00 UTC"]);
        for time in ["2026-06-01T23:00:00Z", "2026-06-02T00:59:00Z", "2026-06-02T22:59:59Z"] {
            assert_eq!(one.began(at(time)), at("2026-06-01T23:00:00Z"), "{time}");
        }
    }

    #[test]
    fn what_is_left_is_done_after_the_windows_that_it_needs() {
        let one = windows(&["02:00-04:00 UTC"]);
        let after = |now: &str, hours: u64| one.after(at(now), hours * 3600).unwrap();
        assert_eq!(after("2026-05-05T03:00:00Z", 1), at("2026-05-05T04:00:00Z"));
        assert_eq!(after("2026-05-05T03:00:00Z", 2), at("2026-05-06T03:00:00Z"));
        assert_eq!(after("2026-05-05T05:00:00Z", 4), at("2026-05-07T04:00:00Z"));
        assert_eq!(Windows::default().after(100, 23), Some(123));
        assert_eq!(one.after(at("2026-05-05T05:00:00Z"), u64::MAX / 2), None);
    }

    #[test]
    fn a_day_has_so_many_seconds_of_windows() {
        const DAY: u64 = 86_400;
        assert_eq!(windows(&[]).open_seconds(at("2026-06-01T00:00:00Z"), DAY), DAY);
        let one = windows(&["02:00-04:00 UTC"]);
        for now in ["2026-06-01T00:00:00Z", "2026-06-01T03:00:00Z", "2026-06-01T04:00:00Z"] {
            assert_eq!(one.open_seconds(at(now), DAY), 7200, "{now}");
        }
        assert_eq!(one.open_seconds(at("2026-06-01T03:00:00Z"), 1800), 1800);
        // These are one window of three hours.
        let two = windows(&["23:00-01:00 UTC", "00:30-02:00 UTC"]);
        assert_eq!(two.open_seconds(at("2026-06-01T12:00:00Z"), DAY), 3 * 3600);
        // The night in which the hour from two to three is skipped.
        let short = windows(&["01:00-04:00 Europe/Berlin"]);
        assert_eq!(short.open_seconds(at("2026-03-28T12:00:00Z"), DAY), 2 * 3600);
    }

    #[test]
    fn what_is_no_window_is_refused_with_an_example() {
        for bad in [
            "",
            "02:00-12:00",
            "2:00-12:00 UTC",
            "02:00-25:00 UTC",
            "02:60-03:00 UTC",
            "02:00 12:00 UTC",
            "02:00-02:00 UTC",
            "24:00-00:00 UTC",
            "02:00-12:00 Europe/Atlantis",
            "+2:00-12:00 UTC",
        ] {
            let error = bad.parse::<FillWindow>().unwrap_err().to_string();
            assert!(error.contains("window") || error.contains("zone"), "{bad}: {error}");
        }
    }
}
