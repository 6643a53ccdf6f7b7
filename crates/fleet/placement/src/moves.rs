//! The moves of a plan in order of urgency: pins and floors first, then demand, by bytes watched per byte moved, highest first.
//!
//! The moves of each site are in that order already. They are merged lazily, because the first plan of a large fleet has a hundred million.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::copy_table::Brought;
use crate::plan::{Plan, PlannedMove};

pub(crate) struct Moves<'p> {
    plan: &'p Plan,
    urgent: std::slice::Iter<'p, Brought>,
    /// By site: the remaining ones.
    wanted: Vec<std::slice::Iter<'p, Brought>>,
    /// The score of the next one of each site.
    next: BinaryHeap<(u64, Reverse<u32>)>,
    left: usize,
}

impl<'p> Moves<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        let wanted: Vec<_> = plan.wanted.iter().map(|site| site.iter()).collect();
        let left = plan.urgent.len() + wanted.iter().map(ExactSizeIterator::len).sum::<usize>();
        let (urgent, next) = (plan.urgent.iter(), BinaryHeap::new());
        let mut moves = Self { plan, urgent, wanted, next, left };
        (0..plan.wanted.len() as u32).for_each(|site| moves.line_up(site));
        moves
    }

    fn line_up(&mut self, site: u32) {
        if let Some(brought) = self.wanted[site as usize].as_slice().first() {
            self.next.push((self.plan.score(brought), Reverse(site)));
        }
    }

    fn next_wanted(&mut self) -> Option<&'p Brought> {
        let (_, Reverse(site)) = self.next.pop()?;
        let brought = self.wanted[site as usize].next();
        self.line_up(site);
        brought
    }
}

impl Iterator for Moves<'_> {
    type Item = PlannedMove;

    fn next(&mut self) -> Option<PlannedMove> {
        let brought = self.urgent.next().or_else(|| self.next_wanted())?;
        self.left -= 1;
        Some(self.plan.planned(brought))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Moves<'_> {}
