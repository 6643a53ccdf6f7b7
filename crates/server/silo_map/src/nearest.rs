//! The nearest of several silos: for devices on a node without workers, and for workers of a silo without network cards.

use super::Members;
use machine::Topology;

/// Finds the nearest of some silos. Equally near ones take turns.
pub(crate) struct Nearest<'a> {
    topology: &'a Topology,
    silos: &'a [Members],
    turn: usize,
}

impl<'a> Nearest<'a> {
    pub(crate) fn new(topology: &'a Topology, silos: &'a [Members]) -> Self {
        Self { topology, silos, turn: 0 }
    }

    /// The silos on this node.
    pub(crate) fn on(&self, node: u32) -> Vec<usize> {
        (0..self.silos.len()).filter(|silo| self.silos[*silo].node == Some(node)).collect()
    }

    /// The nearest to `node` of the silos `among`, or of all. `None` if no distance is known.
    pub(crate) fn to(&mut self, node: u32, among: Option<&[usize]>) -> Option<usize> {
        let all: Vec<_> = (0..self.silos.len()).collect();
        let among = among.unwrap_or(&all);
        let distance = |silo: &usize| self.topology.distance(node, self.silos[*silo].node?);
        let least = among.iter().filter_map(distance).min()?;
        let is_near = |silo: &usize| distance(silo) == Some(least);
        let near: Vec<_> = among.iter().copied().filter(is_near).collect();
        Some(self.in_turn(&near))
    }

    /// One of these silos, in turn; there is at least one.
    pub(crate) fn in_turn(&mut self, near: &[usize]) -> usize {
        let chosen = near[self.turn % near.len()];
        self.turn += usize::from(near.len() > 1);
        chosen
    }
}
