//! Counts of views, by region and title.

use std::collections::{BTreeMap, HashMap};

use fleet_protocol::{Name, WatchCount};

use super::decayed::Decayed;
use super::week::Week;

/// The most counts (a title in a region). Each takes some 150 bytes with its path, so 30 MB in all.
pub const COUNTS_MAX: usize = 200_000;

/// If there are too many, the least watched are merged into the rest until this many are left: finding them takes longer than adding one.
const COUNTS_LEFT: usize = COUNTS_MAX - COUNTS_MAX / 8;

/// The most regions. Operators name them.
pub const REGIONS_MAX: usize = 1000;

/// The views of a fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetPopularity {
    pub(crate) regions: BTreeMap<Name, Region>,
    counts: usize,
    joined: u64,
}

/// The views of one region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// When counting began, in seconds since 1970.
    pub(crate) since: u64,
    pub(crate) titles: HashMap<String, Decayed>,
    /// Views that are not counted by title.
    pub(crate) rest: Decayed,
    pub(crate) week: Week,
}

/// A region's views of a title, per day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionCount {
    /// The region.
    pub region: Name,
    /// Per day, averaged over the last days.
    pub count: WatchCount,
}

impl Region {
    pub(crate) fn new(since: u64) -> Self {
        let (titles, rest, week) = Default::default();
        Self { since, titles, rest, week }
    }
}

impl FleetPopularity {
    /// Whether nothing has been counted yet.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The number of counts (a title in a region).
    pub fn counts(&self) -> usize {
        self.counts
    }

    /// The number of counts that were merged into the rest of their regions, because there were too many.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// When the earliest counting began, in seconds since 1970.
    pub fn since_unix_seconds(&self) -> Option<u64> {
        self.regions.values().map(|region| region.since).min()
    }

    /// Adds the views of a region in the `seconds` before `now`: by title, and the rest.
    pub fn add<'t>(
        &mut self,
        region: &Name,
        titles: impl IntoIterator<Item = (&'t str, WatchCount)>,
        rest: WatchCount,
        seconds: u32,
        now: u64,
    ) {
        if self.regions.len() >= REGIONS_MAX && !self.regions.contains_key(region) {
            return;
        }
        let begun = now.saturating_sub(seconds.into());
        let own = self.regions.entry(region.clone()).or_insert_with(|| Region::new(begun));
        let mut sum = rest.bytes;
        for (path, count) in titles {
            sum = sum.saturating_add(count.bytes);
            match own.titles.get_mut(path) {
                Some(known) => known.add(count, now),
                None => {
                    let new = own.titles.entry(path.to_owned());
                    new.or_insert_with(|| Decayed::begun(begun)).add(count, now);
                    self.counts += 1;
                }
            }
        }
        own.rest.add(rest, now);
        own.week.add(sum, now);
        if self.counts > COUNTS_MAX {
            self.join_least(now);
        }
    }

    /// Merges the views of titles that `is_known` no longer knows into the rest, and drops counts that have decayed.
    pub fn keep_known(&mut self, is_known: impl Fn(&str) -> bool, now: u64) {
        for region in self.regions.values_mut() {
            let rest = &mut region.rest;
            region.titles.retain(|path, count| {
                let stays = is_known(path) && !count.is_gone(now);
                if !stays {
                    rest.join(*count);
                }
                stays
            });
        }
        self.count_anew();
    }

    pub(crate) fn count_anew(&mut self) {
        self.counts = self.regions.values().map(|region| region.titles.len()).sum();
    }

    /// Merges the least watched counts into the rest.
    pub(crate) fn join_least(&mut self, now: u64) {
        let all = self.regions.values().flat_map(|region| region.titles.values());
        let mut watched: Vec<f64> = all.map(|count| count.at(now).slow_bytes).collect();
        let surplus = watched.len().saturating_sub(COUNTS_LEFT);
        if surplus == 0 {
            return;
        }
        let (_, bound, _) = watched.select_nth_unstable_by(surplus - 1, f64::total_cmp);
        let bound = *bound;
        let mut left = surplus;
        for region in self.regions.values_mut() {
            let rest = &mut region.rest;
            region.titles.retain(|_, count| {
                let stays = left == 0 || count.at(now).slow_bytes > bound;
                if !stays {
                    rest.join(*count);
                    left -= 1;
                }
                stays
            });
        }
        self.joined += (surplus - left) as u64;
        self.count_anew();
    }

    /// Each region's views of a title, per day. Regions without any are left out.
    pub fn of_title(&self, path: &str, now: u64) -> Vec<RegionCount> {
        let of = |(name, region): (&Name, &Region)| {
            let own = region.titles.get(path)?;
            let count = WatchCount {
                starts: own.starts_a_day(region.since, now).round() as u64,
                bytes: own.bytes_a_day(region.since, now).round() as u64,
            };
            Some(RegionCount { region: name.clone(), count })
        };
        self.regions.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_800_000_000;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn watched(bytes: u64) -> WatchCount {
        WatchCount { starts: 1, bytes }
    }

    fn all_bytes(popularity: &FleetPopularity, now: u64) -> f64 {
        let of = |region: &Region| {
            let titles: f64 = region.titles.values().map(|count| count.at(now).bytes).sum();
            titles + region.rest.at(now).bytes
        };
        popularity.regions.values().map(of).sum()
    }

    #[test]
    fn too_many_titles_join_the_rest_the_least_watched_first_and_no_byte_is_lost() {
        let mut popularity = FleetPopularity::default();
        let none = WatchCount::default();
        let paths: Vec<String> = (0..=COUNTS_MAX).map(|number| format!("t{number}")).collect();
        let mut sum = 0;
        for (number, path) in (0..).zip(&paths) {
            let region = name(["north", "south"][number as usize % 2]);
            sum += 1000 + number;
            popularity.add(&region, [(path.as_str(), watched(1000 + number))], none, 60, BEGIN);
        }
        assert_eq!(popularity.counts(), COUNTS_LEFT);
        assert_eq!(popularity.joined(), (COUNTS_MAX + 1 - COUNTS_LEFT) as u64);
        assert_eq!(all_bytes(&popularity, BEGIN), sum as f64);
        assert_eq!(popularity.of_title("t0", BEGIN), []);
        assert_eq!(popularity.of_title(&format!("t{COUNTS_MAX}"), BEGIN).len(), 1);
    }

    #[test]
    fn as_many_regions_as_may_be() {
        let mut popularity = FleetPopularity::default();
        for number in 0..REGIONS_MAX + 10 {
            popularity.add(&name(&format!("r{number}")), [], watched(1), 60, BEGIN);
        }
        assert_eq!(popularity.regions.len(), REGIONS_MAX);
    }

    #[test]
    fn what_was_withdrawn_joins_the_rest_and_what_has_decayed_goes() {
        let mut popularity = FleetPopularity::default();
        let titles = [("a", watched(1_000_000)), ("b", watched(1_000_000)), ("c", watched(10))];
        popularity.add(&name("north"), titles, WatchCount::default(), 60, BEGIN);
        let later = BEGIN + 40 * 86_400;
        popularity.keep_known(|path| path != "b", later);
        assert_eq!(popularity.counts(), 1);
        assert_eq!(popularity.of_title("a", later).len(), 1);
        assert!(popularity.regions[&name("north")].rest.slow_bytes > 10_000.0);
    }
}
