//! Quantiles of the last one to two hours, and counts since the start.

use telemetry::Buckets;

/// Values of a window, precise to less than 1%.
pub(crate) type Window = Buckets<7>;

/// The largest value; larger ones count as this one. A day in milliseconds, 10 Gb/s in kbit/s and a whole in millionths all fit, in 22 KB
/// of buckets.
pub(crate) const VALUE_MAX: u64 = 100_000_000;

/// The distribution of one quantity over sessions, in whole units: since the start, as counts up to some bounds; and recently, as
/// quantiles.
#[derive(Clone, Debug)]
pub(crate) struct Distribution {
    count_total: u64,
    sum_total: u64,
    /// Ascending.
    bounds: &'static [u64],
    /// The number of values up to each bound and above the bound before it.
    counts: Vec<u64>,
    present: Window,
    past: Window,
}

impl Distribution {
    /// An empty distribution with these ascending bounds.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        let counts = vec![0; bounds.len()];
        let (present, past) = (Window::default(), Window::default());
        Self { count_total: 0, sum_total: 0, bounds, counts, present, past }
    }

    /// Counts a session's value.
    pub(crate) fn record(&mut self, value: u64) {
        let value = value.min(VALUE_MAX);
        self.count_total += 1;
        self.sum_total += value;
        let index = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.present.record(value);
    }

    /// Ends a window.
    pub(crate) fn rotate(&mut self) {
        self.past = std::mem::take(&mut self.present);
    }

    /// Adds the counts of `other`, which has the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count_total += other.count_total;
        self.sum_total += other.sum_total;
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.present.add(&other.present);
        self.past.add(&other.past);
    }

    /// The bounds, each with the number of values since the start up to it.
    pub(crate) fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }

    /// Values since the start.
    pub(crate) fn count_total(&self) -> u64 {
        self.count_total
    }

    /// Their sum.
    pub(crate) fn sum_total(&self) -> u64 {
        self.sum_total
    }

    /// The values of the window and of sessions in progress.
    pub(crate) fn window(&self, live: impl Iterator<Item = u64>) -> Window {
        let mut window = self.present.clone();
        window.add(&self.past);
        for value in live {
            window.record(value.min(VALUE_MAX));
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;

    #[test]
    fn quantiles_are_those_of_the_last_two_windows() {
        let mut distribution = Distribution::new(&[10, 1000]);
        for value in 1..=100 {
            distribution.record(value * 10);
        }
        let median =
            |distribution: &Distribution| distribution.window(empty()).quantile_floor(0.5).unwrap();
        let near = |found: u64, value: u64| found.abs_diff(value) * 100 <= value;
        assert!(near(median(&distribution), 500), "{}", median(&distribution));
        distribution.rotate();
        assert!(near(median(&distribution), 500));
        distribution.record(5000);
        distribution.rotate();
        assert!(near(median(&distribution), 5000), "the first window is forgotten");
        distribution.rotate();
        assert_eq!(distribution.window(empty()).count(), 0);
        assert_eq!((distribution.count_total(), distribution.sum_total()), (101, 55_500));
    }

    #[test]
    fn anything_can_be_recorded() {
        let mut distribution = Distribution::new(&[10, 1000]);
        for value in [0, u64::MAX, VALUE_MAX] {
            distribution.record(value);
        }
        let window = distribution.window([7, u64::MAX].into_iter());
        assert_eq!((window.count(), window.quantile_floor(0.0)), (5, Some(0)));
        let mut other = Distribution::new(&[10, 1000]);
        other.add(&distribution);
        assert_eq!((other.count_total(), other.window(empty()).count()), (3, 3));
    }

    #[test]
    fn values_are_counted_up_to_each_bound() {
        let mut distribution = Distribution::new(&[10, 1000]);
        for value in [0, 10, 11, 1000, 1001] {
            distribution.record(value);
        }
        assert_eq!(distribution.up_to().collect::<Vec<_>>(), [(10, 2), (1000, 4)]);
    }
}
