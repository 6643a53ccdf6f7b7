//! How long viewers wait for the first byte of an answer: from the moment its request was whole to the moment TCP took the
//! first byte of it. A histogram per worker, which alone writes to it; readers sum.
//!
//! Buckets are a quarter of an octave wide, so that a quantile read from them is off by a tenth at most; Prometheus is given
//! whole octaves.

use crate::telemetry::Number;
use std::fmt::Write;
use std::time::Duration;

/// Below this, waits are not told apart.
const FIRST_MICROSECONDS: u64 = 32;

/// Octaves above it: up to 8.4 s.
const OCTAVES: usize = 18;

/// Buckets to an octave, as a power of two.
const PARTS_LOG2: u32 = 2;
const PARTS: usize = 1 << PARTS_LOG2;

/// Everything shorter, the parts of the octaves, everything longer.
const BUCKETS: usize = OCTAVES * PARTS + 2;

/// One worker's histogram.
#[derive(Debug)]
pub struct FirstByte {
    buckets: [Number; BUCKETS],
    microseconds_total: Number,
}

impl Default for FirstByte {
    fn default() -> Self {
        let buckets = std::array::from_fn(|_| Number::default());
        Self { buckets, microseconds_total: Number::default() }
    }
}

impl FirstByte {
    /// Counts one wait. Only its worker's thread may.
    pub fn note(&self, waited: Duration) {
        let microseconds = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(microseconds)].add(1);
        self.microseconds_total.add(microseconds);
    }
}

/// The sum of several histograms, or the difference of two sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    buckets: [u64; BUCKETS],
    microseconds_total: u64,
}

impl Waits {
    /// The sum.
    pub fn of<'a>(workers: impl Iterator<Item = &'a FirstByte>) -> Self {
        let mut sum = Self { buckets: [0; BUCKETS], microseconds_total: 0 };
        for worker in workers {
            for (total, bucket) in sum.buckets.iter_mut().zip(&worker.buckets) {
                *total += bucket.value();
            }
            sum.microseconds_total += worker.microseconds_total.value();
        }
        sum
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets =
            std::array::from_fn(|index| self.buckets[index].saturating_sub(earlier.buckets[index]));
        let microseconds_total = self.microseconds_total.saturating_sub(earlier.microseconds_total);
        Self { buckets, microseconds_total }
    }

    /// How many waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The wait that a part `of_one` of all did not exceed, in seconds; `None` without any. What is longer than all buckets
    /// counts as the end of the last.
    pub fn quantile_seconds(&self, of_one: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (count as f64 * of_one).max(1.0);
        let mut below = 0.0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            let bucket = *bucket as f64;
            if below + bucket >= rank {
                let (start, end) = (start_microseconds(index), start_microseconds(index + 1));
                let within = (rank - below) / bucket;
                return Some((start + (end - start) * within) / 1e6);
            }
            below += bucket;
        }
        None
    }

    /// As Prometheus reads a histogram, under `name`.
    pub fn prometheus(&self, name: &str) -> String {
        let mut text = format!(
            "# HELP {name} From the end of a request to the first byte of its answer that TCP took.\n# TYPE {name} histogram\n"
        );
        let mut so_far = 0;
        for (index, bucket) in self.buckets.iter().enumerate().take(BUCKETS - 1) {
            so_far += bucket;
            if index % PARTS == 0 {
                let bound = start_microseconds(index + 1) / 1e6;
                let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {so_far}");
            }
        }
        let (count, sum) = (self.count(), self.microseconds_total as f64 / 1e6);
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
        text
    }
}

fn bucket_of(microseconds: u64) -> usize {
    if microseconds < FIRST_MICROSECONDS {
        return 0;
    }
    let octave = microseconds.ilog2();
    let part = (microseconds >> (octave - PARTS_LOG2)) as usize & (PARTS - 1);
    let octaves = (octave - FIRST_MICROSECONDS.ilog2()) as usize;
    (1 + octaves * PARTS + part).min(BUCKETS - 1)
}

/// Where a bucket begins. That of the bucket after the last is where the last begins.
fn start_microseconds(index: usize) -> f64 {
    let Some(index) = index.min(BUCKETS - 1).checked_sub(1) else { return 0.0 };
    let octave = (FIRST_MICROSECONDS << (index / PARTS)) as f64;
    octave * (1.0 + (index % PARTS) as f64 / PARTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waits_microseconds: &[u64]) -> Waits {
        let histogram = FirstByte::default();
        for wait in waits_microseconds {
            histogram.note(Duration::from_micros(*wait));
        }
        Waits::of([&histogram].into_iter())
    }

    #[test]
    fn each_wait_lies_in_the_bucket_that_its_bounds_say() {
        for wait in (0..200).chain([1_000, 65_535, 65_536, 1_000_000, 8_388_607]) {
            let bucket = bucket_of(wait);
            assert!(start_microseconds(bucket) <= wait as f64, "{wait}");
            assert!((wait as f64) < start_microseconds(bucket + 1), "{wait}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_right_within_a_quarter_of_an_octave() {
        let waits = of(&(1..=10_000).collect::<Vec<_>>());
        for (of_one, wanted) in [(0.5, 0.005), (0.95, 0.0095), (0.99, 0.0099)] {
            let read = waits.quantile_seconds(of_one).unwrap();
            assert!((read / wanted - 1.0).abs() < 0.12, "{of_one}: {read}");
        }
        assert_eq!(of(&[]).quantile_seconds(0.5), None);
    }

    #[test]
    fn only_what_came_since_is_left() {
        let (before, after) = (of(&[100, 100]), of(&[100, 100, 5_000]));
        let since = after.since(&before);
        assert_eq!(since.count(), 1);
        assert!(since.quantile_seconds(0.5).unwrap() > 0.004);
    }

    #[test]
    fn prometheus_reads_cumulative_buckets_that_end_with_the_count() {
        let text = of(&[10, 40, 20_000_000]).prometheus("wait_seconds");
        for line in [
            "wait_seconds_bucket{le=\"0.000032\"} 1\n",
            "wait_seconds_bucket{le=\"0.000064\"} 2\n",
            "wait_seconds_bucket{le=\"8.388608\"} 2\n",
            "wait_seconds_bucket{le=\"+Inf\"} 3\n",
            "wait_seconds_sum 20.00005\n",
            "wait_seconds_count 3\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
