//! Which nodes hold a title.

use std::ops::Range;

use fleet::FleetSnapshot;

use crate::seats::Seats;

/// For each title, the seats that hold it, rising. One list for all titles: fifty million entries are 200 MB here, and would be twice that as
/// lists of their own.
#[derive(Debug)]
pub(crate) struct Holders {
    /// Where each title's begin, and the end.
    starts: Vec<usize>,
    seats: Vec<u32>,
}

impl Holders {
    pub(crate) fn new(snapshot: &FleetSnapshot, seats: &Seats) -> Self {
        let mut starts = vec![0; snapshot.titles.len() + 1];
        for title in snapshot.nodes.iter().flat_map(|node| &node.holds) {
            starts[*title as usize + 1] += 1;
        }
        for title in 1..starts.len() {
            starts[title] += starts[title - 1];
        }
        let mut next = starts.clone();
        let mut holders = vec![0; starts[snapshot.titles.len()]];
        let in_order = (0..snapshot.sites.len()).flat_map(|site| seats.range(site));
        for seat in in_order {
            for title in &snapshot.nodes[seats.at(seat).node as usize].holds {
                let place = &mut next[*title as usize];
                holders[*place] = seat;
                *place += 1;
            }
        }
        Self { starts, seats: holders }
    }

    pub(crate) fn of(&self, title: usize) -> &[u32] {
        &self.seats[self.starts[title]..self.starts[title + 1]]
    }
}

/// Those of `holders` that are among the seats of one site.
pub(crate) fn within(holders: &[u32], site: Range<u32>) -> &[u32] {
    let from = &holders[holders.partition_point(|seat| *seat < site.start)..];
    let count = from.iter().take_while(|seat| **seat < site.end).count();
    &from[..count]
}
