//! Random numbers that belong to one viewer and one purpose.

use fastrand::Rng;
use std::f64::consts::TAU;

/// The purpose of a sequence. Each purpose has its own, so that one more draw for one of them does not shift the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Arrival = 1,
    Title,
    Watch,
    Seeks,
    Network,
}

/// The sequence of `purpose` for viewer `number` of the crowd of `seed`.
pub(crate) fn sequence(seed: u64, number: u64, purpose: Purpose) -> Rng {
    Rng::with_seed(mix(mix(mix(seed) ^ number) ^ purpose as u64))
}

/// Spreads neighbouring numbers over all 64 bits: the output function of `SplitMix64` (Steele, Lea and Flood, 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A draw from the normal distribution with mean 0 and deviation 1 (Box and Muller, 1958).
pub(crate) fn normal(random: &mut Rng) -> f64 {
    // 1 - [0, 1) is never 0, so the logarithm is finite.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

/// A draw from the log-normal distribution with this median; `sigma` is the deviation of the logarithm.
pub(crate) fn log_normal(random: &mut Rng, median: f64, sigma: f64) -> f64 {
    median * (sigma * normal(random)).exp()
}

/// A draw from the exponential distribution with mean 1.
pub(crate) fn exponential(random: &mut Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_the_mean_and_the_spread_of_the_law() {
        let mut random = Rng::with_seed(1);
        let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean}, {variance}");
        // 2.275% are beyond two deviations on each side.
        let beyond = draws.iter().filter(|draw| **draw > 2.0).count();
        assert!((2000..2550).contains(&beyond), "{beyond}");
    }

    #[test]
    fn neighbouring_viewers_and_purposes_have_unlike_sequences() {
        let first = |seed, number, purpose| sequence(seed, number, purpose).u64(..);
        let draws = [
            first(1, 1, Purpose::Arrival),
            first(1, 2, Purpose::Arrival),
            first(2, 1, Purpose::Arrival),
            first(1, 1, Purpose::Network),
        ];
        for (index, draw) in draws.iter().enumerate() {
            assert!(!draws[index + 1..].contains(draw));
        }
        assert_eq!(first(1, 1, Purpose::Title), first(1, 1, Purpose::Title));
    }
}
