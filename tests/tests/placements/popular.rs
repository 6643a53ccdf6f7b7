//! What viewers watch: the same random numbers in each run.

/// Titles are requested by Zipf's law, as films are.
const ZIPF: f64 = 0.9;

/// The same numbers in each run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// At least 0 and less than 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() * bound as f64) as usize
    }
}

/// The title of each viewer, 0 for the most popular one.
pub(crate) fn titles(random: &mut Random, viewers: usize, titles: usize) -> Vec<usize> {
    let weights: Vec<f64> = (1..=titles).map(|rank| (rank as f64).powf(-ZIPF)).collect();
    let sum: f64 = weights.iter().sum();
    let mut title = || {
        let mut left = random.next() * sum;
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(titles - 1)
    };
    (0..viewers).map(|_| title()).collect()
}
