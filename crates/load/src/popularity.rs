//! Chooses which title is requested next.

use crate::options::Popularity;
use std::sync::atomic::{AtomicU64, Ordering};

/// Chooses titles for all viewers of all threads.
#[derive(Debug)]
pub(crate) struct Chooser {
    titles: usize,
    popularity: Popularity,
    /// Cumulative probabilities by rank, for Zipf.
    cumulated: Vec<f64>,
    /// How many requests were cold so far.
    cold: AtomicU64,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index into the targets.
    pub(crate) title: usize,
    /// For a cold title: which of its ranges is next in sequence, counted from 0 without end.
    pub(crate) cold_range: Option<u64>,
}

impl Chooser {
    pub(crate) fn new(popularity: Popularity, titles: usize) -> Self {
        let cumulated = match popularity {
            Popularity::Zipf { exponent } => zipf_cumulated(exponent, titles),
            _ => Vec::new(),
        };
        Self { titles, popularity, cumulated, cold: AtomicU64::new(0) }
    }

    /// The next title for a viewer. `viewer` and `had`, the number of titles it has had, matter only if titles go in turn.
    pub(crate) fn choose(&self, viewer: usize, had: usize, random: &mut fastrand::Rng) -> Choice {
        let title = match self.popularity {
            Popularity::InTurn => (viewer + had) % self.titles,
            Popularity::Zipf { .. } => {
                let place = random.f64();
                self.cumulated.partition_point(|sum| *sum <= place).min(self.titles - 1)
            }
            Popularity::HitRatio { hit_share, hot } if random.f64() < hit_share => {
                random.usize(..hot)
            }
            Popularity::HitRatio { hot, .. } => return self.next_cold(hot),
        };
        Choice { title, cold_range: None }
    }

    /// Range 0 of every cold title, then range 1 of every one, and so on.
    fn next_cold(&self, hot: usize) -> Choice {
        let number = self.cold.fetch_add(1, Ordering::Relaxed);
        let titles = (self.titles - hot) as u64;
        let title = hot + (number % titles) as usize;
        Choice { title, cold_range: Some(number / titles) }
    }

    /// Whether each request chooses anew, rather than each viewing.
    pub(crate) fn is_by_request(&self) -> bool {
        matches!(self.popularity, Popularity::HitRatio { .. })
    }
}

/// The k-th entry is the probability of the ranks 1 to k+1.
fn zipf_cumulated(exponent: f64, titles: usize) -> Vec<f64> {
    let weights = (1..=titles).map(|rank| (rank as f64).powf(-exponent));
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(1.0);
    sums.into_iter().map(|sum| sum / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_in_turn_start_apart_and_come_round() {
        let chooser = Chooser::new(Popularity::InTurn, 3);
        let mut random = fastrand::Rng::with_seed(1);
        let title = |viewer, had, random: &mut _| chooser.choose(viewer, had, random).title;
        assert_eq!([0, 1, 2, 3].map(|viewer| title(viewer, 0, &mut random)), [0, 1, 2, 0]);
        assert_eq!([0, 1, 2].map(|had| title(1, had, &mut random)), [1, 2, 0]);
    }

    #[test]
    fn zipf_draws_have_the_shape_of_the_law() {
        const DRAWS: usize = 100_000;
        let chooser = Chooser::new(Popularity::Zipf { exponent: 1.0 }, 100);
        let mut random = fastrand::Rng::with_seed(7);
        let mut counts = [0usize; 100];
        for _ in 0..DRAWS {
            counts[chooser.choose(0, 0, &mut random).title] += 1;
        }
        // The harmonic number of 100 is 5.187: rank 1 gets 1/5.187 of the draws, rank k a k-th of that.
        for rank in [1, 2, 5, 10] {
            let expected = DRAWS as f64 / 5.187 / rank as f64;
            let drawn = counts[rank - 1] as f64;
            assert!((drawn / expected - 1.0).abs() < 0.1, "rank {rank}: {drawn}, not {expected}");
        }
        assert!(counts[99] > 0);
    }

    #[test]
    fn an_exponent_of_zero_makes_all_titles_alike() {
        let sums = zipf_cumulated(0.0, 4);
        assert_eq!(sums, [0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn the_hit_ratio_is_kept_and_cold_ranges_come_in_sequence() {
        let chooser = Chooser::new(Popularity::HitRatio { hit_share: 0.3, hot: 2 }, 5);
        let mut random = fastrand::Rng::with_seed(3);
        let choices: Vec<_> = (0..10_000).map(|_| chooser.choose(0, 0, &mut random)).collect();
        let (hot, cold): (Vec<_>, Vec<_>) =
            choices.into_iter().partition(|choice| choice.cold_range.is_none());
        assert!((2_800..3_200).contains(&hot.len()), "{}", hot.len());
        assert!(hot.iter().all(|choice| choice.title < 2));
        for (number, choice) in cold.iter().enumerate() {
            let (title, range) = (2 + number % 3, (number / 3) as u64);
            assert_eq!(*choice, Choice { title, cold_range: Some(range) });
        }
    }
}
