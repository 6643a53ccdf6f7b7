//! The state of planning: which node holds what, free room, and the churn left.

use std::collections::HashSet;

use crate::bits::Bits;
use crate::forecast::Forecast;
use crate::input::PlacementInput;
use crate::plan::Why;
use crate::topology::FleetTopology;

/// A copy to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brought {
    pub(crate) node: u32,
    pub(crate) title: u32,
    pub(crate) why: Why,
    /// Which copy at its site it was, from 1.
    pub(crate) copy: u16,
}

#[derive(Debug)]
pub(crate) struct CopyTable<'g> {
    input: &'g PlacementInput,
    topology: &'g FleetTopology,
    forecast: &'g Forecast,
    /// By site.
    pub(crate) held: Vec<Bits>,
    /// Copies for a pin or a floor: nothing displaces them.
    pub(crate) kept: Vec<Bits>,
    /// The pinned ones among them: node and title.
    pub(crate) pinned: HashSet<(u32, u32)>,
    free: Vec<u64>,
    /// Room minus the copies for pins and floors: the most that could be freed.
    unkept: Vec<u64>,
    /// The bytes that each node may still fetch.
    fill_left: Vec<u64>,
    churn_left: u128,
    /// Yesterday's copies by node, least wanted first, and how many of them were examined. Only these are displaced: today's copies were
    /// more wanted than all later candidates.
    old: Vec<(Vec<u32>, usize)>,
    /// Moves for pins and floors.
    pub(crate) urgent: Vec<Brought>,
    /// Moves for demand, by site.
    pub(crate) wanted: Vec<Vec<Brought>>,
}

impl<'g> CopyTable<'g> {
    /// Starts with yesterday's manifests, without the copies that no longer fit.
    pub(crate) fn new(
        input: &'g PlacementInput,
        topology: &'g FleetTopology,
        forecast: &'g Forecast,
    ) -> Self {
        let table = |site: usize| Bits::new(input.titles.len(), topology.nodes_of(site).len());
        let tables: Vec<Bits> = (0..topology.sites()).map(table).collect();
        let mut copy_table = Self {
            input,
            topology,
            forecast,
            held: tables.clone(),
            kept: tables,
            pinned: HashSet::new(),
            free: input.nodes.iter().map(|node| node.room_bytes).collect(),
            unkept: input.nodes.iter().map(|node| node.room_bytes).collect(),
            fill_left: input.nodes.iter().map(|n| n.fill_bytes_max.unwrap_or(u64::MAX)).collect(),
            churn_left: input.policy.churn_bytes_max.map_or(u128::MAX, u128::from),
            old: input.nodes.iter().map(|node| (node.holds.clone(), 0)).collect(),
            urgent: Vec::new(),
            wanted: vec![Vec::new(); topology.sites()],
        };
        for (at, node) in input.nodes.iter().enumerate() {
            let (site, seat) = topology.seat(at);
            node.holds.iter().for_each(|title| copy_table.held[site].set(*title, seat));
        }
        for (at, node) in input.nodes.iter().enumerate() {
            copy_table.take_stock(at, node.room_bytes);
        }
        copy_table
    }

    /// Sorts the titles that a node holds by value, and drops the least wanted ones until the rest fits.
    fn take_stock(&mut self, node: usize, room: u64) {
        let mut old = std::mem::take(&mut self.old[node].0);
        let (site, seat) = self.topology.seat(node);
        old.sort_by_cached_key(|title| {
            let copies = self.copies_at(site, *title);
            (self.forecast.score(self.topology, site, *title, copies), *title)
        });
        let mut free = room;
        old = old.into_iter().rev().collect();
        old.retain(|title| {
            let left = free.checked_sub(self.forecast.size(*title));
            match left {
                Some(left) => free = left,
                None => self.held[site].clear(*title, seat),
            }
            left.is_some()
        });
        old.reverse();
        self.free[node] = free;
        self.old[node].0 = old;
    }

    pub(crate) fn copies_at(&self, site: usize, title: u32) -> u16 {
        self.held[site].count(title)
    }

    pub(crate) fn holds(&self, node: usize, title: u32) -> bool {
        let (site, seat) = self.topology.seat(node);
        self.held[site].has(title, seat)
    }

