//! [`FleetPopularity`] as bytes, so that a restarted gateway still knows what is watched.

use std::collections::HashMap;

use fleet_protocol::Name;
use serde::{Deserialize, Serialize};

use super::counts::{COUNTS_MAX, FleetPopularity, REGIONS_MAX, Region};
use super::decayed::{Decayed, FirstDay};
use super::week::{HOURS, Week};

/// The largest allowed number. No fleet sends an exabyte within two weeks, and sums of these stay exact enough.
const NUMBER_MAX: u64 = 1 << 60;

/// The longest path of a title.
const PATH_BYTES_MAX: usize = 4096;

/// [`FleetPopularity`] at one moment. A gateway of another release may have written it, so unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PopularityState {
    /// The version of this format: 1.
    version: u32,
    /// When it was made, in seconds since 1970. All counts are as of this time.
    made_unix_seconds: u64,
    regions: Vec<RegionState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RegionState {
    region: Name,
    since_unix_seconds: u64,
    rest: CountState,
    /// Bytes by hour of the week, from Monday 00:00 UTC.
    hours: Vec<u64>,
    /// By path.
    titles: Vec<TitleState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CountState {
    bytes: u64,
    /// In thousandths, because a decayed start is less than one.
    starts_permille: u64,
    slow_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TitleState {
    path: String,
    count: CountState,
    /// Earlier releases did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<FirstState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FirstState {
    begun_unix_seconds: u64,
    bytes: u64,
    starts: u64,
}

impl FirstState {
    fn of(first: FirstDay) -> Self {
        let FirstDay { begun: begun_unix_seconds, bytes, starts } = first;
        Self { begun_unix_seconds, bytes: whole(bytes), starts: whole(starts) }
    }

    /// The first day, in a state made at `at`: it cannot begin after that.
    fn day(self, at: u64) -> FirstDay {
        let begun = self.begun_unix_seconds.min(at);
        FirstDay { begun, bytes: self.bytes as f64, starts: self.starts as f64 }
    }
}

impl TitleState {
    fn decayed(&self, at: u64) -> Decayed {
        Decayed { first: self.first.map(|first| first.day(at)), ..self.count.decayed(at) }
    }

    fn is_bounded(&self) -> bool {
        let first = self.first.is_none_or(|first| first.bytes.max(first.starts) <= NUMBER_MAX);
        first && self.count.is_bounded()
    }
}

/// Why bytes are not a valid [`PopularityState`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPopularityState(String);

fn whole(number: f64) -> u64 {
    (number.round() as u64).min(NUMBER_MAX)
}

impl CountState {
    fn of(count: Decayed, now: u64) -> Self {
        let count = count.at(now);
        Self {
            bytes: whole(count.bytes),
            starts_permille: whole(count.starts * 1000.0),
            slow_bytes: whole(count.slow_bytes),
        }
    }

    fn decayed(self, at: u64) -> Decayed {
        Decayed {
            at,
            bytes: self.bytes as f64,
            starts: self.starts_permille as f64 / 1000.0,
            slow_bytes: self.slow_bytes as f64,
            first: None,
        }
    }

    fn is_bounded(self) -> bool {
        [self.bytes, self.starts_permille, self.slow_bytes].iter().all(|one| *one <= NUMBER_MAX)
    }
}

impl PopularityState {
    /// Its JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is plain JSON")
    }

    /// Parses the output of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// If it is invalid, or out of bounds.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadPopularityState> {
        let state: Self =
            serde_json::from_slice(bytes).map_err(|error| BadPopularityState(error.to_string()))?;
        state.check().map_err(|why| BadPopularityState(why.to_owned()))?;
        Ok(state)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.version != 1 {
            return Err("version is not 1: it is from another release");
        }
        if self.regions.len() > REGIONS_MAX {
            return Err("there are more than 1000 regions");
        }
        if !self.regions.is_sorted_by(|one, next| one.region < next.region) {
            return Err("regions are not sorted, or one occurs twice");
        }
        if self.regions.iter().map(|region| region.titles.len()).sum::<usize>() > COUNTS_MAX {
            return Err("there are more than 200000 counts");
        }
        self.regions.iter().try_for_each(RegionState::check)
    }
}

impl RegionState {
    fn of(name: &Name, region: &Region, now: u64) -> Self {
        let of = |(path, count): (&String, &Decayed)| TitleState {
            path: path.clone(),
            count: CountState::of(*count, now),
            first: count.first.map(FirstState::of),
        };
        let mut titles: Vec<_> = region.titles.iter().map(of).collect();
        titles.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let mut week = region.week.clone();
        week.age(now);
        Self {
            region: name.clone(),
            since_unix_seconds: region.since,
            rest: CountState::of(region.rest, now),
            hours: week.bytes.iter().map(|bytes| whole(*bytes)).collect(),
            titles,
        }
    }

