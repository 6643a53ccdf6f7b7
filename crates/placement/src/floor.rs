//! What is held whatever is watched: pins, and N copies in N failure domains.

use std::cmp::Reverse;

use steering::TitleOrder;

use crate::ground::{Ground, LEVELS};
use crate::input::{PinScope, PlacementInput};
use crate::plan::Why;
use crate::shelves::Shelves;

/// Pins: keeps the copies that are there, then brings what is missing. Returns copies that found no room.
pub(crate) fn pins(input: &PlacementInput, ground: &Ground, shelves: &mut Shelves<'_>) -> u64 {
    let pinned = || (0u32..).zip(&input.titles).filter(|(_, title)| !title.pins.is_empty());
    let mut missing = Vec::new();
    for (title, facts) in pinned() {
        let order = TitleOrder::new(&facts.path);
        for site in 0..ground.sites() {
            let is_meant = |scope: &PinScope| match scope {
                PinScope::Everywhere => true,
                PinScope::Region(name) => {
                    ground.region(name) == Some(ground.region_of[site] as usize)
                }
                PinScope::Site(name) => ground.site_names[site] == *name,
            };
            let copies = facts.pins.iter().filter(|pin| is_meant(&pin.scope));
            let Some(copies) = copies.map(|pin| pin.copies).max() else { continue };
            let mut holders: Vec<usize> = shelves.holders_at(site, title).collect();
            sort_by_order(ground, order, &mut holders);
            holders.truncate(copies.into());
            holders.iter().for_each(|node| shelves.keep(*node, title));
            missing.extend((holders.len()..copies.into()).map(|_| (title, site, order)));
        }
    }
    let mut unmet = 0;
    for (title, site, order) in missing {
        let mut nodes: Vec<usize> = ground.nodes_of(site).collect();
        sort_by_order(ground, order, &mut nodes);
        let mut nodes = nodes.into_iter();
        unmet += u64::from(!nodes.any(|node| shelves.bring_and_keep(node, title, Why::Pin)));
    }
    unmet
}

/// Nodes for one title: those that steering will prefer come first.
pub(crate) fn sort_by_order(ground: &Ground, order: TitleOrder, nodes: &mut [usize]) {
    nodes.sort_by_cached_key(|node| (cost(ground, order, *node), *node));
}

/// The bits of a float that is neither negative nor NaN sort like the float.
fn cost(ground: &Ground, order: TitleOrder, node: usize) -> u64 {
    order.cost(ground.spots[node].hashed).to_bits()
}

/// The floor: for each title, copies as far apart as there are places. First the copies that are there are kept, of all titles; then what is missing
/// is brought. Returns copies that found no room.
pub(crate) fn floors(input: &PlacementInput, ground: &Ground, shelves: &mut Shelves<'_>) -> u64 {
    let wanted = usize::from(input.policy.floor_copies);
    let mut short = Vec::new();
    for (title, facts) in (0u32..).zip(&input.titles) {
        let order = TitleOrder::new(&facts.path);
        let mut holders: Vec<usize> =
            (0..ground.sites()).flat_map(|site| shelves.holders_at(site, title)).collect();
        // Pinned copies first: they are kept anyway.
        holders.sort_by_cached_key(|node| {
            (!shelves.is_kept(*node, title), cost(ground, order, *node), *node)
        });
        let chosen = far_apart(ground, Vec::new(), wanted, |taken, is_apart| {
            holders.iter().copied().find(|node| !taken.contains(node) && is_apart(*node))
        });
        chosen.iter().for_each(|node| shelves.keep(*node, title));
        if domains(ground, &chosen) < wanted {
            short.push((title, order, chosen));
        }
    }
    let sites = SiteOrder::new(input, ground);
    let mut unmet = 0;
    for (title, order, kept) in short {
        unmet += wanted.saturating_sub(raise(ground, shelves, &sites, title, order, kept, wanted))
            as u64;
    }
    unmet
}

