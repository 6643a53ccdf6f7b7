//! Places copies for expected views, most wanted per byte first, over all sites together: so a limit on churn is spent where it is worth
//! most.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use steering::TitleOrder;

use crate::copy_table::CopyTable;
use crate::floor::cost;
use crate::forecast::Forecast;
use crate::input::PlacementInput;
use crate::topology::FleetTopology;

/// The most copies at a site for demand: a viewer follows one of eight orders of a title, so a ninth copy would be of no use.
const COPIES_MAX: u16 = 8;

/// A site counts as full after this many titles in a row have found no room. Later ones are wanted less, but may be smaller.
const MISSES_MAX: u16 = 32;

/// The next title that could become the n-th copy at a site.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    score: u64,
    /// Ties go to the first site and the first copy.
    site: Reverse<u32>,
    copy: Reverse<u16>,
    /// Its index in the site's order.
    at: u32,
    misses: u16,
}

/// The outcome for a candidate.
enum Turn {
    Brought,
    /// It is no longer a candidate.
    Passed,
    /// There is no room.
    Missed,
}

pub(crate) fn place(
    input: &PlacementInput,
    topology: &FleetTopology,
    forecast: &Forecast,
    copy_table: &mut CopyTable<'_>,
) {
    let orders = input.titles.iter().map(|title| TitleOrder::new(&title.path)).collect();
    let mut demand = Wanted { input, topology, forecast, orders, nodes: Vec::new() };
    if input.policy.churn_bytes_max.is_some() {
        demand.place(copy_table, 0..topology.sites());
    } else {
        // Without the limit, sites are independent. Planning them one after the other gives the same result, and keeps a site's data in the
        // processor's cache.
        (0..topology.sites()).for_each(|site| demand.place(copy_table, site..site + 1));
    }
}

struct Wanted<'w> {
    input: &'w PlacementInput,
    topology: &'w FleetTopology,
    forecast: &'w Forecast,
    /// By title.
    orders: Vec<TitleOrder>,
    /// The nodes of a site, by their costs: one list, reused for all titles.
    nodes: Vec<(u64, usize)>,
}

impl Wanted<'_> {
    fn place(&mut self, copy_table: &mut CopyTable<'_>, sites: Range<usize>) {
        let smallest = self.input.titles.iter().map(|title| title.bytes.max(1)).min().unwrap_or(0);
        let mut queue = BinaryHeap::new();
        for site in sites {
            for copy in 1..=COPIES_MAX.min(self.topology.nodes_of(site).len() as u16) {
                queue.extend(self.candidate(copy_table, site, copy, 0, 0));
            }
        }
        while let Some(Candidate { site, copy, at, misses, .. }) = queue.pop() {
            if copy_table.churn_left() < u128::from(smallest) {
                break;
            }
            let (site, copy) = (site.0 as usize, copy.0);
            let misses = match self.bring(copy_table, site, copy, at) {
                Turn::Brought => 0,
                Turn::Passed => misses,
                Turn::Missed => misses + 1,
            };
            if misses < MISSES_MAX {
                queue.extend(self.candidate(copy_table, site, copy, at + 1, misses));
            }
        }
    }

    /// Finds the first title from `at` on that has fewer copies, if this one is worth it. Lower copies may still be missing: they are worth
    /// more, so they have had their turn by then.
    fn candidate(
        &self,
        copy_table: &CopyTable<'_>,
        site: usize,
        copy: u16,
        at: u32,
        misses: u16,
    ) -> Option<Candidate> {
        let order = self.forecast.order(self.topology, site);
        let lacks = |title: u32| copy_table.copies_at(site, title) < copy;
        let at = (at as usize..order.len()).find(|at| lacks(order[*at]))?;
        let title = order[at];
        let worth = self.forecast.worth(self.topology, site, title, copy);
        if !self.forecast.is_worth(worth, title, self.input.policy.worth_permille) {
            return None;
        }
        let score = self.forecast.score(self.topology, site, title, copy);
        let (site, copy) = (Reverse(site as u32), Reverse(copy));
        Some(Candidate { score, site, copy, at: at as u32, misses })
    }

    fn bring(&mut self, copy_table: &mut CopyTable<'_>, site: usize, copy: u16, at: u32) -> Turn {
        let title = self.forecast.order(self.topology, site)[at as usize];
        if copy_table.copies_at(site, title) != copy - 1 {
            // The lower copies found no room, or another one was added for a floor.
            return Turn::Passed;
        }
        let worth = self.forecast.worth(self.topology, site, title, copy);
        let policy = &self.input.policy;
        let lost_max = u128::from(worth) * 1000 / u128::from(policy.margin_permille.max(1000));
        let rank_permille = u64::from(at) * 1000 / self.input.titles.len() as u64;
        let takes = |node: &usize| {
            rank_permille < u64::from(policy.cut_offs.of(self.topology.spots[*node].kind))
        };
        let nodes = self.topology.nodes_of(site).filter(takes);
        let order = self.orders[title as usize];
        self.nodes.clear();
        self.nodes.extend(nodes.map(|node| (cost(self.topology, order, node), node)));
        self.nodes.sort_unstable();
        let takes = |(_, node): &(u64, usize)| copy_table.bring_for(*node, title, lost_max as u64);
        if self.nodes.iter().any(takes) { Turn::Brought } else { Turn::Missed }
    }
}
