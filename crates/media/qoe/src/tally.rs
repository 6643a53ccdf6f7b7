//! Sessions counted for a fleet: each once, in groups, and in numbered reports.
//!
//! A session counts when its first five minutes are over, and only where it began, so that one that moves between servers is not counted twice. It
//! counts for all sessions, and in one group of each [`Dimension`]: its title, its network, and its player.
//!
//! # Invariants
//! - A report contains no group with fewer than [`CELL_SESSIONS_MIN`] sessions, and subtracting groups from all sessions leaves none either: in each
//!   dimension, the report's groups are exactly its sessions. Small groups join the nameless one; if that is still too small, the smallest other
//!   group joins it, too. Nothing waits for a later report, because what is missing in one report would show in the difference.
//! - A report is about the last minute, about ten minutes if a minute's groups are mostly too small for a name, and never about more than an hour:
//!   fewer sessions than ten in an hour are dropped.
//! - Memory is bounded: in each dimension, at most 2,000 groups are kept, and the largest 332 have names in a report.
//! - A report doesn't change, and its number is never given again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::sums::{COUNTED_MS, SessionSums};

/// The fewest sessions of a group in a report.
pub const CELL_SESSIONS_MIN: u64 = 10;

/// The most groups in a report.
pub const CELLS_MAX: usize = 1000;

/// The most named groups of a dimension in a report. Each dimension has a nameless one, too.
const NAMES_MAX: usize = (CELLS_MAX - 1) / GROUPED.len() - 1;

/// The most groups of a dimension while sessions are counted: some 1 MB. With more, the smaller half joins the nameless one.
const WAITING_MAX: usize = 2000;

/// How often a report is closed.
const REPORT_MS: u64 = 60_000;

/// A report is closed after ten of these times, however few of its groups are large enough for a name.
const WAITS_MAX: u64 = 10;

/// A report of fewer than ten sessions is dropped after sixty of these times: an hour.
const DROPPED_AFTER: u64 = 60;

/// Reports kept for the reader, who comes every few seconds.
const REPORTS_KEPT: usize = 10;

/// What sessions are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Not at all: the only group has no name.
    All,
    /// The network of the viewer's address.
    Network,
    /// The player.
    Player,
    /// The title.
    Title,
}

/// The dimensions that have several groups, in the order of their names.
const GROUPED: [Dimension; 3] = [Dimension::Network, Dimension::Player, Dimension::Title];

impl Dimension {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Network => "network",
            Self::Player => "player",
            Self::Title => "title",
        }
    }

    /// The dimension with this name, if this release has it.
    pub fn named(name: &str) -> Option<Self> {
        [Self::All, Self::Network, Self::Player, Self::Title]
            .into_iter()
            .find(|dimension| dimension.as_str() == name)
    }
}

/// One group, and the sums over its sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumsCell {
    /// The [`Dimension`]. A later release may have further ones.
    pub by: String,
    /// The group's name; empty for all sessions, and for the group of all that have none of their own.
    pub name: String,
    /// Its sums.
    pub sums: SessionSums,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedTally {
    /// Rises with each report.
    pub number: u64,
    /// The time that it covers, in milliseconds: from the last moment without sessions, or the report before, to its end.
    pub took_ms: u64,
    /// When it was closed, on the caller's clock.
    pub closed_ms: u64,
    /// The groups, in order of their dimension and name.
    pub cells: Vec<SumsCell>,
}

/// Groups of a dimension, by name.
type Groups = BTreeMap<String, SessionSums>;

/// The groups of the current report, and the last reports.
#[derive(Debug)]
pub struct Tally {
    counted_ms: u64,
    report_ms: u64,
    began_ms: u64,
    /// When it was last looked at whether the report can be closed.
    looked_ms: u64,
    all: SessionSums,
    /// The same sessions by each of [`GROUPED`].
    groups: [Groups; GROUPED.len()],
    dropped_total: u64,
    number: u64,
    closed: VecDeque<Arc<ClosedTally>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counted_ms: COUNTED_MS,
            report_ms: REPORT_MS,
            began_ms: 0,
            looked_ms: 0,
            all: SessionSums::default(),
            groups: Default::default(),
            dropped_total: 0,
            number: 0,
            closed: VecDeque::new(),
        }
    }
}

impl Tally {
    /// A tally that counts less of each session, at most [`COUNTED_MS`], and closes reports more often in proportion: for tests.
    pub fn of_the_first(counted_ms: u64) -> Self {
        let counted_ms = counted_ms.clamp(1, COUNTED_MS);
        Self { counted_ms, report_ms: counted_ms * REPORT_MS / COUNTED_MS, ..Self::default() }
    }

    /// How much of a session is counted.
    pub(crate) fn counted_ms(&self) -> u64 {
        self.counted_ms
    }

