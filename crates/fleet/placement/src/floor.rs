//! Copies that do not depend on demand: pins, and N copies in N failure domains.

use std::cmp::Reverse;

use steering::TitleOrder;

use crate::copy_table::CopyTable;
use crate::input::{PinScope, PlacementInput};
use crate::plan::Why;
use crate::topology::{FleetTopology, LEVELS};

/// Places pins: keeps existing copies, then adds missing ones. Returns the number of copies that found no room.
pub(crate) fn pins(
    input: &PlacementInput,
    topology: &FleetTopology,
    copy_table: &mut CopyTable<'_>,
) -> u64 {
    let pinned = || (0u32..).zip(&input.titles).filter(|(_, title)| !title.pins.is_empty());
    let mut missing = Vec::new();
    for (title, facts) in pinned() {
        let order = TitleOrder::new(&facts.path);
        for site in 0..topology.sites() {
            let is_meant = |scope: &PinScope| match scope {
                PinScope::Everywhere => true,
                PinScope::Region(name) => {
                    topology.region(name) == Some(topology.region_of[site] as usize)
                }
                PinScope::Site(name) => topology.site_names[site] == *name,
            };
            let copies = facts.pins.iter().filter(|pin| is_meant(&pin.scope));
            let Some(copies) = copies.map(|pin| pin.copies).max() else { continue };
            let mut holders: Vec<usize> = copy_table.holders_at(site, title).collect();
            sort_by_order(topology, order, &mut holders);
            holders.truncate(copies.into());
            holders.iter().for_each(|node| copy_table.keep_pinned(*node, title));
            missing.extend((holders.len()..copies.into()).map(|_| (title, site, order)));
        }
    }
    let mut unmet = 0;
    for (title, site, order) in missing {
        let mut nodes: Vec<usize> = topology.nodes_of(site).collect();
        sort_by_order(topology, order, &mut nodes);
        let mut nodes = nodes.into_iter();
        unmet += u64::from(!nodes.any(|node| copy_table.bring_and_keep(node, title, Why::Pin)));
    }
    unmet
}

/// Sorts nodes for one title: those that steering will prefer come first.
fn sort_by_order(topology: &FleetTopology, order: TitleOrder, nodes: &mut [usize]) {
    nodes.sort_by_cached_key(|node| (cost(topology, order, *node), *node));
}

/// The bits of a float that is neither negative nor NaN sort like the float.
pub(crate) fn cost(topology: &FleetTopology, order: TitleOrder, node: usize) -> u64 {
    order.cost(topology.spots[node].hashed).to_bits()
}

/// Places the floor: for each title, copies as far apart as possible. It goes by rounds, the first copy of all titles before the second of
/// any: so new titles find room in a fleet that is full of others' third copies. Each round first keeps existing copies, for all titles,
/// and then adds the missing ones. Returns the number of copies that found no room.
pub(crate) fn floors(
    input: &PlacementInput,
    topology: &FleetTopology,
    copy_table: &mut CopyTable<'_>,
) -> u64 {
    let wanted = usize::from(input.policy.floor_copies);
    let sites = SiteOrder::new(input, topology);
    let mut open = footings(input, topology, copy_table, wanted);
    let mut unmet = 0;
    for copy in 0..wanted {
        let mut short = Vec::new();
        for (at, footing) in open.iter_mut().enumerate() {
            if !footing.keep_one(topology, copy_table) {
                short.push(at);
            }
        }
        for at in short {
            open[at].bring_one(topology, copy_table, &sites);
        }
        let before = open.len();
        open.retain(|footing| footing.taken.len() > copy);
        unmet += (before - open.len()) * (wanted - copy);
        if open.is_empty() {
            break;
        }
    }
    unmet as u64
}

/// Titles are looked up at a site in blocks of this size, because they are adjacent there.
const BLOCK: u32 = 64;

