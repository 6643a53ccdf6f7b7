//! Faults, drawn in advance.

use fastrand::Rng;

use crate::world::World;

/// An outage, from one step to another.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u32,
    to: u32,
}

impl Span {
    fn drawn(steps: u32, length_max: u32, random: &mut Rng) -> Self {
        let from = random.u32(..steps.max(1));
        Self { from, to: from + random.u32(1..=length_max) }
    }

    fn has(&self, step: u32) -> bool {
        (self.from..self.to).contains(&step)
    }
}

pub(crate) struct Faults {
    /// Lost nodes, by their index.
    nodes: Vec<(u32, Span)>,
    gateways: Vec<Span>,
    /// How many steps late the plan comes, because the store is down.
    pub(crate) plan_late_steps: u32,
    /// A region's feed counts these titles a thousand times too often.
    pub(crate) lies: Vec<u32>,
}

impl Faults {
    /// Three nodes in a hundred fail for up to an hour, and one site in a hundred does. Gateways fail twice, the store on some days, and
    /// one feed has false counts.
    pub(crate) fn drawn(world: &World, steps: u32, random: &mut Rng) -> Self {
        let count = world.nodes.len() as u32;
        let lost = (0..count.div_ceil(33)).map(|_| random.u32(..count)).collect::<Vec<u32>>();
        let mut nodes: Vec<(u32, Span)> =
            lost.into_iter().map(|node| (node, Span::drawn(steps, 12, random))).collect();
        for _ in 0..world.sites.len().div_ceil(100) {
            let site = random.usize(..world.sites.len());
            let span = Span::drawn(steps, 12, random);
            let own = world.nodes_of(site);
            nodes.extend(own.map(|node| (node as u32, span)));
        }
        Self {
            nodes,
            gateways: (0..2).map(|_| Span::drawn(steps, 6, random)).collect(),
            plan_late_steps: if random.bool() { 0 } else { random.u32(1..24) },
            lies: (0..5).map(|_| random.u32(..world.known as u32)).collect(),
        }
    }

    /// A day without faults.
    pub(crate) fn none() -> Self {
        Self { nodes: Vec::new(), gateways: Vec::new(), plan_late_steps: 0, lies: Vec::new() }
    }

    /// The nodes that are lost in a step.
    pub(crate) fn lost(&self, step: u32) -> impl Iterator<Item = u32> {
        self.nodes.iter().filter(move |(_, span)| span.has(step)).map(|(node, _)| *node)
    }

    /// The same without duplicates, in ascending order.
    pub(crate) fn lost_sorted(&self, step: u32) -> Vec<u32> {
        let mut lost: Vec<u32> = self.lost(step).collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Returns true if no gateway is up: steering answers from the last snapshot, and nodes report nothing.
    pub(crate) fn has_no_gateway(&self, step: u32) -> bool {
        self.gateways.iter().any(|span| span.has(step))
    }
}
