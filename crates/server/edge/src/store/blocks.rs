//! The state of an object's blocks: available, or being fetched.

use std::collections::BTreeSet;
use std::ops::Range;

/// How to handle requested blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Available: announce them.
    pub(crate) there: Vec<Range<u64>>,
    /// Recorded by an earlier helper: verify them first. They count as being fetched.
    pub(crate) recorded: Vec<u64>,
    /// Fetch these.
    pub(crate) fetch: Vec<Range<u64>>,
}

/// The blocks of one object.
#[derive(Default)]
pub(super) struct Blocks {
    there: BTreeSet<u64>,
    fetched: BTreeSet<u64>,
}

impl Blocks {
    /// Sorts the blocks of `wanted`. Blocks to fetch or verify count as being fetched from now on: one fetch serves all requests.
    pub(super) fn take(&mut self, wanted: Range<u64>, is_recorded: impl Fn(u64) -> bool) -> Runs {
        let mut runs = Runs::default();
        for block in wanted {
            if self.there.contains(&block) {
                add(&mut runs.there, block);
            } else if self.fetched.insert(block) {
                match is_recorded(block) {
                    true => runs.recorded.push(block),
                    false => add(&mut runs.fetch, block),
                }
            }
        }
        runs
    }

    /// The blocks of `wanted` that are neither here nor on their way. They count as being fetched from now on.
    pub(super) fn take_missing(
        &mut self,
        wanted: Range<u64>,
        is_recorded: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        for block in wanted {
            let is_here = self.there.contains(&block) || is_recorded(block);
            if !is_here && self.fetched.insert(block) {
                add(&mut missing, block);
            }
        }
        missing
    }

    /// Marks a block as available.
    pub(super) fn note(&mut self, block: u64) {
        self.fetched.remove(&block);
        self.there.insert(block);
    }

    /// Marks blocks as no longer being fetched.
    pub(super) fn give_back(&mut self, blocks: Range<u64>) {
        self.fetched.retain(|block| !blocks.contains(block));
    }

    pub(super) fn are_fetched(&self) -> bool {
        !self.fetched.is_empty()
    }
}

fn add(runs: &mut Vec<Range<u64>>, block: u64) {
    match runs.last_mut() {
        Some(run) if run.end == block => run.end += 1,
        _ => runs.push(block..block + 1),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs, of which there may be one")]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_fetched_once_until_it_is_given_back() {
        let mut blocks = Blocks::default();
        blocks.note(2);
        let first = blocks.take(0..6, |block| block == 4);
        assert_eq!(first.there, [2..3]);
        assert_eq!(first.recorded, [4]);
        assert_eq!(first.fetch, [0..2, 3..4, 5..6]);
        let second = blocks.take(0..6, |_| false);
        assert_eq!((second.there, second.recorded.len(), second.fetch.len()), (vec![2..3], 0, 0));
        blocks.note(0);
        blocks.give_back(1..6);
        assert_eq!(blocks.take(0..3, |_| false).fetch, [1..2]);
    }
}