fn footings(
    input: &PlacementInput,
    topology: &FleetTopology,
    copy_table: &CopyTable<'_>,
    wanted: usize,
) -> Vec<Footing> {
    let titles = input.titles.len() as u32;
    let mut footings = Vec::with_capacity(titles as usize);
    let mut holders = vec![Vec::new(); BLOCK as usize];
    for from in (0..titles).step_by(BLOCK as usize) {
        let block = from..titles.min(from + BLOCK);
        holders.iter_mut().for_each(Vec::clear);
        for site in 0..topology.sites() {
            for (title, holders) in block.clone().zip(&mut holders) {
                holders.extend(copy_table.holders_at(site, title));
            }
        }
        for (title, holders) in block.zip(&holders) {
            let path = &input.titles[title as usize].path;
            footings.push(Footing::new(topology, copy_table, title, path, (holders, wanted)));
        }
    }
    footings
}

/// The progress of one title's floor.
struct Footing {
    title: u32,
    order: TitleOrder,
    /// Existing copies, as many as the floor needs, chosen as far apart as possible.
    held: Vec<usize>,
    /// Copies that count for the floor. They are kept.
    taken: Vec<usize>,
    /// The sites to try first. Computed when the first copy is missing.
    visit: Vec<u32>,
    /// How far apart the next copy has to be: an index into [`LEVELS`]. Earlier levels have no room left.
    level: usize,
}

impl Footing {
    fn new(
        topology: &FleetTopology,
        copy_table: &CopyTable<'_>,
        title: u32,
        path: &str,
        (holders, wanted): (&[usize], usize),
    ) -> Self {
        let order = TitleOrder::new(path);
        // Prefer pinned copies: they are kept anyway.
        let key =
            |node: usize| (!copy_table.is_kept(node, title), cost(topology, order, node), node);
        let mut holders: Vec<_> = holders.iter().map(|node| key(*node)).collect();
        let held = first_far_apart(topology, &mut holders, wanted);
        Self { title, order, held, taken: Vec::new(), visit: Vec::new(), level: 0 }
    }

    fn is_apart(&self, topology: &FleetTopology, node: usize) -> bool {
        let spot = &topology.spots[node];
        let is_apart = |other: &usize| LEVELS[self.level](spot, &topology.spots[*other]);
        !self.taken.contains(&node) && self.taken.iter().all(is_apart)
    }

    /// Keeps an existing copy. Returns false if none is far enough from the others, while there are places that far apart.
    fn keep_one(&mut self, topology: &FleetTopology, copy_table: &mut CopyTable<'_>) -> bool {
        // Copies that are apart at one level are also apart at all later ones.
        while self.level < LEVELS.len() && self.taken.len() >= topology.places[self.level] {
            self.level += 1;
        }
        if self.level == LEVELS.len() {
            return false;
        }
        let fits =
            |node: &&usize| copy_table.holds(**node, self.title) && self.is_apart(topology, **node);
        let Some(node) = self.held.iter().find(fits).copied() else { return false };
        copy_table.keep(node, self.title);
        self.taken.push(node);
        true
    }

    /// Adds a copy, or keeps one, as far from the others as there is room.
    fn bring_one(
        &mut self,
        topology: &FleetTopology,
        copy_table: &mut CopyTable<'_>,
        sites: &SiteOrder,
    ) {
        if self.visit.is_empty() {
            self.visit = sites.first(self.order);
        }
        let mut listed: Vec<Vec<usize>> = Vec::new();
        while !self.keep_one(topology, copy_table) && self.level < LEVELS.len() {
            let first = self.visit.iter().copied();
            for (at, site) in first.chain(sites.others(&self.visit)).enumerate() {
                if listed.len() <= at {
                    listed.push(sites.nodes(topology, site as usize, self.order));
                }
                let mut nodes = listed[at].iter().copied();
                let takes = |node: &usize| {
                    self.is_apart(topology, *node)
                        && (copy_table.holds(*node, self.title)
                            || copy_table.bring_and_keep(*node, self.title, Why::Floor))
                };
                if let Some(node) = nodes.find(takes) {
                    copy_table.keep(node, self.title);
                    self.taken.push(node);
                    return;
                }
            }
            self.level += 1;
        }
    }
}

