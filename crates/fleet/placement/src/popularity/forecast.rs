//! The expected views in the coming day.
//!
//! The forecast for a title is its average day, times the weight of the coming 24 hours in its region's week. Views that are not counted by
//! title are spread evenly over the titles without a count. A title that came out within a day has a prior (`prior.rs`).

use std::collections::HashSet;

use fleet_protocol::{Name, WatchCount};

use super::counts::{FleetPopularity, Region};
use super::prior::{Day, KnownTitle, Prior, Priors};
use super::week::SEEN_SECONDS_MIN;

/// The expected views of a region in a day.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionForecast {
    /// The region.
    pub region: Name,
    /// Titles with a forecast above zero.
    pub titles: Vec<TitleForecast>,
    /// How much demand has shifted from the last week to the last day, in thousandths: 0 for the same titles in the same proportions, 1000
    /// for completely different ones.
    pub changed_permille: u32,
    /// The coming day relative to an average one, in thousandths.
    pub day_permille: u32,
    /// When counting of the region's viewers began, in seconds since 1970.
    pub since_unix_seconds: u64,
}

/// The forecast for a title.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TitleForecast {
    /// Its index in the list of titles.
    pub title: u32,
    /// In the coming day.
    pub count: WatchCount,
    /// It is new, and the forecast is based on these other titles.
    pub prior: Option<Prior>,
}

