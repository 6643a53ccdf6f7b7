//! Updating an index in place, for a sole owner: a simulated day has 288 snapshots with a hundred million copies.

use std::sync::Arc;

use fleet_protocol::State;

use crate::Fleet;
use crate::geography::Geography;
use crate::standing::mark_full;

/// Changes since a snapshot. Nodes and titles are given by their indexes in it.
#[derive(Clone, Copy, Debug)]
pub struct FleetChanges<'c> {
    /// The number of the new snapshot.
    pub number: u64,
    /// Each node's state, and its load relative to its ceiling in thousandths.
    pub reports: &'c [(State, u16)],
    /// Added copies, each a node and a title.
    pub came: &'c [(u32, u32)],
    /// Removed copies.
    pub went: &'c [(u32, u32)],
}

impl Fleet {
    /// Turns this into the index of the next snapshot. The result equals that of [`Fleet::new`] for that snapshot with this one as `before`.
    ///
    /// # Panics
    /// If an index is not in the snapshot.
    pub fn renew(&mut self, changes: &FleetChanges<'_>) {
        let nodes = &mut self.snapshot.nodes;
        self.snapshot.number = changes.number;
        for (node, (state, load)) in nodes.iter_mut().zip(changes.reports) {
            (node.state, node.load_permille) = (*state, *load);
        }
        let copies = [(changes.went, false), (changes.came, true)];
        for (node, title, is_there) in
            copies.iter().flat_map(|(list, there)| list.iter().map(move |at| (at.0, at.1, *there)))
        {
            let holds = &mut nodes[node as usize].holds;
            match (holds.binary_search(&title), is_there) {
                (Err(at), true) => holds.insert(at, title),
                (Ok(at), false) => drop(holds.remove(at)),
                _ => {}
            }
        }
        mark_full(&mut self.snapshot, None);
        self.node_table.refresh(&self.snapshot);
        // Revoked nodes have no weight.
        if !self.geography.is_of(&self.snapshot.sites, &self.node_table) {
            self.geography = Arc::new(Geography::new(&self.snapshot.sites, &self.node_table));
        }
        if changes.came.len() + changes.went.len() > 0 {
            let holders = Arc::make_mut(&mut self.holders);
            let seated =
                |(node, title): &(u32, u32)| (*title, self.node_table.of_node(*node as usize));
            holders.change(changes.went.iter().map(seated), false);
            holders.change(changes.came.iter().map(seated), true);
        }
    }
}
