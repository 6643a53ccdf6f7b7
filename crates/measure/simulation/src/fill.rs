//! Fills: each node fetches the titles of its plan, at an even pace within the window.
//!
//! A title comes from another node if any holds it, and from the origin otherwise. Only one node fetches a title from the origin; the
//! others wait for it.

use std::collections::VecDeque;

use placement::Plan;

use crate::crowd::STEPS_PER_HOUR;
use crate::world::World;

/// Length of the window.
pub(crate) const WINDOW_STEPS: u32 = 10 * STEPS_PER_HOUR;

pub(crate) struct Fill {
    /// For each node, the titles still to fetch, and how many bytes of the first one it already has.
    queues: Vec<(VecDeque<u32>, u64)>,
    /// Bytes that each node fetches in a step.
    paces: Vec<u64>,
    /// Bytes fetched by all nodes.
    pub(crate) bytes: u64,
    pub(crate) origin_bytes: u64,
    /// Fetches from the origin, by title.
    pub(crate) origin_fetches: Vec<u32>,
    /// The node that fetches each title from the origin.
    asking: Vec<Option<usize>>,
    /// Number of holders of each title, which shows whether the origin is needed.
    holders: Vec<u32>,
}

impl Fill {
    pub(crate) fn new(world: &World, paces: Vec<u64>) -> Self {
        let titles = world.titles.len();
        Self {
            queues: vec![(VecDeque::new(), 0); world.nodes.len()],
            paces,
            bytes: 0,
            origin_bytes: 0,
            origin_fetches: vec![0; titles],
            asking: vec![None; titles],
            holders: (0..titles as u32).map(|t| world.held.holders(t).count() as u32).collect(),
        }
    }

    /// Applies a plan: removes copies that it no longer has and queues the new ones. Returns the removed copies.
    pub(crate) fn take(&mut self, plan: &Plan, world: &mut World) -> Vec<(u32, u32)> {
        let mut went = Vec::new();
        for node in 0..world.nodes.len() {
            for title in plan.dropped(node) {
                self.holders[title as usize] -= 1;
                world.held.clear(title, node);
                went.push((node as u32, title));
            }
        }
        for step in plan.moves() {
            self.queues[step.node].0.push_back(step.title as u32);
        }
        went
    }

    /// Runs one step. Returns the copies that became complete. `crowds_origin` is a planted bug: no node waits for the one that fetches
    /// from the origin.
    pub(crate) fn step(
        &mut self,
        world: &mut World,
        is_lost: &[bool],
        crowds_origin: bool,
    ) -> Vec<(u32, u32)> {
        let mut came = Vec::new();
        for (node, is_lost) in is_lost.iter().enumerate() {
            if *is_lost || self.queues[node].0.is_empty() {
                continue;
            }
            let mut budget = self.paces[node];
            let mut waiting: VecDeque<u32> = VecDeque::new();
            while let Some(title) = self.queues[node].0.pop_front() {
                let size = world.titles[title as usize].bytes;
                let is_at_origin = self.holders[title as usize] == 0;
                if is_at_origin && !crowds_origin {
                    let asks = *self.asking[title as usize].get_or_insert(node);
                    if asks != node {
                        waiting.push_back(title);
                        continue;
                    }
                }
                let left = size - self.queues[node].1;
                if left > budget {
                    self.queues[node].1 += budget;
                    self.bytes += budget;
                    self.queues[node].0.push_front(title);
                    break;
                }
                budget -= left;
                self.bytes += left;
                self.queues[node].1 = 0;
                if is_at_origin {
                    self.origin_bytes += size;
                    self.origin_fetches[title as usize] += 1;
                }
                world.held.set(title, node);
                came.push((node as u32, title));
            }
            // A waiting node fetches other titles first.
            self.queues[node].0.extend(waiting);
        }
        came.iter().for_each(|(_, title)| self.holders[*title as usize] += 1);
        came
    }

    /// Copies still to fetch.
    pub(crate) fn left(&self) -> usize {
        self.queues.iter().map(|(queue, _)| queue.len()).sum()
    }
}
