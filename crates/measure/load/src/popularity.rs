//! Chooses the next title to request.

use crate::options::Popularity;
use crate::zipf::Zipf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Chooses titles for all viewers of all threads.
#[derive(Debug)]
pub(crate) struct Chooser {
    titles: usize,
    popularity: Popularity,
    zipf: Option<Zipf>,
    /// Cold requests so far.
    cold: AtomicU64,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index into the targets.
    pub(crate) title: usize,
    /// For a cold title: the number of its next range in the sequence, counted from 0 without end.
    pub(crate) cold_range: Option<u64>,
}

impl Chooser {
    pub(crate) fn new(popularity: Popularity, titles: usize) -> Self {
        let zipf = match popularity {
            Popularity::Zipf { exponent } => Some(Zipf::new(exponent, titles)),
            _ => None,
        };
        Self { titles, popularity, zipf, cold: AtomicU64::new(0) }
    }

    /// The next title for a viewer. `viewer` and `had`, its number of titles so far, matter only if titles go in turn.
    pub(crate) fn choose(&self, viewer: usize, had: usize, random: &mut fastrand::Rng) -> Choice {
        let title = match (self.popularity, &self.zipf) {
            (_, Some(zipf)) => zipf.rank(random.f64()),
            (Popularity::HitRatio { hit_share, hot }, _) if random.f64() < hit_share => {
                random.usize(..hot)
            }
            (Popularity::HitRatio { hot, .. }, _) => return self.next_cold(hot),
            _ => (viewer + had) % self.titles,
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

    /// Returns true if each request makes a choice, not only each viewing.
    pub(crate) fn is_by_request(&self) -> bool {
        matches!(self.popularity, Popularity::HitRatio { .. })
    }
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