impl FleetPopularity {
    /// The forecast of each region for `titles`, which are the fleet's.
    pub fn forecast(&self, titles: &[KnownTitle<'_>], now: u64) -> Vec<RegionForecast> {
        self.regions.iter().map(|(name, region)| region.forecast(name, titles, now)).collect()
    }
}

impl Region {
    fn forecast(&self, name: &Name, titles: &[KnownTitle<'_>], now: u64) -> RegionForecast {
        let factor = self.day_factor(now, now);
        let days: Vec<Option<Day>> = titles.iter().map(|title| self.day(title, now)).collect();
        let priors = Priors::new(name, self, titles, now);
        let uncounted = days.iter().filter(|day| day.is_none()).count();
        let unnamed = self.unnamed(titles, now) / uncounted.max(1) as f64;
        let expected = titles.iter().zip(&days).enumerate().filter_map(|(at, (title, day))| {
            let own = day.unwrap_or(Day { bytes: unnamed, starts: 0.0 });
            let prior = priors.of(title).filter(|(_, day)| day.bytes > own.bytes);
            let day = prior.map_or(own, |(_, day)| day);
            let count = WatchCount {
                starts: (day.starts * factor).round() as u64,
                bytes: (day.bytes * factor).round() as u64,
            };
            // A fleet has fewer than 2^32 titles.
            let forecast =
                TitleForecast { title: at as u32, count, prior: prior.map(|(prior, _)| prior) };
            (!count.is_none()).then_some(forecast)
        });
        RegionForecast {
            region: name.clone(),
            titles: expected.collect(),
            changed_permille: (self.changed(now) * 1000.0).round() as u32,
            day_permille: (factor * 1000.0).round() as u32,
            since_unix_seconds: self.since,
        }
    }

    /// The views of a title in a day, if it is counted. It can only have been watched since it was published.
    fn day(&self, title: &KnownTitle<'_>, now: u64) -> Option<Day> {
        let count = self.titles.get(title.path)?;
        let since = self.since.max(title.published_unix_seconds).min(now);
        Some(Day { bytes: count.bytes_a_day(since, now), starts: count.starts_a_day(since, now) })
    }

    /// The weight of the 24 hours from `begin` on, relative to an average day.
    fn day_factor(&self, begin: u64, now: u64) -> f64 {
        let is_seen = now.saturating_sub(self.since) >= SEEN_SECONDS_MIN;
        if is_seen { self.week.factor(self.since, begin) } else { 1.0 }
    }

    /// The views of a title on its first day, scaled to an average day of the week. If its first day is unknown, its current views.
    pub(crate) fn first_day(&self, title: &KnownTitle<'_>, now: u64) -> Option<Day> {
        let Some(first) = self.titles.get(title.path)?.whole_first_day(now) else {
            return self.day(title, now);
        };
        let factor = self.day_factor(first.begun, now);
        Some(Day { bytes: first.bytes / factor, starts: first.starts / factor })
    }

    /// Bytes a day that are not counted for any title of the list.
    fn unnamed(&self, titles: &[KnownTitle<'_>], now: u64) -> f64 {
        let known: HashSet<&str> = titles.iter().map(|title| title.path).collect();
        let gone = self.titles.iter().filter(|(path, _)| !known.contains(path.as_str()));
        let gone: f64 = gone.map(|(_, count)| count.bytes_a_day(self.since, now)).sum();
        gone + self.rest.bytes_a_day(self.since, now)
    }

    /// Half the sum of the differences between titles' shares of the last day and of the last week: from 0 to 1.
    fn changed(&self, now: u64) -> f64 {
        let rates = self.titles.values().chain([&self.rest]).map(|count| {
            (count.bytes_a_day(self.since, now), count.slow_bytes_a_day(self.since, now))
        });
        let (fast, slow) =
            rates.clone().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if fast <= 0.0 || slow <= 0.0 {
            return 0.0;
        }
        let differences = rates.map(|one| (one.0 / fast - one.1 / slow).abs());
        (differences.sum::<f64>() / 2.0).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::popularity::prior::PinnedIn;

    /// A Monday, 00:00 UTC.
    const BEGIN: u64 = 1_799_625_600;
    const GB: u64 = 1_000_000_000;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn known(path: &str, published_unix_seconds: u64) -> KnownTitle<'_> {
        let (series, pinned) = (None, PinnedIn::Regions(Vec::new()));
        KnownTitle { path, published_unix_seconds, series, pinned }
    }

    fn watched(bytes: u64) -> WatchCount {
        WatchCount { starts: bytes / 100_000_000, bytes }
    }

    /// Adds hours of a region with the same views in each.
    fn hours(
        popularity: &mut FleetPopularity,
        from: u64,
        hours: u64,
        titles: &[(&str, u64)],
        rest: u64,
    ) {
        for hour in 1..=hours {
            let titles = titles.iter().map(|(path, bytes)| (*path, watched(*bytes)));
            let now = from + hour * 3600;
            popularity.add(&name("north"), titles, watched(rest), 3600, now);
        }
    }

    fn bytes_of(forecast: &RegionForecast, title: u32) -> u64 {
        let found = forecast.titles.iter().find(|one| one.title == title);
        found.map_or(0, |one| one.count.bytes)
    }

    fn prior_of(forecast: &RegionForecast, title: u32) -> Option<Prior> {
        forecast.titles.iter().find(|one| one.title == title)?.prior
    }

    fn is_about(bytes: u64, expected: u64) -> bool {
        bytes.abs_diff(expected) * 20 <= expected
    }

    #[test]
    fn a_steady_title_is_expected_to_go_on_and_what_has_no_name_is_spread() {
        let mut popularity = FleetPopularity::default();
        hours(&mut popularity, BEGIN, 48, &[("a", GB), ("gone", GB)], GB);
        let titles = ["a", "b", "c"].map(|path| known(path, 0));
        let now = BEGIN + 48 * 3600;
        let [forecast] = &popularity.forecast(&titles, now)[..] else { panic!() };
        assert!(is_about(bytes_of(forecast, 0), 24 * GB), "{forecast:?}");
        assert!(is_about(bytes_of(forecast, 1), 24 * GB), "{forecast:?}");
        assert!(is_about(bytes_of(forecast, 2), 24 * GB), "{forecast:?}");
        assert_eq!(forecast.titles[1].count.starts, 0, "it was never seen to start");
        assert_eq!((forecast.day_permille, forecast.changed_permille), (1000, 0));
    }

    #[test]
    fn another_film_than_last_week_is_a_change() {
        let mut popularity = FleetPopularity::default();
        hours(&mut popularity, BEGIN, 14 * 24, &[("a", GB)], 0);
        let titles = ["a", "b"].map(|path| known(path, 0));
        let now = BEGIN + 14 * 86_400;
        assert_eq!(popularity.forecast(&titles, now)[0].changed_permille, 0);
        hours(&mut popularity, now, 24, &[("b", GB)], 0);
        let forecast = &popularity.forecast(&titles, now + 86_400)[0];
        // By now b is half of the fast count, and a tenth of the slow one.
        assert!((350..=450).contains(&forecast.changed_permille), "{forecast:?}");
        assert!(bytes_of(forecast, 1) > 10 * GB);
    }

    #[test]
    fn a_title_of_today_is_told_by_its_own_hours_and_by_others_that_were_new() {
        let mut popularity = FleetPopularity::default();
        let now = BEGIN + 10 * 86_400;
        let old = [("o1", GB), ("o2", 2 * GB), ("o3", 4 * GB)];
        hours(&mut popularity, BEGIN, 10 * 24, &old, 0);
        hours(
            &mut popularity,
            now,
            2,
            &[("o1", GB), ("o2", 2 * GB), ("o3", 4 * GB), ("hit", 8 * GB)],
            0,
        );
        let now = now + 2 * 3600;
        let mut titles = vec![known("o1", BEGIN), known("o2", BEGIN), known("o3", BEGIN)];
        titles.extend([known("hit", now - 2 * 3600), known("new", now - 3600)]);
        let pinned = |regions: &str| KnownTitle {
            pinned: PinnedIn::Regions(vec![name(regions)]),
            ..known("pinned", now - 3600)
        };
        titles.extend([pinned("north"), pinned("south")]);
        let forecast = &popularity.forecast(&titles, now)[0];
        assert!(is_about(bytes_of(forecast, 3), 8 * 24 * GB), "{forecast:?}");
        assert!(is_about(bytes_of(forecast, 4), 2 * 24 * GB), "the median: {forecast:?}");
        assert_eq!(
            [0, 3, 4].map(|title| prior_of(forecast, title)),
            [None, None, Some(Prior::Others)]
        );
        assert!(is_about(bytes_of(forecast, 5), 4 * 24 * GB), "pinned here: {forecast:?}");
        assert!(is_about(bytes_of(forecast, 6), 2 * 24 * GB), "pinned elsewhere: {forecast:?}");
        titles[0].published_unix_seconds = 0;
        assert_eq!(bytes_of(&popularity.forecast(&titles, now)[0], 4), 0, "two are no median");
    }

    fn episode(path: &'static str, published_unix_seconds: u64) -> KnownTitle<'static> {
        KnownTitle { series: Some("show"), ..known(path, published_unix_seconds) }
    }

    #[test]
    fn the_next_of_a_series_is_expected_to_begin_as_the_last_ones_began() {
        let mut popularity = FleetPopularity::default();
        const WEEK: u64 = 7 * 86_400;
        let now = BEGIN + 3 * WEEK;
        let mut titles = Vec::new();
        // Each episode is watched on its first day, and hardly at all later; films are watched little, but constantly.
        for (week, path) in (0..).zip(["e1", "e2", "e3"]) {
            let begins = BEGIN + week * WEEK;
            let films = [("f1", GB), ("f2", GB), ("f3", GB)];
            let first = [films[0], films[1], films[2], (path, (10 + week) * GB)];
            hours(&mut popularity, begins, 24, &first, 0);
            hours(&mut popularity, begins + 86_400, 6 * 24, &films, 0);
            titles.push(episode(path, begins));
        }
        titles.extend(["f1", "f2", "f3"].map(|path| known(path, now - WEEK)));
        titles.extend([episode("e4", now), known("f4", now)]);
        titles.push(KnownTitle { pinned: PinnedIn::Everywhere, ..episode("e4 too", now) });
        titles.push(KnownTitle { series: Some("another"), ..known("p1", now) });
        let forecast = &popularity.forecast(&titles, now)[0];
        assert!(bytes_of(forecast, 2) < 10 * GB, "the last one is over: {forecast:?}");
        assert!(is_about(bytes_of(forecast, 6), 11 * 24 * GB), "the median: {forecast:?}");
        assert!(is_about(bytes_of(forecast, 7), 24 * GB), "as films: {forecast:?}");
        assert!(is_about(bytes_of(forecast, 8), 12 * 24 * GB), "pinned: {forecast:?}");
        assert!(is_about(bytes_of(forecast, 9), 24 * GB), "a series begins: {forecast:?}");
        let priors = [2, 6, 7, 8, 9].map(|title| prior_of(forecast, title));
        let (series, others) = (Some(Prior::Series), Some(Prior::Others));
        assert_eq!(priors, [None, series, others, series, others]);
    }

    #[test]
    fn a_series_that_a_region_does_not_watch_is_not_expected_there() {
        let mut popularity = FleetPopularity::default();
        let now = BEGIN + 2 * 86_400;
        hours(&mut popularity, BEGIN, 48, &[("f1", GB), ("f2", GB), ("f3", GB)], 0);
        let mut titles = vec![known("f1", BEGIN), known("f2", BEGIN), known("f3", BEGIN)];
        titles.extend([episode("e1", BEGIN), episode("e2", now)]);
        let forecast = &popularity.forecast(&titles, now)[0];
        assert_eq!((bytes_of(forecast, 3), bytes_of(forecast, 4)), (0, 0));
        // Half a year later the counts have decayed.
        let later = BEGIN + 200 * 86_400;
        titles[4].published_unix_seconds = later;
        assert_eq!(prior_of(&popularity.forecast(&titles, later)[0], 4), None);
    }

    #[test]
    fn a_first_day_outlives_a_restart_and_is_counted_once() {
        let mut popularity = FleetPopularity::default();
        hours(&mut popularity, BEGIN, 12, &[("e1", GB)], 0);
        let mut again = FleetPopularity::default();
        // The gateway hears from nodes before it has loaded its saved state.
        hours(&mut again, BEGIN + 12 * 3600, 24, &[("e1", GB)], 0);
        again.restore(popularity.state(BEGIN + 12 * 3600), BEGIN + 36 * 3600);
        let state = again.state(BEGIN + 36 * 3600);
        let mut third = FleetPopularity::default();
        third.restore(state, BEGIN + 36 * 3600);
        let now = BEGIN + 37 * 3600;
        let titles = [episode("e1", BEGIN), episode("e2", now)];
        let expected = bytes_of(&third.forecast(&titles, now)[0], 1);
        // The first day of the second half extends twelve hours further.
        assert!(is_about(expected, 36 * GB), "{expected}");
    }

    #[test]
    fn nothing_and_no_titles_are_forecast_sensibly() {
        let mut popularity = FleetPopularity::default();
        assert_eq!(popularity.forecast(&[known("a", 0)], BEGIN), []);
        hours(&mut popularity, BEGIN, 1, &[], 0);
        let [forecast] = &popularity.forecast(&[], BEGIN)[..] else { panic!() };
        assert!(forecast.titles.is_empty() && forecast.changed_permille == 0);
        let forecast = popularity.forecast(&[known("a", u64::MAX)], 0);
        assert!(forecast[0].titles.is_empty());
    }
}
