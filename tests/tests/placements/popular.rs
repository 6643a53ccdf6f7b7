//! What viewers watch: the same random numbers in each run.

use fullbore_tests::Random;

/// Titles are requested by Zipf's law, as films are.
const ZIPF: f64 = 0.9;

/// Less than `bound`.
pub(crate) fn below(random: &mut Random, bound: usize) -> usize {
    (random.share() * bound as f64) as usize
}

/// The title of each viewer, 0 for the most popular one.
pub(crate) fn titles(random: &mut Random, viewers: usize, titles: usize) -> Vec<usize> {
    let weights: Vec<f64> = (1..=titles).map(|rank| (rank as f64).powf(-ZIPF)).collect();
    let sum: f64 = weights.iter().sum();
    let mut title = || {
        let mut left = random.share() * sum;
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(titles - 1)
    };
    (0..viewers).map(|_| title()).collect()
}
