//! The distribution of values: counts in buckets whose width grows with their values.
//!
//! Below `2 * 2^PARTS_LOG2` each value has a bucket of its own; above, each octave is cut into `2^PARTS_LOG2` equal parts. So a quantile
//! read from the buckets is off by one part at most: a quarter of an octave with 2, less than 1% with 7, less than 0.1% with 10.
//! HdrHistogram has the same layout.
//!
//! One thread writes a [`Histogram`], and others read it. [`Buckets`] are a copy that was read, or a distribution used by one thread only.

use crate::number::Number;

/// The bucket that `value` belongs to.
const fn index_of<const PARTS_LOG2: u32>(value: u64) -> usize {
    if value < 2 << PARTS_LOG2 {
        return value as usize;
    }
    let octave = value.ilog2() - PARTS_LOG2;
    ((octave as usize) << PARTS_LOG2) + (value >> octave) as usize
}

/// The least value of a bucket.
const fn start_of<const PARTS_LOG2: u32>(index: usize) -> u64 {
    let Some(octave) = (index >> PARTS_LOG2).checked_sub(1) else { return index as u64 };
    ((index - (octave << PARTS_LOG2)) as u64) << octave
}

/// A distribution that one thread writes and any thread reads.
#[derive(Debug)]
pub struct Histogram<const PARTS_LOG2: u32> {
    counts: Box<[Number]>,
    sum: Number,
}

impl<const PARTS_LOG2: u32> Histogram<PARTS_LOG2> {
    /// An empty histogram for values up to `max`; larger values share one more bucket.
    pub fn up_to(max: u64) -> Self {
        let buckets = index_of::<PARTS_LOG2>(max) + 2;
        Self { counts: (0..buckets).map(|_| Number::default()).collect(), sum: Number::default() }
    }

    /// Counts a value. Only its worker's thread may call this.
    pub fn record(&self, value: u64) {
        let index = index_of::<PARTS_LOG2>(value).min(self.counts.len() - 1);
        self.counts[index].add(1);
        self.sum.add(value);
    }

    /// The current counts.
    pub fn buckets(&self) -> Buckets<PARTS_LOG2> {
        let counts = self.counts.iter().map(Number::value).collect();
        Buckets { counts, sum: self.sum.value() }
    }
}

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets<const PARTS_LOG2: u32> {
    counts: Vec<u64>,
    sum: u64,
}

impl<const PARTS_LOG2: u32> Buckets<PARTS_LOG2> {
    /// An empty distribution with room for values up to `max`.
    pub fn up_to(max: u64) -> Self {
        Self { counts: vec![0; index_of::<PARTS_LOG2>(max) + 2], sum: 0 }
    }

    /// The number of the bucket that `value` belongs to.
    pub const fn bucket_of(value: u64) -> usize {
        index_of::<PARTS_LOG2>(value)
    }

    /// The least value of a bucket.
    pub const fn bucket_start(bucket: usize) -> u64 {
        start_of::<PARTS_LOG2>(bucket)
    }

