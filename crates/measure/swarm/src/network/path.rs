//! The rate of one viewer's network over time.

use super::model::{self, Model};
use super::{NetworkKind, Profile};
use crate::random::normal;
use fastrand::Rng;
use std::time::Duration;

/// How long a rate lasts.
pub const PIECE: Duration = Duration::from_secs(5);

/// No network is slower than this: at a rate of zero, a transfer would never end.
const BITS_PER_SECOND_MIN: f64 = 1e3;

/// A rate over time, piecewise constant and without end. It only moves forward, and its memory does not grow.
#[derive(Clone, Debug)]
pub struct Path {
    median: f64,
    model: Model,
    random: Rng,
    /// The distance of the rate's logarithm from the median, in deviations.
    state: f64,
    is_dip: bool,
    until: Duration,
    bits_per_second: f64,
}

impl Path {
    /// The path of `profile` from `begins` on. Its first piece is shorter than the others, so that viewers' pieces do not all change at
    /// once.
    pub fn new(profile: &Profile, begins: Duration) -> Self {
        let mut random = Rng::with_seed(profile.seed);
        let until = begins + PIECE.mul_f64(1.0 - random.f64());
        let state = normal(&mut random);
        let (median, model) = (profile.bits_per_second, model::of(profile.kind));
        let mut path =
            Self { median, model, random, state, is_dip: false, until, bits_per_second: 0.0 };
        path.bits_per_second = path.rate();
        path
    }

    /// A path whose rate never changes.
    pub fn constant(bits_per_second: f64) -> Self {
        let profile = Profile {
            kind: NetworkKind::Home,
            bits_per_second,
            round_trip: Duration::ZERO,
            seed: 0,
        };
        let mut path = Self::new(&profile, Duration::ZERO);
        (path.until, path.bits_per_second) =
            (Duration::MAX, bits_per_second.max(BITS_PER_SECOND_MIN));
        path
    }

    /// The rate at `now`, in bits per second. `now` must not go back before the current piece.
    pub fn rate_at(&mut self, now: Duration) -> f64 {
        while self.until <= now {
            self.step();
        }
        self.bits_per_second
    }

    /// When the current rate ends.
    pub fn until(&self) -> Duration {
        self.until
    }

    fn step(&mut self) {
        let correlation = self.model.correlation;
        let news = (1.0 - correlation * correlation).sqrt();
        self.state = correlation * self.state + news * normal(&mut self.random);
        let piece = PIECE.as_secs_f64();
        let dips = if self.is_dip {
            1.0 - piece / self.model.dip_length.as_secs_f64()
        } else {
            piece / self.model.dip_every.as_secs_f64()
        };
        self.is_dip = self.random.f64() < dips;
        self.until += PIECE;
        self.bits_per_second = self.rate();
    }

    fn rate(&self) -> f64 {
        let factor = if self.is_dip { self.model.dip_factor } else { 1.0 };
        (self.median * (self.model.sigma * self.state).exp() * factor).max(BITS_PER_SECOND_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(kind: NetworkKind, seed: u64) -> Profile {
        Profile { kind, bits_per_second: 29e6, round_trip: Duration::ZERO, seed }
    }

    /// Rates at intervals of a piece.
    fn rates(kind: NetworkKind, seed: u64, count: usize) -> Vec<f64> {
        let mut path = Path::new(&profile(kind, seed), Duration::ZERO);
        (0..count).map(|piece| path.rate_at(PIECE * piece as u32)).collect()
    }

    #[test]
    fn a_path_is_the_same_however_it_is_asked() {
        let every = rates(NetworkKind::Mobile, 3, 1000);
        let mut path = Path::new(&profile(NetworkKind::Mobile, 3), Duration::ZERO);
        for piece in [0, 1, 7, 500, 999] {
            assert_eq!(path.rate_at(PIECE * piece as u32), every[piece]);
            assert!(path.until() > PIECE * piece as u32);
        }
        assert_ne!(every, rates(NetworkKind::Mobile, 4, 1000));
    }

    #[test]
    fn mobile_paths_have_the_mean_the_deviation_and_the_correlation_of_the_logs() {
        let rates = rates(NetworkKind::Mobile, 8, 200_000);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        // 31.7 Mb/s, less the dips' 1.3%.
        assert!((mean / 31.4e6 - 1.0).abs() < 0.02, "{mean}");
        let logs: Vec<f64> =
            rates.iter().map(|rate| (rate / 29e6).ln()).filter(|log| *log > -2.0).collect();
        let variance = logs.iter().map(|log| log * log).sum::<f64>() / logs.len() as f64;
        assert!((variance.sqrt() - 0.43).abs() < 0.01, "{}", variance.sqrt());
        let product = logs.windows(2).map(|two| two[0] * two[1]).sum::<f64>() / logs.len() as f64;
        assert!((product / variance - 0.70).abs() < 0.02, "{}", product / variance);
    }

    #[test]
    fn mobile_paths_dip_as_often_and_as_long_as_the_logs() {
        let rates = rates(NetworkKind::Mobile, 9, 200_000);
        let dips: Vec<bool> = rates.iter().map(|rate| *rate < 29e6 * 0.135).collect();
        let share = dips.iter().filter(|dip| **dip).count() as f64 / dips.len() as f64;
        assert!((share - 0.0133).abs() < 0.002, "{share}");
        let begins = dips.windows(2).filter(|two| !two[0] && two[1]).count();
        let every = 200_000.0 * PIECE.as_secs_f64() / begins as f64;
        assert!((every / 450.0 - 1.0).abs() < 0.1, "{every}");
    }

    #[test]
    fn a_constant_path_has_no_end() {
        let mut path = Path::constant(5e6);
        assert_eq!(path.rate_at(Duration::from_secs(1 << 40)), 5e6);
        assert_eq!(path.until(), Duration::MAX);
    }

    #[test]
    fn viewers_pieces_end_at_different_times() {
        let begins = Duration::from_secs(100);
        let until = |seed| Path::new(&profile(NetworkKind::Home, seed), begins).until();
        assert_ne!(until(1), until(2));
        assert!((1..100).all(|seed| until(seed) > begins && until(seed) <= begins + PIECE));
    }
}
