//! The distribution of one quantity over sessions, in a form that is sent, saved and added.
//!
//! The buckets are those of [`telemetry::Buckets`] with 64 in an octave: a quantile is right within 1.6%, and sums and means are exact. Only buckets
//! with values are kept, because most groups have few sessions.

use serde::{Deserialize, Serialize};
use telemetry::Buckets;

use crate::distribution::VALUE_MAX;
use crate::interval::{Interval, SIGMAS};

type Layout = Buckets<6>;

/// The highest bucket.
const BUCKET_MAX: usize = Layout::bucket_of(VALUE_MAX);

/// A distribution of whole numbers up to a hundred million. Larger ones count as this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseBuckets {
    sum: u64,
    /// Buckets and their counts, in ascending order.
    counts: Vec<(u16, u32)>,
}

impl SparseBuckets {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        let value = value.min(VALUE_MAX);
        // Not more than `BUCKET_MAX`, which fits.
        let bucket = Layout::bucket_of(value) as u16;
        self.add(&Self { sum: value, counts: vec![(bucket, 1)] });
    }

    /// Adds the counts of `other`; nothing of it if a count would become too large, so that counts and sum stay those of the same values.
    pub fn add(&mut self, other: &Self) {
        let fits = other.counts.iter().all(|(bucket, count)| {
            let own = self.counts.binary_search_by_key(bucket, |(bucket, _)| *bucket);
            own.is_ok_and(|at| self.counts[at].1.checked_add(*count).is_some()) || own.is_err()
        });
        let Some(sum) = self.sum.checked_add(other.sum).filter(|_| fits) else { return };
        self.sum = sum;
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        let mut merged = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut own, mut more) = (self.counts.iter().peekable(), other.counts.iter().peekable());
        while let (Some((mine, count)), Some((theirs, others))) = (own.peek(), more.peek()) {
            let is_both = mine == theirs;
            let (takes_own, takes_other) = (mine <= theirs, theirs <= mine);
            merged.push(match is_both {
                true => (*mine, count + others),
                false if takes_own => (*mine, *count),
                false => (*theirs, *others),
            });
            own.next_if(|_| takes_own);
            more.next_if(|_| takes_other);
        }
        merged.extend(own);
        merged.extend(more);
        self.counts = merged;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The number of values up to `value`, as if they were spread evenly over their bucket.
    pub fn up_to(&self, value: u64) -> u64 {
        let below = self.counts.iter().map(|(bucket, count)| {
            let (start, end) = bounds(*bucket);
            let part = (value as f64 + 1.0 - start) / (end - start);
            (f64::from(*count) * part.clamp(0.0, 1.0)).round() as u64
        });
        below.sum()
    }

    /// The quantile `of_one`, and between which two values it lies: those at the ranks which a binomial distribution allows it. `None` without
    /// values. Where [`has_interval`](Self::has_interval) is false, the interval is too narrow.
    pub fn quantile(&self, of_one: f64) -> Option<Interval> {
        let count = self.count() as f64;
        let rank = count * of_one;
        let half = SIGMAS * (rank * (1.0 - of_one)).sqrt();
        let at = |rank: f64| self.at_rank(rank.clamp(1.0, count.max(1.0)));
        let value = at(rank)?;
        Some(Interval {
            value,
            low: at((rank - half).floor())?.min(value),
            high: at((rank + half).ceil())?.max(value),
        })
    }

    /// Whether there are enough values that the interval of a quantile holds the true one in 95 of 100 cases: the outermost values are far enough
    /// out. The worst tenth needs 35 values.
    pub fn has_interval(&self, of_one: f64) -> bool {
        let count = self.count() as f64;
        let rank = count * of_one;
        let half = SIGMAS * (rank * (1.0 - of_one)).sqrt();
        rank - half >= 0.0 && rank + half <= count
    }

    /// Keeps eight buckets in an octave: a quantile is right within 7%, and the sum stays exact.
    pub(crate) fn coarsen(&mut self) {
        let fine = std::mem::take(&mut self.counts);
        for (bucket, count) in fine {
            // The middle of eight.
            let middle = ((bucket & !7) + 4).min(BUCKET_MAX as u16);
            match self.counts.last_mut() {
                Some((last, sum)) if *last == middle => *sum = sum.saturating_add(count),
                _ => self.counts.push((middle, count)),
            }
        }
    }

    fn at_rank(&self, rank: f64) -> Option<f64> {
        let mut below = 0.0;
        for (bucket, count) in &self.counts {
            let count = f64::from(*count);
            if below + count >= rank {
                let (start, end) = bounds(*bucket);
                return Some(start + (end - start) * (rank - below) / count);
            }
            below += count;
        }
        None
    }

    /// How many buckets it has.
    pub fn buckets(&self) -> usize {
        self.counts.len()
    }

    /// Whether its buckets are those of some values.
    pub(crate) fn is_readable(&self) -> bool {
        let is_sorted = self.counts.is_sorted_by(|(one, _), (next, _)| one < next);
        is_sorted
            && self.counts.iter().all(|(at, count)| usize::from(*at) <= BUCKET_MAX && *count > 0)
    }

    /// Whether it could have been made by [`record`](Self::record), with at most `count_max` values of at most `value_max` each.
    pub(crate) fn is_sound(&self, count_max: u64, value_max: u64) -> bool {
        let in_range =
            |(bucket, _): &(u16, u32)| Layout::bucket_start((*bucket).into()) <= value_max;
        if !self.is_readable() || !self.counts.iter().all(in_range) || self.count() > count_max {
            return false;
        }
        let total = |bucket: fn(u16) -> u128| {
            self.counts.iter().map(|(at, count)| bucket(*at) * u128::from(*count)).sum::<u128>()
        };
        let least = total(|at| Layout::bucket_start(at.into()).into());
        let most = total(|at| Layout::bucket_start(usize::from(at) + 1).into());
        (least..=most).contains(&u128::from(self.sum))
    }
}

