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

/// The floor: for each title, copies as far apart as there are places. It goes by rounds, the first copy of all titles before the second of any: so
/// what is new finds room in a fleet that is full of others' third copies. In a round the copies that are there are kept, of all titles, and then
/// what is missing is brought. Returns copies that found no room.
pub(crate) fn floors(input: &PlacementInput, ground: &Ground, shelves: &mut Shelves<'_>) -> u64 {
    let wanted = usize::from(input.policy.floor_copies);
    let sites = SiteOrder::new(input, ground);
    let titles = (0u32..).zip(&input.titles);
    let mut open: Vec<Footing> = titles
        .map(|(title, facts)| Footing::new(ground, shelves, title, &facts.path, wanted))
        .collect();
    let mut unmet = 0;
    for copy in 0..wanted {
        let mut short = Vec::new();
        for (at, footing) in open.iter_mut().enumerate() {
            if !footing.keep_one(ground, shelves) {
                short.push(at);
            }
        }
        for at in short {
            open[at].bring_one(ground, shelves, &sites);
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

/// How far a title's floor has come.
struct Footing {
    title: u32,
    order: TitleOrder,
    /// Of the copies that are there, as many as the floor wants and as far apart as they are.
    held: Vec<usize>,
    /// Copies that count for the floor. They are kept.
    taken: Vec<usize>,
    /// How far apart the next copy is to be: a place in [`LEVELS`]. Those before have no room left.
    level: usize,
}

impl Footing {
    fn new(ground: &Ground, shelves: &Shelves<'_>, title: u32, path: &str, wanted: usize) -> Self {
        let order = TitleOrder::new(path);
        let mut holders: Vec<usize> =
            (0..ground.sites()).flat_map(|site| shelves.holders_at(site, title)).collect();
        // Pinned copies first: they are kept anyway.
        holders.sort_by_cached_key(|node| {
            (!shelves.is_kept(*node, title), cost(ground, order, *node), *node)
        });
        let held = far_apart(ground, &holders, wanted);
        Self { title, order, held, taken: Vec::new(), level: 0 }
    }

    fn is_apart(&self, ground: &Ground, node: usize) -> bool {
        let spot = &ground.spots[node];
        let is_apart = |other: &usize| LEVELS[self.level](spot, &ground.spots[*other]);
        !self.taken.contains(&node) && self.taken.iter().all(is_apart)
    }

    /// Keeps a copy that is there. False if none is far enough from the others, as long as there are places so far apart.
    fn keep_one(&mut self, ground: &Ground, shelves: &mut Shelves<'_>) -> bool {
        // Copies that are apart at one level are so at all that follow.
        while self.level < LEVELS.len() && self.taken.len() >= ground.places[self.level] {
            self.level += 1;
        }
        if self.level == LEVELS.len() {
            return false;
        }
        let fits =
            |node: &&usize| shelves.holds(**node, self.title) && self.is_apart(ground, **node);
        let Some(node) = self.held.iter().find(fits).copied() else { return false };
        shelves.keep(node, self.title);
        self.taken.push(node);
        true
    }

    /// Brings a copy, or keeps one, as far from the others as there is room.
    fn bring_one(&mut self, ground: &Ground, shelves: &mut Shelves<'_>, sites: &SiteOrder) {
        let visit = sites.of(self.order);
        let mut listed: Vec<Vec<usize>> = Vec::new();
        while !self.keep_one(ground, shelves) && self.level < LEVELS.len() {
            for at in 0..visit.len() {
                if listed.len() <= at {
                    listed.push(sites.nodes(ground, visit[at], self.order));
                }
                let mut nodes = listed[at].iter().copied();
                let takes = |node: &usize| {
                    self.is_apart(ground, *node)
                        && (shelves.holds(*node, self.title)
                            || shelves.bring_and_keep(*node, self.title, Why::Floor))
                };
                if let Some(node) = nodes.find(takes) {
                    shelves.keep(node, self.title);
                    self.taken.push(node);
                    return;
                }
            }
            self.level += 1;
        }
    }
}

/// Of `nodes`, up to `wanted`: from other sites while there are any, then from other clusters, racks, and machines.
fn far_apart(ground: &Ground, nodes: &[usize], wanted: usize) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    for is_apart in LEVELS {
        for node in nodes {
            let spot = &ground.spots[*node];
            let fits = |other: &usize| other != node && is_apart(spot, &ground.spots[*other]);
            if taken.len() < wanted && taken.iter().all(fits) {
                taken.push(*node);
            }
        }
    }
    taken
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

    /// The nodes of a site, those first that are built for what is watched seldom.
    fn nodes(&self, ground: &Ground, site: usize, order: TitleOrder) -> Vec<usize> {
        let mut nodes: Vec<usize> = ground.nodes_of(site).collect();
        let kind = |node: usize| Reverse(self.tail_permille[node]);
        nodes.sort_by_cached_key(|node| (kind(*node), cost(ground, order, *node), *node));
        nodes
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
