//! Titles on their way: each node brings what its plan says, at an even pace within the window.
//!
//! A title comes from another node if any holds it, and from the origin otherwise. Only one node asks the origin for a title; the others wait for it.

use std::collections::VecDeque;

use placement::Plan;

use crate::crowd::STEPS_PER_HOUR;
use crate::world::World;

/// The window's length.
pub(crate) const WINDOW_STEPS: u32 = 10 * STEPS_PER_HOUR;

pub(crate) struct Fill {
    /// Titles that each node is still to bring, and how many bytes it has done of the first.
    queues: Vec<(VecDeque<u32>, u64)>,
    /// What a node brings in a step.
    paces: Vec<u64>,
    /// What all have brought.
    pub(crate) bytes: u64,
    pub(crate) origin_bytes: u64,
    /// Fetches from the origin, by title.
    pub(crate) origin_fetches: Vec<u32>,
    /// Who asks the origin, by title.
    asking: Vec<Option<usize>>,
    /// Holders by title, so that it is known whether the origin must be asked.
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

    /// Takes a plan: what it does not name any more goes, and what it names is queued. Returns the copies that go.
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

    /// One step. Returns the copies that come. `crowds_origin` is a planted bug: nobody waits for the one who asks the origin.
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
            // Whoever waits brings other titles first.
            self.queues[node].0.extend(waiting);
        }
        came.iter().for_each(|(_, title)| self.holders[*title as usize] += 1);
        came
    }

    /// Copies that are still to come.
    pub(crate) fn left(&self) -> usize {
        self.queues.iter().map(|(queue, _)| queue.len()).sum()
    }
}
