//! Copies for what viewers are expected to watch, the most wanted for its bytes first, over all sites at once: so a bound on churn is spent where
//! it is worth most.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use steering::TitleOrder;

use crate::floor::sort_by_order;
use crate::forecast::Forecast;
use crate::ground::Ground;
use crate::input::PlacementInput;
use crate::shelves::Shelves;

/// Most copies at a site for demand: a viewer follows one of eight orders of a title, so a ninth copy would serve nobody.
const COPIES_MAX: u16 = 8;

/// So many titles in a row may find no room at a site before it counts as full. What comes later is wanted less, but may be smaller.
const MISSES_MAX: u16 = 32;

/// The next title that could become the n-th copy at a site.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    score: u64,
    /// Ties go to the first site and the first copy.
    site: Reverse<u32>,
    copy: Reverse<u16>,
    /// In the site's order.
    at: u32,
    misses: u16,
}

pub(crate) fn place(
    input: &PlacementInput,
    ground: &Ground,
    forecast: &Forecast,
    shelves: &mut Shelves<'_>,
) {
    let demand = Wanted { input, ground, forecast };
    let smallest = input.titles.iter().map(|title| title.bytes.max(1)).min().unwrap_or(0);
    let mut queue = BinaryHeap::new();
    for site in 0..ground.sites() {
        for copy in 1..=COPIES_MAX.min(ground.nodes_of(site).len() as u16) {
            queue.extend(demand.candidate(shelves, site, copy, 0, 0));
        }
    }
    while let Some(Candidate { site, copy, at, misses, .. }) = queue.pop() {
        if shelves.churn_left() < u128::from(smallest) {
            break;
        }
        let (site, copy) = (site.0 as usize, copy.0);
        let misses = if demand.bring(shelves, site, copy, at) { 0 } else { misses + 1 };
        if misses < MISSES_MAX {
            queue.extend(demand.candidate(shelves, site, copy, at + 1, misses));
        }
    }
}

struct Wanted<'w> {
    input: &'w PlacementInput,
    ground: &'w Ground,
    forecast: &'w Forecast,
}

impl Wanted<'_> {
    /// The first title from `at` on that has one copy too few and is worth it.
    fn candidate(
        &self,
        shelves: &Shelves<'_>,
        site: usize,
        copy: u16,
        at: u32,
        misses: u16,
    ) -> Option<Candidate> {
        let order = self.forecast.order(self.ground, site);
        let lacks = |title: u32| shelves.copies_at(site, title) == copy - 1;
        let at = (at as usize..order.len()).find(|at| lacks(order[*at]))?;
        let title = order[at];
        let worth = self.forecast.worth(self.ground, site, title, copy);
        if !self.is_worth(worth, title) {
            return None;
        }
        let score = self.forecast.score(self.ground, site, title, copy);
        let (site, copy) = (Reverse(site as u32), Reverse(copy));
        Some(Candidate { score, site, copy, at: at as u32, misses })
    }

    fn is_worth(&self, worth: u64, title: u32) -> bool {
        let wanted =
            u128::from(self.forecast.size(title)) * u128::from(self.input.policy.worth_permille);
        worth > 0 && u128::from(worth) * 1000 >= wanted
    }

    fn bring(&self, shelves: &mut Shelves<'_>, site: usize, copy: u16, at: u32) -> bool {
        let order = self.forecast.order(self.ground, site);
        let title = order[at as usize];
        if shelves.copies_at(site, title) != copy - 1 {
            // Another copy came or went meanwhile.
            return true;
        }
        let worth = self.forecast.worth(self.ground, site, title, copy);
        let policy = &self.input.policy;
        let lost_max = u128::from(worth) * 1000 / u128::from(policy.margin_permille.max(1000));
        let rank_permille = u64::from(at) * 1000 / self.input.titles.len() as u64;
        let takes = |node: &usize| {
            rank_permille < u64::from(policy.cut_offs.of(self.ground.spots[*node].kind))
        };
        let mut nodes: Vec<usize> = self.ground.nodes_of(site).filter(takes).collect();
        let path = &self.input.titles[title as usize].path;
        sort_by_order(self.ground, TitleOrder::new(path), &mut nodes);
        nodes.into_iter().any(|node| shelves.bring_for(node, title, lost_max as u64))
    }
}
