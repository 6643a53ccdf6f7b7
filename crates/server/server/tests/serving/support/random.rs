//! Randomness that a printed seed reproduces.

use std::ops::Range;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// The sequence that `seed` begins.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of this run: `FULLBORE_SEED`, or one that differs from run to run.
    pub(crate) fn seed_of_run() -> u64 {
        if let Ok(seed) = std::env::var("FULLBORE_SEED") {
            return seed.parse().expect("FULLBORE_SEED is a decimal number");
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("the clock is past 1970").as_micros() as u64
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// One of `range`, which is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next() % n == 0
    }

    /// One of `choices`.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.within(0..choices.len() as u64) as usize]
    }
}

/// Spreads every bit of `value` over the result.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
