//! Estimates the network's rate from past downloads: the lower of two moving averages.
//!
//! This is the estimator of hls.js, which took it from Shaka Player. An average over a few seconds follows a fall quickly, one over more
//! seconds follows a rise slowly, and the lower of the two is cautious in either direction. A sample's weight is its duration, so a short
//! one changes little. Averages start without a past: the first sample alone is the first estimate.

use std::time::Duration;

/// After this many seconds of download, a sample has half its weight: hls.js's `abrEwmaFastVoD` and `abrEwmaSlowVoD`.
const HALF_LIVES_S: [f64; 2] = [3.0, 9.0];

/// The least duration of a sample (hls.js's `minDelayMs_`). Data that arrives sooner was in a buffer on the way, and says little about the
/// network.
const TOOK_MIN: Duration = Duration::from_millis(50);

/// An estimate of the network's rate.
#[derive(Clone, Debug)]
pub struct Estimate {
    averages: [Average; 2],
}

impl Estimate {
    /// The rate in bits per second to assume before the first sample: hls.js's `abrEwmaDefaultEstimate`.
    pub const BEFORE_FIRST: f64 = 500_000.0;

    /// An estimate without samples.
    pub fn new() -> Self {
        Self { averages: HALF_LIVES_S.map(Average::new) }
    }

    /// Adds a sample: bytes that arrived, and how long they took.
    pub fn handle_sample(&mut self, bytes: u64, took: Duration) {
        let seconds = took.max(TOOK_MIN).as_secs_f64();
        let bits_per_second = bits(bytes) / seconds;
        for average in &mut self.averages {
            average.handle_sample(seconds, bits_per_second);
        }
    }

    /// The lower average in bits per second, once there is a sample.
    pub fn bits_per_second(&self) -> Option<f64> {
        let [fast, slow] = &self.averages;
        Some(fast.value()?.min(slow.value()?))
    }
}

impl Default for Estimate {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes as bits, for division by seconds.
pub(crate) fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

/// The rate of one transfer in bits per second, with the same least duration as in [`Estimate`].
pub(crate) fn rate(bytes: u64, took: Duration) -> f64 {
    bits(bytes) / took.max(TOOK_MIN).as_secs_f64()
}

/// An exponentially weighted moving average, weighted by time spent downloading.
#[derive(Clone, Debug)]
struct Average {
    half_life_s: f64,
    sum: f64,
    /// The weight still left for the time before the first sample, 1 at first. Dividing by its complement removes the zero that the average
    /// started with.
    past: f64,
}

impl Average {
    fn new(half_life_s: f64) -> Self {
        Self { half_life_s, sum: 0.0, past: 1.0 }
    }

    fn handle_sample(&mut self, seconds: f64, value: f64) {
        let kept = (-seconds / self.half_life_s).exp2();
        self.sum = self.sum * kept + value * (1.0 - kept);
        self.past *= kept;
    }

    fn value(&self) -> Option<f64> {
        (self.past < 1.0).then(|| self.sum / (1.0 - self.past))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABIT: u64 = 125_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn near(estimate: &Estimate, expected: f64) -> bool {
        let estimate = estimate.bits_per_second().unwrap();
        (estimate / expected - 1.0).abs() < 1e-9
    }

    #[test]
    fn there_is_no_estimate_before_the_first_sample() {
        assert_eq!(Estimate::new().bits_per_second(), None);
    }

    #[test]
    fn the_first_sample_is_the_first_estimate() {
        let mut estimate = Estimate::new();
        estimate.handle_sample(2 * MEGABIT, seconds(1));
        assert!(near(&estimate, 2e6));
    }

    /// After exactly one half-life of the fast average, the old value and the new one have equal weight in it: (0.5 * 8 + (1 - 0.5) * 2),
    /// corrected for the known past of 9 s.
    #[test]
    fn a_fall_is_followed_by_the_fast_average() {
        let mut estimate = Estimate::new();
        estimate.handle_sample(8 * 9 * MEGABIT, seconds(9));
        estimate.handle_sample(2 * 3 * MEGABIT, seconds(3));
        let known = 1.0 - 0.5_f64.powi(4);
        let fast = (8e6 * (1.0 - 0.5_f64.powi(3)) * 0.5 + 2e6 * 0.5) / known;
        assert!(near(&estimate, fast), "{estimate:?}");
    }

    #[test]
    fn a_rise_is_followed_by_the_slow_average() {
        let mut estimate = Estimate::new();
        estimate.handle_sample(2 * 9 * MEGABIT, seconds(9));
        estimate.handle_sample(8 * 9 * MEGABIT, seconds(9));
        let slow = (2e6 * 0.5 * 0.5 + 8e6 * 0.5) / 0.75;
        assert!(near(&estimate, slow), "{estimate:?}");
    }

    #[test]
    fn a_small_sample_changes_little() {
        let mut estimate = Estimate::new();
        estimate.handle_sample(40 * MEGABIT, seconds(10));
        estimate.handle_sample(1_000, Duration::from_micros(10));
        let after = estimate.bits_per_second().unwrap();
        assert!((after / 4e6 - 1.0).abs() < 0.02, "{after}");
    }

    #[test]
    fn a_transfer_in_no_time_has_a_finite_rate() {
        let mut estimate = Estimate::new();
        estimate.handle_sample(u64::MAX, Duration::ZERO);
        assert!(estimate.bits_per_second().unwrap().is_finite());
    }
}