/// The least value of a bucket, and of the next one.
fn bounds(bucket: u16) -> (f64, f64) {
    let bucket = usize::from(bucket);
    (Layout::bucket_start(bucket) as f64, Layout::bucket_start(bucket + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> SparseBuckets {
        let mut spread = SparseBuckets::default();
        values.iter().for_each(|value| spread.record(*value));
        spread
    }

    #[test]
    fn quantiles_lie_in_their_interval_and_are_right_within_2_percent() {
        let spread = of(&(1..=1000).map(|value| value * 7).collect::<Vec<_>>());
        for (of_one, expected) in [(0.5, 3500.0), (0.9, 6300.0), (0.95, 6650.0)] {
            let found = spread.quantile(of_one).unwrap();
            assert!((found.value / expected - 1.0).abs() < 0.016, "{found:?}");
            assert!(found.low < found.value && found.value < found.high, "{found:?}");
        }
        // Ranks 469 to 531 of 1,000.
        let median = spread.quantile(0.5).unwrap();
        assert!((3230.0..3340.0).contains(&median.low), "{median:?}");
        assert!((3660.0..3770.0).contains(&median.high), "{median:?}");
        assert_eq!(spread.mean(), Some(3503.5));
        assert_eq!(
            (SparseBuckets::default().quantile(0.5), SparseBuckets::default().mean()),
            (None, None)
        );
        assert!(spread.up_to(3500).abs_diff(500) <= 8 && spread.up_to(8000) == 1000);
    }

    #[test]
    fn what_no_session_makes_is_unsound() {
        let good = of(&[5, 700, 700]);
        assert!(good.is_sound(3, 1000) && !good.is_sound(2, 1000) && !good.is_sound(3, 600));
        let broken: [fn(&mut SparseBuckets); 6] = [
            |spread| spread.counts.reverse(),
            |spread| spread.counts.push((u16::MAX, 1)),
            |spread| spread.counts[0].1 = 0,
            |spread| spread.sum = 3,
            |spread| spread.sum = u64::MAX,
            |spread| spread.counts[1].0 = spread.counts[0].0,
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut spread = good.clone();
            break_it(&mut spread);
            assert!(!spread.is_sound(100, VALUE_MAX), "{number}");
        }
    }

    #[test]
    fn a_count_that_is_full_takes_no_more_and_stays_sound() {
        let mut full = of(&[700]);
        while full.count() < u64::from(u32::MAX) / 2 {
            full.add(&full.clone());
        }
        let most = full.clone();
        full.add(&most);
        assert_eq!(full, most, "twice as many don't fit");
        assert!(full.is_sound(u64::MAX, 1000), "{full:?}");
        full.add(&of(&[5]));
        assert_eq!(full.count(), most.count() + 1, "another one can");
    }

    #[test]
    fn coarse_buckets_are_fewer_and_right_within_7_percent() {
        let fine = of(&(1..=100_000).step_by(7).collect::<Vec<_>>());
        let mut coarse = fine.clone();
        coarse.coarsen();
        assert!(coarse.buckets() * 5 < fine.buckets(), "{} {}", coarse.buckets(), fine.buckets());
        assert_eq!((coarse.count(), coarse.sum()), (fine.count(), fine.sum()));
        assert!(coarse.is_readable());
        for of_one in [0.1, 0.5, 0.9] {
            let [own, exact] = [&coarse, &fine].map(|one| one.quantile(of_one).unwrap().value);
            assert!((own / exact - 1.0).abs() < 0.07, "{own} {exact}");
        }
        let once = coarse.clone();
        coarse.coarsen();
        assert_eq!(coarse, once);
    }

    /// How often a quantile's interval holds the true one, of 4,000 draws.
    fn covered(values: usize, of_one: f64) -> f64 {
        let mut state = 1_u64;
        let mut uniform = || {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        let most = (1_u64 << 24) as f64;
        let held = (0..4000).filter(|_| {
            let drawn: Vec<_> = (0..values).map(|_| uniform()).collect();
            let found = of(&drawn).quantile(of_one).unwrap();
            (found.low..=found.high).contains(&(most * of_one))
        });
        held.count() as f64 / 4000.0
    }

    #[test]
    fn intervals_hold_the_true_quantile_in_95_of_100_cases() {
        for (values, of_one) in [(10, 0.5), (20, 0.5), (50, 0.5), (35, 0.9), (50, 0.9), (50, 0.1)] {
            let share = covered(values, of_one);
            assert!(share > 0.94, "{values} values, {of_one}: {share}");
            assert!(of(&vec![1; values]).has_interval(of_one), "{values} {of_one}");
        }
        for (values, of_one) in [(10, 0.9), (20, 0.1), (34, 0.9), (3, 0.5)] {
            assert!(!of(&vec![1; values]).has_interval(of_one), "{values} {of_one}");
        }
        assert!(covered(10, 0.9) < 0.9, "with ten values, the worst tenth is anyone's guess");
    }

    proptest! {
        #[test]
        fn spreads_add_exactly(
            one in prop::collection::vec(0..200_000_000_u64, 0..40),
            other in prop::collection::vec(0..3000_u64, 0..40),
        ) {
            let mut sum = of(&one);
            sum.add(&of(&other));
            let both = of(&[one, other].concat());
            prop_assert_eq!(&sum, &both);
            prop_assert!(sum.is_sound(80, VALUE_MAX));
            let sent = serde_json::to_vec(&sum).unwrap();
            prop_assert_eq!(serde_json::from_slice::<SparseBuckets>(&sent).unwrap(), sum);
        }
    }
}
