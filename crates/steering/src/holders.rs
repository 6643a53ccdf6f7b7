//! The nodes that hold a title.

use std::ops::Range;

use fleet::FleetSnapshot;

use crate::seats::Seats;

/// For each title, the seats that hold it, ascending. Each list has its exact size: fifty million entries take 200 MB.
#[derive(Clone, Debug)]
pub(crate) struct Holders(Vec<Box<[u32]>>);

impl Holders {
    pub(crate) fn new(snapshot: &FleetSnapshot, seats: &Seats) -> Self {
        let mut counts = vec![0; snapshot.titles.len()];
        for title in snapshot.nodes.iter().flat_map(|node| &node.holds) {
            counts[*title as usize] += 1;
        }
        let mut holders: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        let in_order = (0..snapshot.sites.len()).flat_map(|site| seats.range(site));
        for seat in in_order {
            for title in &snapshot.nodes[seats.at(seat).node as usize].holds {
                holders[*title as usize].push(seat);
            }
        }
        Self(holders.into_iter().map(Vec::into_boxed_slice).collect())
    }

    pub(crate) fn of(&self, title: usize) -> &[u32] {
        &self.0[title]
    }

    /// Adds or removes copies, each a title and a seat.
    pub(crate) fn change(&mut self, copies: impl Iterator<Item = (u32, u32)>, come: bool) {
        let mut copies: Vec<(u32, u32)> = copies.collect();
        copies.sort_unstable();
        for same in copies.chunk_by(|one, next| one.0 == next.0) {
            let own = &mut self.0[same[0].0 as usize];
            let mut seats = std::mem::take(own).into_vec();
            let is_named = |seat: &u32| same.binary_search(&(same[0].0, *seat)).is_ok();
            seats.retain(|seat| !is_named(seat));
            if come {
                seats.extend(same.iter().map(|(_, seat)| *seat));
                seats.sort_unstable();
                seats.dedup();
            }
            *own = seats.into_boxed_slice();
        }
    }
}

/// Those of `holders` that are seats of one site.
pub(crate) fn within(holders: &[u32], site: Range<u32>) -> &[u32] {
    let from = &holders[holders.partition_point(|seat| *seat < site.start)..];
    let count = from.iter().take_while(|seat| **seat < site.end).count();
    &from[..count]
}
