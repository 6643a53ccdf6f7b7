//! Random-looking numbers that depend only on the seed: the same on every machine and in every version.

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). A crate would do as well, but none
/// promises the same sequence in its next version, and we keep seeds that once failed.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the full range.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias of at most `bound / 2^64` does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the upper half of 128 bits has 64")
    }

    /// One of `options`.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_of<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        let index = self.below(options.len() as u64);
        &options[usize::try_from(index).expect("below a length")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs for seed 1234567 of the authors' reference program.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.number(), 6_457_827_717_110_365_317);
        assert_eq!(random.number(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut random = Random::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(10)).expect("small")] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(random.below(0), 0);
    }
}