    fn region(self, at: u64) -> Region {
        let mut week = Week { at, ..Week::default() };
        week.bytes.iter_mut().zip(&self.hours).for_each(|(own, bytes)| *own = *bytes as f64);
        let titles = self.titles.into_iter().map(|title| {
            let count = title.decayed(at);
            (title.path, count)
        });
        let titles: HashMap<_, _> = titles.collect();
        // With a start in the future, an hour's count would be taken for a day's.
        let since = self.since_unix_seconds.min(at);
        Region { since, titles, rest: self.rest.decayed(at), week }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.hours.len() != HOURS {
            return Err("a week does not have 168 hours");
        }
        if !self.titles.is_sorted_by(|one, next| one.path < next.path) {
            return Err("titles are not sorted by path, or one occurs twice");
        }
        if self.titles.iter().any(|title| title.path.len() > PATH_BYTES_MAX) {
            return Err("a path has more than 4096 bytes");
        }
        let is_bounded = self.titles.iter().all(TitleState::is_bounded)
            && self.rest.is_bounded()
            && self.hours.iter().all(|bytes| *bytes <= NUMBER_MAX);
        if is_bounded { Ok(()) } else { Err("a number is above 2^60") }
    }
}

impl FleetPopularity {
    /// The whole state, at `now`.
    pub fn state(&self, now: u64) -> PopularityState {
        let regions = self.regions.iter().map(|(name, region)| RegionState::of(name, region, now));
        PopularityState { version: 1, made_unix_seconds: now, regions: regions.collect() }
    }

    /// Adds a saved state. It decays by the time that has passed since; a state from the future counts as of `now`.
    pub fn restore(&mut self, state: PopularityState, now: u64) {
        let at = state.made_unix_seconds.min(now);
        for known in state.regions {
            let name = known.region.clone();
            if self.regions.len() >= REGIONS_MAX && !self.regions.contains_key(&name) {
                continue;
            }
            let known = known.region(at);
            let own = self.regions.entry(name).or_insert_with(|| Region::new(known.since));
            own.since = own.since.min(known.since);
            own.rest.join(known.rest);
            own.week.join(known.week);
            for (path, count) in known.titles {
                own.titles.entry(path).or_default().join(count);
            }
        }
        self.count_anew();
        if self.counts() > COUNTS_MAX {
            self.join_least(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::WatchCount;

    const BEGIN: u64 = 1_800_000_000;

    fn counted() -> FleetPopularity {
        let mut popularity = FleetPopularity::default();
        for (region, path) in [("north", "a"), ("north", "b"), ("south", "a")] {
            let region = region.parse().expect("a name");
            let count = WatchCount { starts: 3, bytes: 1_000_000 };
            popularity.add(&region, [(path, count)], count, 60, BEGIN);
        }
        popularity
    }

    #[test]
    fn what_is_kept_is_read_again_and_has_decayed() {
        let state = counted().state(BEGIN + 60);
        let read = PopularityState::from_bytes(&state.to_bytes()).expect("the same");
        assert_eq!(read, state);
        let mut again = FleetPopularity::default();
        again.restore(read, BEGIN + 60);
        assert_eq!(again.state(BEGIN + 60), state);
        let later = BEGIN + 86_400;
        let [before, after] = [&counted(), &again].map(|one| one.of_title("a", later));
        assert_eq!(before.len(), 2);
        for (one, other) in before.iter().zip(&after) {
            let off = one.count.bytes.abs_diff(other.count.bytes);
            assert!(off <= 2, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_was_counted_meanwhile_is_added() {
        let mut again = counted();
        again.restore(counted().state(BEGIN), BEGIN);
        let (one, two) = (counted().of_title("b", BEGIN), again.of_title("b", BEGIN));
        assert_eq!(two[0].count.bytes, 2 * one[0].count.bytes);
        assert_eq!(again.counts(), 3);
    }

    #[test]
    fn a_state_of_a_time_to_come_still_decays() {
        let mut again = FleetPopularity::default();
        again.restore(counted().state(u64::MAX / 2), BEGIN);
        let bytes = |now| again.of_title("b", now).first().map_or(0, |one| one.count.bytes);
        assert!(bytes(BEGIN) >= bytes(BEGIN + 30 * 86_400));
        assert_eq!(again.since_unix_seconds(), Some(BEGIN - 60));
    }

    #[test]
    fn what_is_none_is_refused() {
        let text = String::from_utf8(counted().state(BEGIN).to_bytes()).expect("JSON");
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"region\":\"south\"", "\"region\":\"north\""),
            ("\"path\":\"b\"", "\"path\":\"a\""),
            ("\"bytes\":1000000", "\"bytes\":1152921504606846977"),
            ("\"hours\":[", "\"hours\":[0,"),
            ("\"bytes\":1000000,\"starts\":3", "\"bytes\":1000000,\"starts\":1152921504606846977"),
        ] {
            assert!(text.contains(from), "{from}");
            let broken = text.replacen(from, to, 1);
            assert!(PopularityState::from_bytes(broken.as_bytes()).is_err(), "{to}");
        }
        assert!(PopularityState::from_bytes(&text.as_bytes()[..text.len() - 1]).is_err());
        // A gateway that is rolled back continues with the counts of the newer one.
        let newer = text.replacen("\"rest\":", "\"odd\":1,\"rest\":", 1);
        assert_eq!(
            PopularityState::from_bytes(newer.as_bytes()).map_err(|error| error.to_string()),
            PopularityState::from_bytes(text.as_bytes()).map_err(|error| error.to_string())
        );
    }
}