    pub(crate) fn is_kept(&self, node: usize, title: u32) -> bool {
        let (site, seat) = self.topology.seat(node);
        self.kept[site].has(title, seat)
    }

    /// Protects an existing copy from being displaced.
    pub(crate) fn keep(&mut self, node: usize, title: u32) {
        if !self.is_kept(node, title) {
            let (site, seat) = self.topology.seat(node);
            self.kept[site].set(title, seat);
            self.unkept[node] -= self.forecast.size(title);
        }
    }

    /// The same for a pin.
    pub(crate) fn keep_pinned(&mut self, node: usize, title: u32) {
        self.keep(node, title);
        self.pinned.insert((node as u32, title));
    }

    pub(crate) fn churn_left(&self) -> u128 {
        self.churn_left
    }

    /// The nodes of one site that hold a title.
    pub(crate) fn holders_at(&self, site: usize, title: u32) -> impl Iterator<Item = usize> {
        let first = self.topology.nodes_of(site).start;
        self.held[site].nodes(title).map(move |seat| first + seat)
    }

    /// Adds a protected copy of a title to a node, displacing whatever is necessary. Returns false if there is no room or no churn left.
    pub(crate) fn bring_and_keep(&mut self, node: usize, title: u32, why: Why) -> bool {
        let done = self.make_way(node, title, None).is_some();
        if done {
            self.put(node, title, why);
            match why {
                Why::Pin => self.keep_pinned(node, title),
                Why::Floor | Why::Demand | Why::Spare => self.keep(node, title),
            }
        }
        done
    }

    /// Adds a copy of a title to a node if the displaced copies are worth less. `lost_max` is the most value that may be displaced, in
    /// bytes a day.
    pub(crate) fn bring_for(&mut self, node: usize, title: u32, lost_max: u64) -> bool {
        let done = self.make_way(node, title, Some(lost_max)).is_some();
        if done {
            self.put(node, title, Why::Demand);
        }
        done
    }

    /// Whether a node held a title when planning began. Its copy is still on disk, even if the plan has displaced it meanwhile.
    fn was_held(&self, node: usize, title: u32) -> bool {
        self.input.nodes[node].holds.binary_search(&title).is_ok()
    }

    fn put(&mut self, node: usize, title: u32, why: Why) {
        let ((site, seat), size) = (self.topology.seat(node), self.forecast.size(title));
        self.free[node] -= size;
        self.held[site].set(title, seat);
        if self.was_held(node, title) {
            return;
        }
        self.churn_left -= u128::from(size);
        self.fill_left[node] -= size;
        let copy = self.copies_at(site, title);
        let brought = Brought { node: node as u32, title, why, copy };
        match why {
            Why::Pin | Why::Floor => self.urgent.push(brought),
            Why::Demand | Why::Spare => self.wanted[site].push(brought),
        }
    }

    /// Makes room for a title, or changes nothing. With a limit, the displaced copies are not worth more than that.
    fn make_way(&mut self, node: usize, title: u32, lost_max: Option<u64>) -> Option<()> {
        let size = self.forecast.size(title);
        let has_churn = self.was_held(node, title)
            || (self.churn_left >= u128::from(size) && self.fill_left[node] >= size);
        // Checking `unkept` avoids a scan of all copies of a node that is full of protected ones.
        let may = has_churn && !self.holds(node, title) && self.unkept[node] >= size;
        if !may {
            return None;
        }
        let (site, seat) = self.topology.seat(node);
        let (mut free, mut lost, mut going) = (self.free[node], 0u64, Vec::new());
        let (old, seen) = &self.old[node];
        let mut at = *seen;
        while free < size {
            let other = *old.get(at)?;
            at += 1;
            if self.is_kept(node, other) || !self.holds(node, other) {
                continue;
            }
            let copies = self.copies_at(site, other);
            lost = lost.saturating_add(self.forecast.worth(self.topology, site, other, copies));
            if lost_max.is_some_and(|most| lost > most) {
                return None;
            }
            free += self.forecast.size(other);
            going.push(other);
        }
        for other in going {
            self.held[site].clear(other, seat);
        }
        self.free[node] = free;
        self.old[node].1 = at;
        Some(())
    }
}
