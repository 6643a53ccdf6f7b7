//! Sessions counted for a fleet: each once, in groups, and in numbered reports.
//!
//! A session counts when its first five minutes are over, and only where it began, so that one that moves between servers is not counted twice. It
//! counts for all sessions, and in one group of each [`Dimension`]: its title, its network, and its player.
//!
//! # Invariants
//! - A report contains no group with fewer than [`CELL_SESSIONS_MIN`] sessions. A smaller group waits for the next report. If it is still too
//!   small after an hour, it joins the nameless group of its dimension, so that a report is never about sessions of long ago.
//! - At most [`CELLS_MAX`] groups are kept. Sessions of further ones count in the nameless group, too.
//! - A report doesn't change, and its number is never given again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::sums::{COUNTED_MS, SessionSums};

/// The fewest sessions of a group in a report.
pub const CELL_SESSIONS_MIN: u64 = 10;

/// The most groups in a report.
pub const CELLS_MAX: usize = 1000;

/// How often a report is closed.
const REPORT_MS: u64 = 60_000;

/// How many reports a group waits for more sessions: an hour's.
const WAITS_MAX: u32 = 60;

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
    /// The time since the one before, in milliseconds.
    pub took_ms: u64,
    /// When it was closed, on the caller's clock.
    pub closed_ms: u64,
    /// The groups, in order of their dimension and name.
    pub cells: Vec<SumsCell>,
}

/// The groups of the current report, and the last reports.
#[derive(Debug)]
pub struct Tally {
    counted_ms: u64,
    report_ms: u64,
    began_ms: u64,
    waiting: BTreeMap<(Dimension, String), Waiting>,
    number: u64,
    closed: VecDeque<Arc<ClosedTally>>,
}

/// A group of the current report.
#[derive(Debug, Default)]
struct Waiting {
    sums: SessionSums,
    /// Reports that were closed without it.
    waits: u32,
}

impl Default for Tally {
    fn default() -> Self {
        let (waiting, closed) = Default::default();
        let (counted_ms, report_ms) = (COUNTED_MS, REPORT_MS);
        Self { counted_ms, report_ms, began_ms: 0, waiting, number: 0, closed }
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

    /// Counts a session of this title, if it began here.
    pub(crate) fn count(&mut self, title: &str, session: &Session) {
        if !session.beginning.was_seen() {
            return;
        }
        let group = session.group;
        let network = group.map(|group| group.network()).unwrap_or_default();
        let player = group.map_or("", |group| group.player()).to_owned();
        for (by, name) in [
            (Dimension::All, String::new()),
            (Dimension::Network, network),
            (Dimension::Player, player),
            (Dimension::Title, title.to_owned()),
        ] {
            self.cell(by, name).sums.record(session);
        }
    }

    fn cell(&mut self, by: Dimension, name: String) -> &mut Waiting {
        // Four places are left for the groups without a name.
        let has_room = self.waiting.len() < CELLS_MAX - 4;
        let key = (by, name);
        let key = match has_room || self.waiting.contains_key(&key) {
            true => key,
            false => (by, String::new()),
        };
        self.waiting.entry(key).or_default()
    }

    /// Closes a report at `now_ms` if it is time for one, and there is anything to report.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        let took_ms = now_ms.saturating_sub(self.began_ms);
        if took_ms < self.report_ms {
            return;
        }
        self.began_ms = now_ms;
        let mut cells = Vec::new();
        let mut late = Vec::new();
        self.waiting.retain(|(by, name), cell| {
            if cell.sums.sessions >= CELL_SESSIONS_MIN {
                let (by, sums) = (by.as_str().to_owned(), std::mem::take(&mut cell.sums));
                cells.push(SumsCell { by, name: name.clone(), sums });
                return false;
            }
            cell.waits += 1;
            let is_late = cell.waits >= WAITS_MAX && !name.is_empty();
            if is_late {
                late.push((*by, std::mem::take(&mut cell.sums)));
            }
            !is_late
        });
        for (by, sums) in late {
            self.waiting.entry((by, String::new())).or_default().sums.add(&sums);
        }
        if cells.is_empty() {
            return;
        }
        self.number += 1;
        if self.closed.len() == REPORTS_KEPT {
            self.closed.pop_front();
        }
        let number = self.number;
        self.closed.push_back(Arc::new(ClosedTally { number, took_ms, closed_ms: now_ms, cells }));
    }

    /// The reports that are kept and newer than `number`.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Arc<ClosedTally>> {
        self.closed.iter().filter(move |closed| closed.number > number)
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