/// Equivalent to [`far_apart`] over all of `holders` in order, but usually decided by the first few: for a title that is everywhere,
/// sorting all of them would take longer than the rest of the floor.
fn first_far_apart(
    topology: &FleetTopology,
    holders: &mut [(bool, u64, usize)],
    wanted: usize,
) -> Vec<usize> {
    const FEW: usize = 16;
    let nodes = |holders: &mut [(bool, u64, usize)]| {
        holders.sort_unstable();
        let nodes: Vec<usize> = holders.iter().map(|(.., node)| *node).collect();
        far_apart(topology, &nodes, wanted)
    };
    if holders.len() > FEW {
        holders.select_nth_unstable(FEW - 1);
        let taken = nodes(&mut holders[..FEW]);
        let site = |node: &usize| topology.spots[*node].site;
        let is_new =
            |(at, node): (usize, &usize)| taken[..at].iter().all(|o| site(o) != site(node));
        // Later ones cannot come before these.
        if taken.len() == wanted && taken.iter().enumerate().all(is_new) {
            return taken;
        }
    }
    nodes(holders)
}

/// Picks up to `wanted` of `nodes`: from other sites as long as there are any, then from other clusters, racks, and machines.
fn far_apart(topology: &FleetTopology, nodes: &[usize], wanted: usize) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    for is_apart in LEVELS {
        for node in nodes {
            let spot = &topology.spots[*node];
            let fits = |other: &usize| other != node && is_apart(spot, &topology.spots[*other]);
            if taken.len() < wanted && taken.iter().all(fits) {
                taken.push(*node);
            }
        }
    }
    taken
}

/// The order in which sites are tried for a floor's copies: spread over the fleet by their room, so that no site fills up with unwatched
/// titles.
struct SiteOrder {
    sites: Vec<steering::HashedNode>,
    tail_permille: Vec<u16>,
}

impl SiteOrder {
    fn new(input: &PlacementInput, topology: &FleetTopology) -> Self {
        let cut_offs = input.policy.cut_offs;
        let tail_permille: Vec<u16> =
            input.nodes.iter().map(|node| cut_offs.of(node.kind)).collect();
        let room = |site: usize| {
            let of = |node: usize| {
                u128::from(input.nodes[node].room_bytes) * u128::from(tail_permille[node])
            };
            let room: u128 = topology.nodes_of(site).map(of).sum();
            (room / 1000).min(u64::MAX.into()) as u64
        };
        let hashed =
            |site: usize| steering::HashedNode::new(topology.site_names[site].as_str(), room(site));
        Self { sites: (0..topology.sites()).map(hashed).collect(), tail_permille }
    }

    /// The nodes of a site, those built for rarely watched titles first.
    fn nodes(&self, topology: &FleetTopology, site: usize, order: TitleOrder) -> Vec<usize> {
        let mut nodes: Vec<usize> = topology.nodes_of(site).collect();
        let kind = |node: usize| Reverse(self.tail_permille[node]);
        nodes.sort_by_cached_key(|node| (kind(*node), cost(topology, order, *node), *node));
        nodes
    }

    /// The first few sites in a title's order, which nearly always suffice: sorting a thousand sites for each title would take longer than
    /// the rest of the plan.
    fn first(&self, order: TitleOrder) -> Vec<u32> {
        const SORTED: usize = 32;
        let cost = |site: u32| (order.cost(self.sites[site as usize]).to_bits(), site);
        let mut costs: Vec<(u64, u32)> = (0..self.sites.len() as u32).map(cost).collect();
        if costs.len() > SORTED {
            costs.select_nth_unstable(SORTED - 1);
            costs.truncate(SORTED);
        }
        costs.sort_unstable();
        costs.into_iter().map(|(_, site)| site).collect()
    }

    /// All other sites, starting at a point that differs from title to title.
    fn others<'o>(&self, first: &'o [u32]) -> impl Iterator<Item = u32> + use<'o> {
        let (from, end) = (first.first().copied().unwrap_or(0), self.sites.len() as u32);
        (from..end).chain(0..from).filter(move |site| !first.contains(site))
    }
}