fn domains(ground: &Ground, nodes: &[usize]) -> usize {
    let mut domains: Vec<u32> = nodes.iter().map(|node| ground.spots[*node].domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains.len()
}

/// Takes nodes until `wanted` are there: from other sites while there are any, then from other clusters, racks, and machines.
fn far_apart(
    ground: &Ground,
    mut taken: Vec<usize>,
    wanted: usize,
    mut next: impl FnMut(&[usize], &dyn Fn(usize) -> bool) -> Option<usize>,
) -> Vec<usize> {
    for is_apart in LEVELS {
        while taken.len() < wanted {
            let fits = |node: usize| {
                let spot = &ground.spots[node];
                taken.iter().all(|other| is_apart(spot, &ground.spots[*other]))
            };
            let Some(node) = next(&taken, &fits) else { break };
            taken.push(node);
        }
    }
    taken
}

/// Brings a title to more failure domains. Returns how many copies count for its floor in the end: those in different domains, and then machines.
fn raise(
    ground: &Ground,
    shelves: &mut Shelves<'_>,
    sites: &SiteOrder,
    title: u32,
    order: TitleOrder,
    kept: Vec<usize>,
    wanted: usize,
) -> usize {
    // Copies that share a domain with another are replaced if there are other domains.
    let mut alone: Vec<usize> = Vec::new();
    for node in &kept {
        let is_new = |other: &usize| ground.spots[*other].domain != ground.spots[*node].domain;
        if alone.iter().all(is_new) {
            alone.push(*node);
        }
    }
    let visit = sites.of(order);
    let mut listed: Vec<Vec<usize>> = Vec::new();
    let mut tried = Vec::new();
    let taken = far_apart(ground, alone, wanted, |taken, is_apart| {
        for at in 0..visit.len() {
            if listed.len() <= at {
                let mut nodes: Vec<usize> = ground.nodes_of(visit[at]).collect();
                let kind = |node: usize| Reverse(sites.tail_permille[node]);
                nodes.sort_by_cached_key(|node| (kind(*node), cost(ground, order, *node), *node));
                listed.push(nodes);
            }
            for node in &listed[at] {
                let node = *node;
                if taken.contains(&node) || tried.contains(&node) || !is_apart(node) {
                    continue;
                }
                if shelves.holds(node, title) {
                    shelves.keep(node, title);
                    return Some(node);
                }
                if shelves.bring_and_keep(node, title, Why::Floor) {
                    return Some(node);
                }
                tried.push(node);
            }
        }
        None
    });
    taken.len()
}

/// In which order sites are asked for a floor's copies: spread over the fleet by their room, so that no site fills up with what nobody watches.
struct SiteOrder {
    sites: Vec<steering::HashedNode>,
    tail_permille: Vec<u16>,
}

impl SiteOrder {
    fn new(input: &PlacementInput, ground: &Ground) -> Self {
        let cut_offs = input.policy.cut_offs;
        let tail_permille: Vec<u16> =
            input.nodes.iter().map(|node| cut_offs.of(node.kind)).collect();
        let room = |site: usize| {
            let of = |node: usize| {
                u128::from(input.nodes[node].room_bytes) * u128::from(tail_permille[node])
            };
            let room: u128 = ground.nodes_of(site).map(of).sum();
            (room / 1000).min(u64::MAX.into()) as u64
        };
        let hashed =
            |site: usize| steering::HashedNode::new(ground.site_names[site].as_str(), room(site));
        Self { sites: (0..ground.sites()).map(hashed).collect(), tail_permille }
    }

    /// The first few by their order, which is nearly always enough, then all others, from a place that differs from title to title: sorting a
    /// thousand sites for each title would take longer than all the rest of a plan.
    fn of(&self, order: TitleOrder) -> Vec<usize> {
        const SORTED: usize = 32;
        let cost = |site: usize| (order.cost(self.sites[site]).to_bits(), site);
        let mut costs: Vec<(u64, usize)> = (0..self.sites.len()).map(cost).collect();
        if costs.len() > SORTED {
            costs.select_nth_unstable(SORTED - 1);
        }
        let first = &mut costs[..SORTED.min(self.sites.len())];
        first.sort_unstable();
        let mut sites: Vec<usize> = first.iter().map(|(_, site)| *site).collect();
        let from = sites.first().copied().unwrap_or(0);
        let others = (from..self.sites.len()).chain(0..from);
        let others: Vec<usize> = others.filter(|site| !sites.contains(site)).collect();
        sites.extend(others);
        sites
    }
}