    /// Sessions that no report has, because there were too few in an hour.
    pub fn dropped_total(&self) -> u64 {
        self.dropped_total
    }

    /// Counts a session of this title, if it began here.
    pub(crate) fn count(&mut self, title: &str, session: &Session) {
        if !session.beginning.was_seen() {
            return;
        }
        let network = session.group.map(|group| group.network()).unwrap_or_default();
        let player = session.group.map_or("", |group| group.player()).to_owned();
        self.all.record(session);
        for (groups, name) in self.groups.iter_mut().zip([network, player, title.to_owned()]) {
            groups.entry(name).or_default().record(session);
            if groups.len() > WAITING_MAX {
                join_smaller_half(groups);
            }
        }
    }

    /// Closes a report at `now_ms` if it is time for one, and there is anything to report.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.looked_ms) < self.report_ms {
            return;
        }
        self.looked_ms = now_ms;
        let took_ms = now_ms.saturating_sub(self.began_ms);
        if self.all.sessions < CELL_SESSIONS_MIN {
            if self.all.sessions == 0 || took_ms >= DROPPED_AFTER * self.report_ms {
                self.dropped_total += self.all.sessions;
                self.begin(now_ms);
            }
            return;
        }
        let sessions = self.all.sessions;
        let names = self.groups.each_ref().map(|groups| large_names(groups, sessions));
        let is_mostly_named = self.groups.iter().zip(&names).all(|(groups, names)| {
            let named: u64 = names.iter().map(|name| groups[name].sessions).sum();
            named >= sessions - sessions / 10
        });
        if is_mostly_named || took_ms >= WAITS_MAX * self.report_ms {
            self.close(names, took_ms, now_ms);
        }
    }

    fn close(&mut self, names: [BTreeSet<String>; GROUPED.len()], took_ms: u64, now_ms: u64) {
        let cell = |by: Dimension, name: String, sums: SessionSums| SumsCell {
            by: by.as_str().to_owned(),
            name,
            sums,
        };
        let mut cells = vec![cell(Dimension::All, String::new(), std::mem::take(&mut self.all))];
        for ((by, groups), names) in GROUPED.into_iter().zip(&mut self.groups).zip(names) {
            join(groups, |name, _| !names.contains(name));
            cells.extend(
                std::mem::take(groups).into_iter().map(|(name, sums)| cell(by, name, sums)),
            );
        }
        self.begin(now_ms);
        self.number += 1;
        if self.closed.len() == REPORTS_KEPT {
            self.closed.pop_front();
        }
        let number = self.number;
        self.closed.push_back(Arc::new(ClosedTally { number, took_ms, closed_ms: now_ms, cells }));
    }

    fn begin(&mut self, now_ms: u64) {
        self.began_ms = now_ms;
        self.all = SessionSums::default();
        self.groups = Default::default();
    }

    /// The reports that are kept and newer than `number`.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Arc<ClosedTally>> {
        self.closed.iter().filter(move |closed| closed.number > number)
    }
}

/// The names of the largest groups of all `sessions`. None is too small, nor are the other sessions together.
fn large_names(groups: &Groups, sessions: u64) -> BTreeSet<String> {
    let is_large = |(name, sums): &(&String, &SessionSums)| {
        !name.is_empty() && sums.sessions >= CELL_SESSIONS_MIN
    };
    let mut large: Vec<_> =
        groups.iter().filter(is_large).map(|(name, sums)| (Reverse(sums.sessions), name)).collect();
    large.sort_unstable();
    large.truncate(NAMES_MAX);
    let mut others = sessions - large.iter().map(|(sessions, _)| sessions.0).sum::<u64>();
    while (1..CELL_SESSIONS_MIN).contains(&others) {
        let Some((Reverse(smallest), _)) = large.pop() else { break };
        others += smallest;
    }
    large.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Joins groups with the nameless one.
fn join(groups: &mut Groups, mut joins: impl FnMut(&str, &SessionSums) -> bool) {
    let mut nameless = groups.remove("").unwrap_or_default();
    groups.retain(|name, sums| {
        let joins = joins(name, sums);
        if joins {
            nameless.add(sums);
        }
        !joins
    });
    if nameless.sessions > 0 {
        groups.insert(String::new(), nameless);
    }
}

fn join_smaller_half(groups: &mut Groups) {
    let mut sizes: Vec<_> = groups.values().map(|sums| sums.sessions).collect();
    sizes.sort_unstable();
    // Of groups of the same size, the first ones by name.
    let (middle, mut room) = (sizes[sizes.len() / 2], WAITING_MAX / 2);
    join(groups, |_, sums| {
        let joins = sums.sessions <= middle && room > 0;
        room -= usize::from(joins);
        joins
    });
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
