//! What must hold at each step, judged from the world and not from what steering or placement say of themselves.

use std::collections::BTreeSet;

use fleet::NodePlace;
use steering::{Decision, Fleet, Standing};

use crate::world::World;

/// Kept of the breaches: the rest is only counted.
const TOLD_MAX: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) count: u64,
    pub(crate) told: Vec<String>,
    /// One in so many answers is looked at closely, because that takes a walk over all nodes.
    closely_one_in: u64,
    seen: u64,
    pub(crate) looked_closely: u64,
}

impl Judge {
    pub(crate) fn new(closely_one_in: u64) -> Self {
        Self { closely_one_in, ..Self::default() }
    }

    pub(crate) fn breach(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what());
        }
    }

    /// An answer to a new viewer.
    pub(crate) fn answer(
        &mut self,
        world: &World,
        fleet: &Fleet,
        title: u32,
        decision: &Decision,
        step: u32,
    ) {
        for ranked in &decision.ranked {
            let node = &world.nodes[ranked.node];
            if node.holds.binary_search(&title).is_err() {
                self.breach(|| format!("step {step}: {} lacks title {title}", node.name));
            }
        }
        self.seen += 1;
        let is_first_open = decision
            .ranked
            .first()
            .is_some_and(|first| fleet.standing(first.node) == Standing::Open);
        if is_first_open && self.seen % self.closely_one_in != 0 {
            return;
        }
        self.looked_closely += 1;
        let told = fleet.snapshot();
        let title = title as usize;
        let holders = |standing: Standing| {
            (0..told.nodes.len())
                .filter(move |node| fleet.standing(*node) <= standing && fleet.holds(*node, title))
        };
        if !is_first_open && holders(Standing::Open).next().is_some() {
            self.breach(|| format!("step {step}: title {title}: passed over a node with room"));
        }
        let domains = |nodes: &mut dyn Iterator<Item = usize>| {
            nodes.map(|node| &told.nodes[node].place).collect::<BTreeSet<&NodePlace>>().len()
        };
        let possible = domains(&mut holders(Standing::Closed)).min(3);
        let own = domains(&mut decision.ranked.iter().map(|ranked| ranked.node));
        if own < possible {
            self.breach(|| {
                format!("step {step}: title {title}: {own} failure domains, {possible} possible")
            });
        }
    }

    /// An answer to a viewer who plays from a node that is well and holds the title: it stays.
    pub(crate) fn stays(&mut self, playing: usize, decision: &Decision, step: u32) {
        if decision.ranked.first().map(|first| first.node) != Some(playing) {
            self.breach(|| format!("step {step}: a viewer of node {playing} moved without need"));
        }
    }
}
