//! Recent requests for each block, counted in little memory.
//!
//! This is a count-min sketch (Cormode and Muthukrishnan, Journal of Algorithms 55(1), 2005). From time to time it halves all of its counts, so that
//! it forgets, like the admission filter of TinyLFU (Einziger, Friedman, Manes, ACM Transactions on Storage 13(4), 2017). A block's four counters lie
//! in one cache line, so counting a request costs one line from memory. A count may be too high, because blocks share counters. It is too low only if
//! two threads count requests in the same instant.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters in a cache line, and a block's counters within its line.
const LINE: usize = 64;
const ROWS: usize = 4;

/// Counters per block of the set's capacity. With 16, of which a block uses four, few blocks share all of theirs with more popular ones.
const COUNTERS_PER_BLOCK: usize = 16;

/// Requests before all counts are halved, per block of the set's capacity (TinyLFU's sample size). A halving also halves the number of requests.
const SAMPLES_PER_BLOCK: usize = 10;

/// Counts recent requests by block.
pub(crate) struct Demand {
    counters: Box<[AtomicU8]>,
    noted: AtomicUsize,
    samples: usize,
    halvings: AtomicU64,
}

impl Demand {
    /// Makes a sketch for a set with room for `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let counters = (blocks.max(LINE) * COUNTERS_PER_BLOCK).next_power_of_two();
        Self {
            counters: (0..counters).map(|_| AtomicU8::new(0)).collect(),
            noted: AtomicUsize::new(0),
            samples: blocks.max(LINE) * SAMPLES_PER_BLOCK,
            halvings: AtomicU64::new(0),
        }
    }

    /// Counts a request for the block with this hash. Returns its recent requests, including this one.
    pub(crate) fn note(&self, hash: u64) -> u8 {
        if self.noted.fetch_add(1, Relaxed) >= self.samples {
            self.halve();
        }
        let least = self.of(hash);
        for counter in self.counters_of(hash) {
            // Conservative update: the lowest counters are closest to this block's count, so only they are raised.
            if counter.load(Relaxed) == least && least < u8::MAX {
                counter.store(least + 1, Relaxed);
            }
        }
        least.saturating_add(1)
    }

    /// Recent requests for the block with this hash.
    pub(crate) fn of(&self, hash: u64) -> u8 {
        self.counters_of(hash).map(|counter| counter.load(Relaxed)).min().unwrap_or(0)
    }

    /// Sets the count of the block with this hash to the maximum.
    ///
    /// Blocks that share all four of their counters with such blocks count as popular too. If half of the set's blocks are raised, that is about one
    /// block in a thousand.
    pub(crate) fn raise(&self, hash: u64) {
        self.counters_of(hash).for_each(|counter| counter.store(u8::MAX, Relaxed));
    }

    /// How many times all counts were halved.
    pub(crate) fn halvings(&self) -> u64 {
        self.halvings.load(Relaxed)
    }

    fn counters_of(&self, hash: u64) -> impl Iterator<Item = &AtomicU8> {
        let lines = self.counters.len() / LINE;
        let line = &self.counters[(hash as usize % lines) * LINE..][..LINE];
        // Each row has a quarter of the line to itself. Four bits of the hash's upper half choose its counter.
        (0..ROWS).map(move |row| {
            let place = (hash >> (32 + 4 * row)) as usize % (LINE / ROWS);
            &line[row * (LINE / ROWS) + place]
        })
    }

    pub(super) fn halve(&self) {
        self.noted.store(self.samples / 2, Relaxed);
        self.halvings.fetch_add(1, Relaxed);
        for counter in &self.counters {
            counter.store(counter.load(Relaxed) / 2, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::mix;

    #[test]
    fn counts_what_was_asked_for() {
        let demand = Demand::new(1000);
        assert_eq!(demand.of(mix(1)), 0);
        assert_eq!((1..=5).map(|_| demand.note(mix(1))).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(demand.of(mix(1)), 5);
        (0..1000).for_each(|_| {
            demand.note(mix(2));
        });
        assert_eq!(demand.of(mix(2)), u8::MAX);
    }

    #[test]
    fn a_scan_of_nine_times_the_memory_does_not_reach_what_is_asked_for_often() {
        let blocks = 1000;
        let demand = Demand::new(blocks);
        (0..20).for_each(|_| {
            demand.note(mix(7));
        });
        let scanned = (100..100 + 9 * blocks as u64).map(|block| demand.note(mix(block)));
        let often = scanned.filter(|count| *count >= 20).count();
        assert_eq!(often, 0);
        assert!(demand.of(mix(7)) >= 10);
    }

    #[test]
    fn what_is_raised_counts_most_until_it_is_forgotten_and_hardly_anything_else_does() {
        let blocks = 4000;
        let demand = Demand::new(blocks);
        let before = demand.halvings();
        (0..blocks as u64 / 2).for_each(|block| demand.raise(mix(block)));
        assert!((0..blocks as u64 / 2).all(|block| demand.of(mix(block)) == u8::MAX));
        let others = 10_000..110_000_u64;
        let popular = others.clone().filter(|block| demand.of(mix(*block)) == u8::MAX).count();
        assert!(popular < others.count() / 300, "{popular}");
        (0..60_000).for_each(|block| {
            demand.note(mix(1_000_000 + block));
        });
        assert!(demand.halvings() > before);
        assert!(demand.of(mix(7)) < u8::MAX);
    }

    #[test]
    fn forgets() {
        let demand = Demand::new(100);
        (0..8).for_each(|_| {
            demand.note(mix(7));
        });
        (0..10_000).for_each(|block| {
            demand.note(mix(1000 + block % 50));
        });
        assert!(demand.of(mix(7)) <= 1);
    }
}