    /// Counts a value, adding buckets if it needs them.
    pub fn record(&mut self, value: u64) {
        let index = index_of::<PARTS_LOG2>(value);
        if self.counts.len() < index + 2 {
            self.counts.resize(index + 2, 0);
        }
        self.counts[index] += 1;
        self.sum = self.sum.wrapping_add(value);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before);
        Self {
            counts: counts.map(|(now, before)| now.saturating_sub(before)).collect(),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The least value of the bucket that holds the quantile `of_one`, so that the result never exceeds the largest value; `None` without
    /// values.
    pub fn quantile_floor(&self, of_one: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * of_one).ceil() as u64).max(1);
        let mut so_far = 0;
        let reached = self.counts.iter().position(|count| {
            so_far += count;
            so_far >= rank
        });
        reached.map(start_of::<PARTS_LOG2>)
    }

    /// The quantile `of_one`, as if values were spread evenly over their bucket; `None` without values. Values larger than all buckets count
    /// as the beginning of the last one.
    pub fn quantile(&self, of_one: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (count as f64 * of_one).max(1.0);
        let mut below = 0.0;
        for (index, bucket) in self.counts.iter().enumerate() {
            let bucket = *bucket as f64;
            if below + bucket >= rank {
                let start = start_of::<PARTS_LOG2>(index) as f64;
                let is_last = index + 1 == self.counts.len();
                let end = if is_last { start } else { start_of::<PARTS_LOG2>(index + 1) as f64 };
                return Some(start + (end - start) * (rank - below) / bucket);
            }
            below += bucket;
        }
        None
    }

    /// The end of each octave, with the number of values below it. The last bucket has no end and is left out.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut so_far = 0;
        let bounded = self.counts.iter().enumerate().take(self.counts.len().saturating_sub(1));
        bounded.filter_map(move |(index, count)| {
            so_far += count;
            let end = start_of::<PARTS_LOG2>(index + 1);
            end.is_power_of_two().then_some((end, so_far))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Buckets<2> {
        let histogram = Histogram::up_to((1 << 23) - 1);
        for value in values {
            histogram.record(*value);
        }
        histogram.buckets()
    }

    fn every_value_lies_in_its_bucket<const PARTS_LOG2: u32>() {
        let odd = [65_535, 65_536, 1_000_000, 8_388_607, u64::MAX >> 1];
        let mut before = 0;
        for value in (0..5000).chain(odd) {
            let index = index_of::<PARTS_LOG2>(value);
            assert!(start_of::<PARTS_LOG2>(index) <= value, "{value}");
            assert!(value < start_of::<PARTS_LOG2>(index + 1), "{value}");
            let is_next = index == before || index == before + 1;
            assert!(is_next || value >= 5000, "{value}: no bucket is left out");
            before = index;
        }
    }

    #[test]
    fn buckets_have_no_gaps_at_any_precision() {
        every_value_lies_in_its_bucket::<0>();
        every_value_lies_in_its_bucket::<2>();
        every_value_lies_in_its_bucket::<7>();
        every_value_lies_in_its_bucket::<10>();
    }

    #[test]
    fn quantiles_are_right_within_a_quarter_of_an_octave() {
        let waits = of(&(1..=10_000).collect::<Vec<_>>());
        for (of_one, wanted) in [(0.5, 5000.0), (0.95, 9500.0), (0.99, 9900.0)] {
            let read = waits.quantile(of_one).unwrap();
            assert!((read / wanted - 1.0).abs() < 0.12, "{of_one}: {read}");
        }
        assert_eq!(of(&[]).quantile(0.5), None);
    }

    #[test]
    fn values_beyond_the_largest_are_counted_as_its_end() {
        let waits = of(&[u64::MAX, 1 << 23, 7]);
        assert_eq!(waits.count(), 3);
        assert_eq!(waits.quantile(1.0), Some((1 << 23) as f64));
        assert_eq!(waits.octaves().last(), Some((1 << 23, 1)));
    }

    #[test]
    fn only_what_came_since_is_left() {
        let (before, after) = (of(&[100, 100]), of(&[100, 100, 5_000]));
        let since = after.since(&before);
        assert_eq!((since.count(), since.sum()), (1, 5_000));
        assert!(since.quantile(0.5).unwrap() > 4000.0);
    }

    #[test]
    fn what_is_recorded_alone_makes_its_own_room() {
        let mut one: Buckets<7> = Buckets::default();
        assert_eq!((one.quantile_floor(0.5), one.mean()), (None, None));
        for value in [3, 1000, 100_000_000] {
            one.record(value);
        }
        assert_eq!((one.quantile_floor(0.0), one.quantile_floor(0.5)), (Some(3), Some(1000)));
        let largest = one.quantile_floor(1.0).unwrap();
        assert!((99_300_000..=100_000_000).contains(&largest), "{largest}");
        assert_eq!((one.count(), one.mean()), (3, Some(100_001_003.0 / 3.0)));
    }

    #[test]
    fn sums_count_what_each_has_counted() {
        let mut sum = Buckets::default();
        sum.add(&of(&[1, 2]));
        sum.add(&of(&[3]));
        assert_eq!((sum.count(), sum.sum()), (3, 6));
    }
}
