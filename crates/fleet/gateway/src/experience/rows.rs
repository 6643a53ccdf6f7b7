//! The lists that operators see: one row for each group, the worst first, each figure with its interval.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_protocol::Name;
use qoe::{CELL_SESSIONS_MIN, Interval, SessionSums, SparseBuckets};
use serde::Serialize;

use super::slot::{CellKey, GroupedBy, Slot};

/// What rows are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsBy {
    /// Titles.
    Title,
    /// Sites.
    Site,
    /// Regions.
    Region,
    /// Viewers' networks.
    Network,
    /// Players.
    Player,
    /// Nodes, which are viewers' pathways.
    Node,
}

impl RowsBy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Title, Self::Site, Self::Region, Self::Network, Self::Player, Self::Node];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Site => "site",
            Self::Region => "region",
            Self::Network => "network",
            Self::Player => "player",
            Self::Node => "node",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }

    fn groups(self) -> GroupedBy {
        match self {
            Self::Title => GroupedBy::Title,
            Self::Site | Self::Region => GroupedBy::All,
            Self::Network => GroupedBy::Network,
            Self::Player => GroupedBy::Player,
            Self::Node => GroupedBy::Node,
        }
    }
}

/// Which sites count, and their regions.
pub struct RowsScope<'s> {
    /// Only these sites; `None` for all.
    pub sites: Option<&'s [Name]>,
    /// The region of a site, if it is still there.
    pub region: &'s dyn Fn(&Name) -> Option<Name>,
}

/// A count of sessions, and their share of all.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShareShown {
    count: u64,
    share: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// A quantile.
#[derive(Clone, Copy, Debug, Serialize)]
struct QuantileShown {
    value: f64,
    low: f64,
    high: f64,
}

/// A quantity.
#[derive(Clone, Debug, Serialize)]
struct QuantityShown {
    count: u64,
    mean: f64,
    median: QuantileShown,
    /// The bad end: nine of ten sessions are better. `None` if there are too few to say.
    worst_tenth: Option<QuantileShown>,
}

/// The figures of a group.
#[derive(Clone, Debug, Serialize)]
pub struct ExperienceRow {
    /// `None` for sessions in groups without a name, and for the total.
    pub name: Option<String>,
    /// Sessions.
    pub sessions: u64,
    /// Those that never played, or stalled.
    pub troubled: ShareShown,
    not_started: ShareShown,
    stalled: ShareShown,
    left_stalled: ShareShown,
    quality_not_reached: ShareShown,
    stalls: u64,
    stalled_seconds: f64,
    played_seconds: f64,
    stall_ratio: Option<f64>,
    play_delay_seconds: Option<QuantityShown>,
    time_to_quality_seconds: Option<QuantityShown>,
    stall_seconds: Option<QuantityShown>,
    megabits_per_second: Option<QuantityShown>,
}

/// A list.
#[derive(Clone, Debug, Serialize)]
pub struct ExperienceRows {
    /// From when, since 1970.
    pub since_unix_seconds: u64,
    /// From when this gateway has all reports: later than the former, if it is new or was away.
    pub complete_since_unix_seconds: u64,
    /// All sessions.
    pub total: ExperienceRow,
    /// The groups, the worst first; the one without a name is last.
    pub rows: Vec<ExperienceRow>,
}

/// What a window has at a moment. Nothing is locked while rows are made of it.
pub struct ExperienceView {
    pub(super) since_unix_seconds: u64,
    pub(super) complete_since_unix_seconds: u64,
    pub(super) slots: Vec<Arc<Slot>>,
}

impl ExperienceView {
    /// The groups, the worst first. In each dimension they are exactly the total's sessions, because they are in each report; so no subtraction
    /// reveals a group of fewer than ten.
    pub fn rows(&self, by: RowsBy, scope: &RowsScope<'_>) -> ExperienceRows {
        let (total, groups) = sums(&self.slots, by, scope);
        let mut rows: Vec<_> = groups.into_iter().map(|(name, sums)| row(name, &sums)).collect();
        rows.sort_by(worse);
        let Self { since_unix_seconds, complete_since_unix_seconds, .. } = *self;
        let total = row(String::new(), &total);
        ExperienceRows { since_unix_seconds, complete_since_unix_seconds, total, rows }
    }
}

