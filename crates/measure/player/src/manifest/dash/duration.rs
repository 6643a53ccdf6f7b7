//! Times in manifests: ISO 8601 durations, and counts of a timescale's units.

use crate::manifest::listing::TIME_MAX;
use std::time::Duration;

/// Seconds in each unit of a date. Years and months have no fixed length, so only a count of zero gives a duration.
const DATE: &[(char, f64)] = &[('Y', f64::MAX), ('M', f64::MAX), ('D', 86_400.0)];

/// Seconds in each unit of a time.
const TIME: &[(char, f64)] = &[('H', 3600.0), ('M', 60.0), ('S', 1.0)];

/// Parses a duration such as `PT1H2M3.5S`. Refuses times later than any segment plays.
pub(in crate::manifest) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let mut seconds = 0.0;
    for (part, units) in [(date, DATE), (time, TIME)] {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let unit = rest[end..].chars().next()?;
            let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
            let count: f64 = rest[..end].parse().ok()?;
            seconds += count * length;
            rest = &rest[end + 1..];
        }
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= TIME_MAX)
}

/// The time that `units` of a timescale take.
pub(super) fn time(units: u64, timescale: u64) -> Duration {
    let scale = u128::from(timescale);
    let nanoseconds = u128::from(units % timescale) * 1_000_000_000 / scale;
    // Less than a second: the quotient is below 10^9.
    Duration::new(units / timescale, nanoseconds as u32)
}

/// The number of timescale units in a duration, rounded down.
pub(super) fn units(duration: Duration, timescale: u64) -> u64 {
    let scale = u128::from(timescale);
    let units = duration.as_nanos().saturating_mul(scale) / 1_000_000_000;
    u64::try_from(units).unwrap_or(u64::MAX)
}
