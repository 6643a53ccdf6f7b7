//! The sums of one stretch of time.
//!
//! # Invariants
//! - A slot takes at most [`BUCKETS_MAX`] buckets, or the some 150 for each site that a site's smallest form takes.
//! - A slot that is full takes room from the site with the most: in a fleet where nodes lie, from theirs. First, groups with few sessions lose their
//!   names, then distributions become coarser, then only counts are left. No session is lost.

use std::collections::BTreeMap;

use fleet_protocol::Name;
use qoe::{Dimension, SessionSums};
use serde::{Deserialize, Serialize, Serializer};

/// The most buckets of a slot's sums: some 8 MB.
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
    // The site is first, so that a site's groups are together.
    pub(super) site: Name,
    pub(super) by: GroupedBy,
    /// Empty for all sessions, and for those in no group with a name.
    pub(super) name: String,
}

impl CellKey {
    pub(super) fn new(site: &Name, by: GroupedBy, name: &str) -> Self {
        Self { by, site: site.clone(), name: name.to_owned() }
    }
}

/// The groups of a stretch of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// When it begins, since 1970.
    pub(super) start: u64,
    pub(super) cells: BTreeMap<CellKey, SessionSums>,
    buckets: usize,
    /// The part of each site.
    by_site: BTreeMap<Name, usize>,
}

/// A slot as it is read: JSON has no maps with such keys.
#[derive(Deserialize)]
pub(super) struct KeptSlot {
    pub(super) start: u64,
    pub(super) cells: Vec<(CellKey, SessionSums)>,
}

/// The same as it is written.
#[derive(Serialize)]
struct ShownSlot<'s> {
    start: u64,
    cells: Vec<(&'s CellKey, &'s SessionSums)>,
}

impl Serialize for Slot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ShownSlot { start: self.start, cells: self.cells.iter().collect() }.serialize(serializer)
    }
}

/// How much a group takes, in buckets of eight bytes.
fn cost(key: &CellKey, sums: &SessionSums) -> usize {
    sums.buckets() + (key.name.len() + key.site.as_str().len()) / 8
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
        let mut joined = 0;
        while self.buckets > buckets_max {
            let largest = self.by_site.iter().max_by_key(|(_, buckets)| **buckets);
            let Some((site, before)) = largest.map(|(site, buckets)| (site.clone(), *buckets))
            else {
                break;
            };
            // Half of it, so that each search for the largest site is worth its time.
            joined += self.shrink(&site, before / 2);
            if self.by_site[&site] == before {
                break;
            }
        }
        joined
    }

    fn add_to(&mut self, key: &CellKey, sums: &SessionSums) {
        self.change(key, |cell| cell.add(sums));
    }

    /// Changes a group, which may be new.
    fn change(&mut self, key: &CellKey, change: impl FnOnce(&mut SessionSums)) {
        let of_site = match self.by_site.get_mut(&key.site) {
            Some(of_site) => of_site,
            None => self.by_site.entry(key.site.clone()).or_default(),
        };
        let before = self.cells.get(key).map_or(0, |cell| cost(key, cell));
        let cell = match self.cells.get_mut(key) {
            Some(cell) => cell,
            None => self.cells.entry(key.clone()).or_default(),
        };
        change(cell);
        let after = cost(key, cell);
        self.buckets = self.buckets - before + after;
        *of_site = *of_site - before + after;
    }

    fn remove(&mut self, key: &CellKey) -> Option<SessionSums> {
        let sums = self.cells.remove(key)?;
        let cost = cost(key, &sums);
        self.buckets -= cost;
        if let Some(of_site) = self.by_site.get_mut(&key.site) {
            *of_site -= cost;
        }
        Some(sums)
    }

    /// Makes a site's groups smaller, until they take this much or nothing helps. Returns how many lost their names.
    fn shrink(&mut self, site: &Name, buckets_max: usize) -> u64 {
        let mut joined = self.unname(site, buckets_max, |by| by != GroupedBy::Node);
        let keys: Vec<_> = self.of_site(site).map(|(key, _)| key.clone()).rev().collect();
        // The group of all is the first one by its key, and the last one here.
        for change in [SessionSums::coarsen, SessionSums::drop_spreads] {
            for key in &keys {
                if self.by_site[site] > buckets_max {
                    self.change(key, change);
                }
            }
        }
        joined += self.unname(site, buckets_max, |_| true);
        joined
    }

    /// Joins a site's groups with the fewest sessions with those that have no name.
    fn unname(&mut self, site: &Name, buckets_max: usize, of: fn(GroupedBy) -> bool) -> u64 {
        let named = self.of_site(site).filter(|(key, _)| !key.name.is_empty() && of(key.by));
        let mut least: Vec<_> = named.map(|(key, sums)| (sums.sessions, key.clone())).collect();
        least.sort_unstable();
        let mut joined = 0;
        for (_, key) in least {
            if self.by_site[site] <= buckets_max {
                break;
            }
            let Some(sums) = self.remove(&key) else { continue };
            self.add_to(&CellKey { name: String::new(), ..key }, &sums);
            joined += 1;
        }
        joined
    }

    fn of_site(&self, site: &Name) -> impl DoubleEndedIterator<Item = (&CellKey, &SessionSums)> {
        let first = CellKey::new(site, GroupedBy::All, "");
        self.cells
            .range(first..)
            .take_while(move |(key, _)| key.site == *site)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Continues with a saved slot. Returns how many of its groups can't be read, and are left out.
    pub(super) fn restored(kept: KeptSlot) -> (Self, u64) {
        let mut slot = Self::new(kept.start);
        let mut unread = 0;
        for (key, sums) in kept.cells {
            match sums.is_readable() {
                true => drop(slot.add(&key, &sums)),
                false => unread += 1,
            }
        }
        (slot, unread)
    }
}