fn sums(
    slots: &[Arc<Slot>],
    by: RowsBy,
    scope: &RowsScope<'_>,
) -> (SessionSums, BTreeMap<String, SessionSums>) {
    let mut total = SessionSums::default();
    let mut groups: BTreeMap<String, SessionSums> = BTreeMap::new();
    let counts = |key: &CellKey| scope.sites.is_none_or(|sites| sites.contains(&key.site));
    for (key, sums) in slots.iter().flat_map(|slot| &slot.cells).filter(|(key, _)| counts(key)) {
        if key.by == GroupedBy::All {
            total.add(sums);
        }
        if key.by == by.groups() {
            groups.entry(name(key, by, scope)).or_default().add(sums);
        }
    }
    (total, groups)
}

fn name(key: &CellKey, by: RowsBy, scope: &RowsScope<'_>) -> String {
    match by {
        RowsBy::Site => key.site.to_string(),
        RowsBy::Region => {
            (scope.region)(&key.site).map_or_else(String::new, |name| name.to_string())
        }
        _ => key.name.clone(),
    }
}

/// The worst group first: the one of which the least share that its few or many sessions allow is the largest. So a group of ten sessions with two
/// stalls does not come before one of a thousand with a hundred.
fn worse(one: &ExperienceRow, other: &ExperienceRow) -> Ordering {
    let low = |row: &ExperienceRow| row.troubled.low.unwrap_or(0.0);
    one.name
        .is_none()
        .cmp(&other.name.is_none())
        .then_with(|| low(other).total_cmp(&low(one)))
        .then_with(|| other.sessions.cmp(&one.sessions))
        .then_with(|| one.name.cmp(&other.name))
}

fn row(name: String, sums: &SessionSums) -> ExperienceRow {
    let part = |count| shown_share(count, sums.sessions);
    ExperienceRow {
        name: Some(name).filter(|name| !name.is_empty()),
        sessions: sums.sessions,
        troubled: part(sums.troubled()),
        not_started: part(sums.not_started),
        stalled: part(sums.stalled),
        left_stalled: part(sums.left_stalled),
        quality_not_reached: part(sums.no_quality),
        stalls: sums.stalls,
        stalled_seconds: sums.stalled_ms as f64 / 1000.0,
        played_seconds: sums.played_ms as f64 / 1000.0,
        stall_ratio: sums.stall_ratio(),
        play_delay_seconds: quantity(&sums.play_delay_ms, 0.9),
        time_to_quality_seconds: quantity(&sums.time_to_quality_ms, 0.9),
        stall_seconds: quantity(&sums.stall_ms, 0.9),
        megabits_per_second: quantity(&sums.bitrate_kbps, 0.1),
    }
}

fn shown_share(count: u64, of: u64) -> ShareShown {
    let share = qoe::share(count, of);
    let end = |end: fn(Interval) -> f64| share.map(end);
    ShareShown {
        count,
        share: end(|one| one.value),
        low: end(|one| one.low),
        high: end(|one| one.high),
    }
}

/// In thousands of the unit: seconds of milliseconds, megabits of kilobits. `None` if there are fewer values than a group has sessions.
fn quantity(spread: &SparseBuckets, worst_tenth: f64) -> Option<QuantityShown> {
    if spread.count() < CELL_SESSIONS_MIN {
        return None;
    }
    let at = |of_one| {
        let Interval { value, low, high } = spread.quantile(of_one)?;
        Some(QuantileShown { value: value / 1000.0, low: low / 1000.0, high: high / 1000.0 })
    };
    Some(QuantityShown {
        count: spread.count(),
        mean: spread.mean()? / 1000.0,
        median: at(0.5)?,
        worst_tenth: at(worst_tenth).filter(|_| spread.has_interval(worst_tenth)),
    })
}
