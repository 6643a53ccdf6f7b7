//! Medians, and how far rounds are from them.

/// The median of some figures, and the median of their distances from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Median.
    pub(crate) median: f64,
    /// Median absolute deviation from it.
    pub(crate) deviation: f64,
}

impl Summary {
    /// Summarizes one or more figures.
    ///
    /// # Panics
    /// If there are no figures.
    pub(crate) fn of(figures: &[f64]) -> Self {
        let median = middle(figures.to_vec());
        let deviation = middle(figures.iter().map(|figure| (figure - median).abs()).collect());
        Self { median, deviation }
    }
}

fn middle(mut figures: Vec<f64>) -> f64 {
    assert!(!figures.is_empty(), "a summary needs a figure");
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[half] } else { (figures[half - 1] + figures[half]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_round_moves_neither_median_nor_deviation_far() {
        let summary = Summary::of(&[10.0, 11.0, 9.0, 10.0, 1000.0]);
        assert_eq!(summary, Summary { median: 10.0, deviation: 1.0 });
    }
}
