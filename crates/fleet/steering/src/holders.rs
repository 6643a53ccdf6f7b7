//! The nodes that hold a title.

use std::ops::Range;

use fleet_protocol::FleetSnapshot;

use crate::node_table::NodeTable;

/// For each title, the entries that hold it, ascending. Each list has its exact size: fifty million entries take 200 MB.
#[derive(Clone, Debug)]
pub(crate) struct Holders(Vec<Box<[u32]>>);

impl Holders {
    pub(crate) fn new(snapshot: &FleetSnapshot, node_table: &NodeTable) -> Self {
        let mut counts = vec![0; snapshot.titles.len()];
        for title in snapshot.nodes.iter().flat_map(|node| &node.holds) {
            counts[*title as usize] += 1;
        }
        let mut holders: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        let in_order = (0..snapshot.sites.len()).flat_map(|site| node_table.range(site));
        for entry in in_order {
            for title in &snapshot.nodes[node_table.at(entry).node as usize].holds {
                holders[*title as usize].push(entry);
            }
        }
        Self(holders.into_iter().map(Vec::into_boxed_slice).collect())
    }

    pub(crate) fn of(&self, title: usize) -> &[u32] {
        &self.0[title]
    }

    /// Adds or removes copies, each a title and an entry.
    pub(crate) fn change(&mut self, copies: impl Iterator<Item = (u32, u32)>, come: bool) {
        let mut copies: Vec<(u32, u32)> = copies.collect();
        copies.sort_unstable();
        for same in copies.chunk_by(|one, next| one.0 == next.0) {
            let own = &mut self.0[same[0].0 as usize];
            let mut entries = std::mem::take(own).into_vec();
            let is_named = |entry: &u32| same.binary_search(&(same[0].0, *entry)).is_ok();
            entries.retain(|entry| !is_named(entry));
            if come {
                entries.extend(same.iter().map(|(_, entry)| *entry));
                entries.sort_unstable();
                entries.dedup();
            }
            *own = entries.into_boxed_slice();
        }
    }
}

/// Those of `holders` that are entries of one site.
pub(crate) fn within(holders: &[u32], site: Range<u32>) -> &[u32] {
    let from = &holders[holders.partition_point(|entry| *entry < site.start)..];
    let count = from.iter().take_while(|entry| **entry < site.end).count();
    &from[..count]
}
