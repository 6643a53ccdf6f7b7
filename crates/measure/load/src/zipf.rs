//! Zipf's law for the popularity of titles.

/// Titles by rank: rank k has a probability proportional to k to the power of minus the exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The k-th entry is the probability of the ranks 1 to k+1.
    cumulated: Vec<f64>,
}

impl Zipf {
    /// Zipf's law over this many titles, at least one. An exponent of 0 makes all equally likely.
    pub fn new(exponent: f64, titles: usize) -> Self {
        let weights = (1..=titles).map(|rank| (rank as f64).powf(-exponent));
        let sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or(1.0);
        Self { cumulated: sums.into_iter().map(|sum| sum / total).collect() }
    }

    /// The title, counted from 0, for an even draw between 0 and 1.
    pub fn rank(&self, draw: f64) -> usize {
        let last = self.cumulated.len().saturating_sub(1);
        self.cumulated.partition_point(|sum| *sum <= draw).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_of_zero_makes_all_titles_alike() {
        assert_eq!(Zipf::new(0.0, 4).cumulated, [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(
            [0.0, 0.25, 0.6, 0.999, 1.0].map(|draw| Zipf::new(0.0, 4).rank(draw)),
            [0, 1, 2, 3, 3]
        );
    }

    #[test]
    fn one_title_is_always_chosen() {
        assert_eq!([0.0, 0.5, 1.0].map(|draw| Zipf::new(1.0, 1).rank(draw)), [0, 0, 0]);
    }
}
