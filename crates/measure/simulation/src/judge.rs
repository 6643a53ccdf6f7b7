//! The invariants of each step, checked against the world and not against what steering or placement report.

use steering::{Decision, Fleet, Standing};

use crate::world::World;

/// How many breaches to describe. The rest is only counted.
const TOLD_MAX: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) count: u64,
    pub(crate) told: Vec<String>,
}

impl Judge {
    pub(crate) fn breach(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what());
        }
    }

    /// Checks a decision for a new viewer.
    pub(crate) fn answer(
        &mut self,
        world: &World,
        fleet: &Fleet,
        title: u32,
        decision: &Decision,
        step: u32,
    ) {
        for ranked in &decision.ranked {
            if !world.held.has(title, ranked.node) {
                let name = &world.nodes[ranked.node].name;
                self.breach(|| format!("step {step}: {name} lacks title {title}"));
            }
        }
        let first = decision.ranked.first().map(|first| fleet.standing(first.node));
        let mut holders = world.held.holders(title);
        if first != Some(Standing::Open)
            && holders.any(|node| fleet.standing(node) == Standing::Open)
        {
            self.breach(|| format!("step {step}: title {title}: passed over a node with room"));
        }
        let own = domains(world, decision.ranked.iter().map(|ranked| ranked.node));
        if own == DOMAINS {
            return;
        }
        let serves = |node: &usize| fleet.standing(*node) <= Standing::Closed;
        let possible = domains(world, world.held.holders(title).filter(serves));
        if own < possible {
            self.breach(|| {
                format!("step {step}: title {title}: {own} failure domains, {possible} possible")
            });
        }
    }

    /// Checks a decision for a viewer who plays from a healthy node that holds the title: the viewer must stay there.
    pub(crate) fn stays(&mut self, playing: usize, decision: &Decision, step: u32) {
        if decision.ranked.first().map(|first| first.node) != Some(playing) {
            self.breach(|| format!("step {step}: a viewer of node {playing} moved without need"));
        }
    }
}

/// A viewer gets three nodes.
const DOMAINS: usize = 3;

/// The number of failure domains that the nodes span, up to [`DOMAINS`].
fn domains(world: &World, nodes: impl Iterator<Item = usize>) -> usize {
    let mut seen: Vec<u32> = Vec::with_capacity(DOMAINS);
    for node in nodes {
        let domain = world.domain_of[node];
        if !seen.contains(&domain) {
            seen.push(domain);
        }
        if seen.len() == DOMAINS {
            break;
        }
    }
    seen.len()
}
