//! The views in each hour of the week. Hours are in UTC: a region's local hours always map to the same ones, except when its clocks change.

/// Hours of a week.
pub(crate) const HOURS: usize = 168;

/// The half-life of an hour's count: an hour comes once a week, so this combines several weeks.
const HALF_LIFE_SECONDS: f64 = 14.0 * 24.0 * 3600.0;

/// A forecast is not raised or lowered by more than this factor. A day without a game says little about a day with one.
const FACTOR_MAX: f64 = 4.0;

/// Until a region has been observed for this long, empty hours mean nothing.
pub(crate) const SEEN_SECONDS_MIN: u64 = 7 * 24 * 3600;

/// Bytes by hour of the week, decayed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Week {
    /// The time of the numbers below, in seconds since 1970.
    pub(crate) at: u64,
    pub(crate) bytes: [f64; HOURS],
}

impl Default for Week {
    fn default() -> Self {
        Self { at: 0, bytes: [0.0; HOURS] }
    }
}

/// The hour of the week, from 0 for Monday 00:00 UTC. 1970 began on a Thursday.
pub(crate) fn hour_of(unix_seconds: u64) -> usize {
    ((unix_seconds / 3600 + 3 * 24) % HOURS as u64) as usize
}

impl Week {
    /// Decays the counts to `now`.
    pub(crate) fn age(&mut self, now: u64) {
        let seconds = now.saturating_sub(self.at);
        if seconds > 0 {
            let left = (-(seconds as f64) / HALF_LIFE_SECONDS).exp2();
            self.bytes.iter_mut().for_each(|bytes| *bytes *= left);
            self.at = now;
        }
    }

    pub(crate) fn add(&mut self, bytes: u64, now: u64) {
        self.age(now);
        self.bytes[hour_of(now)] += bytes as f64;
    }

    /// Adds another one, which may be as of another time.
    pub(crate) fn join(&mut self, mut other: Self) {
        let now = self.at.max(other.at);
        self.age(now);
        other.age(now);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(own, other)| *own += other);
    }

    /// The average views in an hour of the week, over its weeks since `since`. Otherwise an hour that came more often, or more recently,
    /// would count more than others.
    fn average(&self, hour: usize, since: u64) -> f64 {
        let hours_ago = (hour_of(self.at) + HOURS - hour) % HOURS;
        let Some(last) = (self.at / 3600).checked_sub(hours_ago as u64) else { return 0.0 };
        let Some(since) = last.checked_sub(since / 3600) else { return 0.0 };
        let weeks = (since / HOURS as u64 + 1) as f64;
        // The weights of the weeks relative to the last one: 1, q, q^2 ...
        let q = (-(HOURS as f64) * 3600.0 / HALF_LIFE_SECONDS).exp2();
        let weight = (1.0 - q.powf(weeks)) / (1.0 - q);
        self.bytes[hour] * (hours_ago as f64 * 3600.0 / HALF_LIFE_SECONDS).exp2() / weight
    }

    /// The weight of the 24 hours from `now` on relative to an average day, if bytes were added since `since`.
    pub(crate) fn factor(&self, since: u64, now: u64) -> f64 {
        let sum = |hours: std::ops::Range<usize>| -> f64 {
            hours.map(|hour| self.average((hour_of(now) + hour) % HOURS, since)).sum()
        };
        let (day, all) = (sum(0..24), sum(0..HOURS));
        if all <= 0.0 { 1.0 } else { (day * 7.0 / all).clamp(1.0 / FACTOR_MAX, FACTOR_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday, 00:00 UTC.
    const MONDAY: u64 = 1_799_625_600;

    #[test]
    fn weeks_begin_on_monday() {
        assert_eq!((hour_of(0), hour_of(MONDAY), hour_of(MONDAY - 1)), (72, 0, 167));
    }

    #[test]
    fn saturdays_are_foretold_by_saturdays() {
        let mut week = Week::default();
        for hour in 0..4 * 168 + 24 {
            let is_saturday = hour % 168 / 24 == 5;
            week.add(if is_saturday { 3000 } else { 1000 }, MONDAY + hour * 3600);
        }
        let now = MONDAY + 4 * 7 * 86_400 + 86_400;
        let [tuesday, saturday] = [0, 4].map(|days| week.factor(MONDAY, now + days * 86_400));
        assert!((tuesday - 7.0 / 9.0).abs() < 0.01, "{tuesday}");
        assert!((saturday - 21.0 / 9.0).abs() < 0.01, "{saturday}");
        assert_eq!(Week::default().factor(MONDAY, now), 1.0);
    }

    #[test]
    fn one_hour_does_not_make_a_day() {
        let mut week = Week::default();
        week.add(1_000_000, MONDAY);
        assert_eq!(week.factor(MONDAY, MONDAY), FACTOR_MAX);
        assert_eq!(week.factor(MONDAY, MONDAY + 86_400), 1.0 / FACTOR_MAX);
    }
}
