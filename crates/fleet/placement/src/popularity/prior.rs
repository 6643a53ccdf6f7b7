//! The forecast for a new title, before viewers can have watched it: the first days of similar titles.
//!
//! Similar titles are the last ones of its series that came out within half a year. A title without a series is compared with all titles
//! that came out within two weeks. In regions where its publisher has pinned it, it is compared with the better of them: a publisher pins a
//! title that is expected to be watched.

use std::collections::BTreeMap;

use fleet_protocol::Name;

use super::counts::Region;

const DAY_SECONDS: u64 = 24 * 3600;

/// How long a title counts as new.
const NEW_SECONDS: u64 = DAY_SECONDS;

/// A title without a series is compared with those that came out within this time.
const ALIKE_SECONDS: u64 = 14 * DAY_SECONDS;

/// The median of fewer titles of all kinds would be chance.
const ALIKE_MIN: usize = 3;

/// The number of titles of a series to compare with, the last ones: a series gains or loses viewers over time.
const SERIES_TITLES: usize = 5;

/// Titles older than this are not compared with: their counts have decayed.
const SERIES_SECONDS: u64 = 182 * DAY_SECONDS;

/// A title that viewers may watch.
#[derive(Clone, Debug)]
pub struct KnownTitle<'t> {
    /// Its path.
    pub path: &'t str,
    /// When it was published, in seconds since 1970.
    pub published_unix_seconds: u64,
    /// The series that it belongs to.
    pub series: Option<&'t str>,
    /// Where its publisher has pinned it.
    pub pinned: PinnedIn,
}

/// The regions in which a title is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinnedIn {
    /// In these, which may be none.
    Regions(Vec<Name>),
    /// In all.
    Everywhere,
}

impl PinnedIn {
    fn has(&self, region: &Name) -> bool {
        match self {
            Self::Regions(regions) => regions.contains(region),
            Self::Everywhere => true,
        }
    }
}

/// The titles that a new title was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// The last titles of its series.
    Series,
    /// Other recent titles.
    Others,
}

/// A day of one title.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Day {
    pub(crate) bytes: f64,
    pub(crate) starts: f64,
}

/// First days in one region, least watched first.
struct FirstDays(Vec<Day>);

impl FirstDays {
    fn new(mut days: Vec<Day>) -> Self {
        days.sort_unstable_by(|one, other| one.bytes.total_cmp(&other.bytes));
        Self(days)
    }

    /// The median, or the upper quartile.
    fn expected(&self, is_pinned: bool) -> Day {
        let part = if is_pinned { 3 } else { 2 };
        self.0[(self.0.len() * part / 4).min(self.0.len() - 1)]
    }
}

/// The first days to compare new titles of one region with.
pub(crate) struct Priors<'t> {
    region: &'t Name,
    now: u64,
    series: BTreeMap<&'t str, FirstDays>,
    others: Option<FirstDays>,
}

impl<'t> Priors<'t> {
    pub(crate) fn new(
        region: &'t Name,
        counts: &Region,
        titles: &'t [KnownTitle<'t>],
        now: u64,
    ) -> Self {
        let age = |title: &KnownTitle<'_>| now.saturating_sub(title.published_unix_seconds);
        let first = |title: &KnownTitle<'_>| counts.first_day(title, now).unwrap_or_default();
        let others =
            titles.iter().filter(|title| (NEW_SECONDS..ALIKE_SECONDS).contains(&age(title)));
        let others: Vec<Day> = others.map(first).collect();
        let mut by_series: BTreeMap<&str, Vec<&KnownTitle<'_>>> = BTreeMap::new();
        for title in
            titles.iter().filter(|title| (NEW_SECONDS..SERIES_SECONDS).contains(&age(title)))
        {
            if let Some(series) = title.series {
                by_series.entry(series).or_default().push(title);
            }
        }
        let last = |(series, mut titles): (&'t str, Vec<&KnownTitle<'_>>)| {
            titles.sort_by_key(|title| (age(title), title.path));
            titles.truncate(SERIES_TITLES);
            (series, FirstDays::new(titles.into_iter().map(first).collect()))
        };
        let series = by_series.into_iter().map(last).collect();
        let others = (others.len() >= ALIKE_MIN).then(|| FirstDays::new(others));
        Self { region, now, series, others }
    }

    /// The forecast for a title, if it is new and there are titles to compare it with.
    pub(crate) fn of(&self, title: &KnownTitle<'_>) -> Option<(Prior, Day)> {
        if self.now.saturating_sub(title.published_unix_seconds) >= NEW_SECONDS {
            return None;
        }
        let is_pinned = title.pinned.has(self.region);
        let series = title.series.and_then(|series| self.series.get(series));
        let of_series = series.map(|days| (Prior::Series, days.expected(is_pinned)));
        let of_others =
            || self.others.as_ref().map(|days| (Prior::Others, days.expected(is_pinned)));
        of_series.or_else(of_others)
    }
}
