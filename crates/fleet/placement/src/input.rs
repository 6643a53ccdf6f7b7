//! The input of a plan.

use fleet_protocol::{Name, NodeKind, NodePlace};
use serde::{Deserialize, Serialize};

/// The whole input. Lists may be in any order.
#[derive(Clone, Debug, Default)]
pub struct PlacementInput {
    /// The catalog. Other lists refer to titles by their index here.
    pub titles: Vec<PlacementTitle>,
    /// Nodes that may hold titles; leave out lost, revoked and drained ones.
    pub nodes: Vec<PlacementNode>,
    /// The expected views in a day, by region.
    pub demand: Vec<RegionDemand>,
    /// Limits and weights.
    pub policy: PlacementPolicy,
}

/// A title.
#[derive(Clone, Debug)]
pub struct PlacementTitle {
    /// Its path.
    pub path: String,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Where it must be, regardless of demand.
    pub pins: Vec<Pin>,
}

/// A number of copies at each site of a scope.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The sites.
    pub scope: PinScope,
    /// Copies at each of them.
    pub copies: u16,
}

/// The sites that a pin applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinScope {
    /// All sites.
    Everywhere,
    /// The sites of a region.
    Region(Name),
    /// One site.
    Site(Name),
}

/// A node.
#[derive(Clone, Debug)]
pub struct PlacementNode {
    /// Its name.
    pub name: Name,
    /// Its failure domains.
    pub place: NodePlace,
    /// The region of its site.
    pub region: Name,
    /// The kind of its hardware.
    pub kind: NodeKind,
    /// Its room for titles, in bytes.
    pub room_bytes: u64,
    /// Its weight relative to other nodes of its site, as in steering; 0 for the usual weight.
    pub ceiling_bits_per_second: u64,
    /// The most bytes that it may fetch in one window.
    pub fill_bytes_max: Option<u64>,
    /// Yesterday's manifest: titles that it holds, or is assigned.
    pub holds: Vec<u32>,
}

/// The expected views of a region in a day.
#[derive(Clone, Debug)]
pub struct RegionDemand {
    /// The region.
    pub region: Name,
    /// By title; titles without an entry have no views.
    pub titles: Vec<TitleDemand>,
}

/// The expected views of a title in a region in a day.
#[derive(Clone, Copy, Debug)]
pub struct TitleDemand {
    /// Its index in the catalog.
    pub title: u32,
    /// The number of starts.
    pub starts: u64,
    /// Bytes sent of it.
    pub bytes: u64,
}

/// Limits and weights of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementPolicy {
    /// Copies of each title in the fleet, in as many failure domains: three, because a viewer gets three nodes.
    pub floor_copies: u16,
    /// The titles that each kind of node takes because of demand.
    pub cut_offs: CutOffs,
    /// The most bytes that a plan may move. `None`: as many as are worth moving.
    pub churn_bytes_max: Option<u64>,
    /// A move because of demand must be expected to serve at least this many thousandths of its bytes in a day.
    pub worth_permille: u32,
    /// Its value must be at least this many thousandths of the value that it displaces. Above 1000, so that two titles of similar demand do
    /// not alternate.
    pub margin_permille: u32,
    /// The value of a further copy at a site relative to the first, in thousandths, divided by n for the n-th copy. The first copy saves a
    /// trip to another site, the others only spread load.
    pub further_permille: u32,
    /// Titles with fewer starts than this in a region are pooled: the starts are too few to be more than chance, and too few to hide a
    /// viewer.
    pub starts_min: u64,
}

/// The most wanted titles of a region that each kind of node takes because of demand, in thousandths of the catalog. Pins and floors go to
/// any kind, to storage first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutOffs {
    /// For storage.
    pub storage_permille: u16,
    /// For flash.
    pub flash_permille: u16,
    /// For global.
    pub global_permille: u16,
}

impl CutOffs {
    pub(crate) fn of(&self, kind: NodeKind) -> u16 {
        match kind {
            NodeKind::Storage => self.storage_permille,
            NodeKind::Flash => self.flash_permille,
            NodeKind::Global => self.global_permille,
        }
    }
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self {
            floor_copies: 3,
            cut_offs: CutOffs {
                storage_permille: 1000,
                flash_permille: 200,
                global_permille: 1000,
            },
            churn_bytes_max: None,
            worth_permille: 10,
            margin_permille: 1250,
            further_permille: 125,
            starts_min: 10,
        }
    }
}

/// Why a plan is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Two nodes have this name.
    #[error("two nodes are called {0}: revoke one")]
    NodeTwice(Name),
    /// Two titles have this path.
    #[error("the title {0} is listed twice: list it once")]
    TitleTwice(String),
    /// Nodes of this site name different regions.
    #[error("nodes of the site {0} name different regions: give the site one")]
    TwoRegions(Name),
    /// A list refers to a title that the catalog does not have.
    #[error("title number {0} is not in the catalog: list what is published")]
    NoSuchTitle(u32),
}

impl PlacementInput {
    /// Sorts and checks every list, and removes duplicates, so that plans do not depend on the order of the input.
    pub(crate) fn settle(mut self) -> Result<Self, PlacementError> {
        let count = self.titles.len() as u32;
        let mut order: Vec<u32> = (0..count).collect();
        let titles = &self.titles;
        order.sort_by(|one, two| titles[*one as usize].path.cmp(&titles[*two as usize].path));
        let path = |at: u32| &titles[at as usize].path;
        if let Some(pair) = order.windows(2).find(|pair| path(pair[0]) == path(pair[1])) {
            return Err(PlacementError::TitleTwice(path(pair[0]).clone()));
        }
        let mut place = vec![0; titles.len()];
        for (new, old) in (0..).zip(&order) {
            place[*old as usize] = new;
        }
        let renumber = |title: u32| {
            place.get(title as usize).copied().ok_or(PlacementError::NoSuchTitle(title))
        };
        for node in &mut self.nodes {
            node.holds.iter_mut().try_for_each(|t| renumber(*t).map(|new| *t = new))?;
            node.holds.sort_unstable();
            node.holds.dedup();
        }
        for demand in self.demand.iter_mut().flat_map(|region| &mut region.titles) {
            demand.title = renumber(demand.title)?;
        }
        self.titles.sort_by(|one, two| one.path.cmp(&two.path));
        self.settle_nodes()?;
        Ok(self)
    }

    fn settle_nodes(&mut self) -> Result<(), PlacementError> {
        let mut names: Vec<&Name> = self.nodes.iter().map(|node| &node.name).collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PlacementError::NodeTwice(pair[0].clone()));
        }
        self.nodes
            .sort_by(|one, two| (&one.place.site, &one.name).cmp(&(&two.place.site, &two.name)));
        let differ = |pair: &&[PlacementNode]| {
            pair[0].place.site == pair[1].place.site && pair[0].region != pair[1].region
        };
        let site = self.nodes.windows(2).find(differ).map(|pair| pair[0].place.site.clone());
        site.map_or(Ok(()), |site| Err(PlacementError::TwoRegions(site)))
    }
}
