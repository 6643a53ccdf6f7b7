//! Randomness that a seed reproduces, on every machine and with every version of the toolchain: seeds that once failed are kept.

use std::ops::Range;
use std::time::UNIX_EPOCH;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(u64);

impl Random {
    /// The sequence that `seed` begins.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of this run: `FULLBORE_SEED`, or one that differs from run to run. Print it.
    ///
    /// # Panics
    /// If `FULLBORE_SEED` is no decimal number, or the clock is before 1970.
    pub fn seed_of_run() -> u64 {
        if let Ok(seed) = std::env::var("FULLBORE_SEED") {
            return seed.parse().expect("FULLBORE_SEED is a decimal number");
        }
        UNIX_EPOCH.elapsed().expect("the clock is past 1970").as_micros() as u64
    }

    /// The next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// One of `range`, which is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// At least 0 and less than 1.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time of `from` to `to` seconds, in whole milliseconds.
    pub fn seconds(&mut self, from: f64, to: f64) -> f64 {
        let milliseconds = ((to - from) * 1000.0).round() as u64 + 1;
        from + self.below(milliseconds) as f64 / 1000.0
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which are not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// Spreads every bit of `value` over the result.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
