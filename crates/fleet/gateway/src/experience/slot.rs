//! The sums of one stretch of time.

use std::collections::BTreeMap;

use fleet_protocol::Name;
use qoe::{Dimension, SessionSums};
use serde::{Deserialize, Serialize};

/// The most buckets of a slot's sums: some 8 MB. With more, the groups with the fewest sessions lose their names.
pub(crate) const BUCKETS_MAX: usize = 1_000_000;

/// What groups are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GroupedBy {
    All,
    Network,
    Node,
    Player,
    Title,
}

impl From<Dimension> for GroupedBy {
    fn from(by: Dimension) -> Self {
        match by {
            Dimension::All => Self::All,
            Dimension::Network => Self::Network,
            Dimension::Player => Self::Player,
            Dimension::Title => Self::Title,
        }
    }
}

/// A group of sessions at one site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CellKey {
    pub(super) by: GroupedBy,
    pub(super) site: Name,
    /// Empty for all sessions, and for those in no group with a name.
    pub(super) name: String,
}

impl CellKey {
    pub(super) fn new(site: &Name, by: GroupedBy, name: &str) -> Self {
        Self { by, site: site.clone(), name: name.to_owned() }
    }
}

/// The groups of a stretch of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "KeptSlot", into = "KeptSlot")]
pub(super) struct Slot {
    /// When it begins, since 1970.
    pub(super) start: u64,
    pub(super) cells: BTreeMap<CellKey, SessionSums>,
    buckets: usize,
}

/// A slot as it is saved: JSON has no maps with such keys.
#[derive(Serialize, Deserialize)]
struct KeptSlot {
    start: u64,
    cells: Vec<(CellKey, SessionSums)>,
}

impl From<KeptSlot> for Slot {
    fn from(kept: KeptSlot) -> Self {
        let cells: BTreeMap<_, _> = kept.cells.into_iter().collect();
        let buckets = cells.values().map(SessionSums::buckets).sum();
        Self { start: kept.start, cells, buckets }
    }
}

impl From<Slot> for KeptSlot {
    fn from(slot: Slot) -> Self {
        Self { start: slot.start, cells: slot.cells.into_iter().collect() }
    }
}

impl Slot {
    pub(super) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Adds to a group. Returns how many groups lost their names.
    pub(super) fn add(&mut self, key: &CellKey, sums: &SessionSums) -> u64 {
        self.add_within(key, sums, BUCKETS_MAX)
    }

    pub(super) fn add_within(
        &mut self,
        key: &CellKey,
        sums: &SessionSums,
        buckets_max: usize,
    ) -> u64 {
        self.add_to(key, sums);
        if self.buckets <= buckets_max { 0 } else { self.shrink(buckets_max / 4 * 3) }
    }

    fn add_to(&mut self, key: &CellKey, sums: &SessionSums) {
        let cell = match self.cells.get_mut(key) {
            Some(cell) => cell,
            None => self.cells.entry(key.clone()).or_default(),
        };
        self.buckets -= if cell.sessions == 0 { 0 } else { cell.buckets() };
        cell.add(sums);
        self.buckets += cell.buckets();
    }

    /// Joins the groups with the fewest sessions with those that have no name, until the slot is small enough.
    fn shrink(&mut self, buckets_max: usize) -> u64 {
        let named = self.cells.iter().filter(|(key, _)| !key.name.is_empty());
        let mut least: Vec<_> = named.map(|(key, sums)| (sums.sessions, key.clone())).collect();
        least.sort_unstable();
        let mut joined = 0;
        for (_, key) in least {
            if self.buckets <= buckets_max {
                break;
            }
            let Some(sums) = self.cells.remove(&key) else { continue };
            self.buckets -= sums.buckets();
            self.add_to(&CellKey { name: String::new(), ..key }, &sums);
            joined += 1;
        }
        joined
    }

    /// Whether another gateway's file may have it.
    pub(super) fn is_sound(&self) -> bool {
        self.buckets <= 2 * BUCKETS_MAX && self.cells.values().all(SessionSums::is_sound)
    }
}
