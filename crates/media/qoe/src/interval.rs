//! How sure a figure is: intervals that hold the true value in 95 of 100 cases, for one look at figures of independent sessions.

/// The normal distribution's quantile for 95%.
pub(crate) const SIGMAS: f64 = 1.96;

/// A figure, and the interval around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// The share of `part` in `whole`, with Wilson's interval (E. B. Wilson, JASA 22, 1927), which also holds for few sessions and for shares near 0;
/// `None` without any.
pub fn share(part: u64, whole: u64) -> Option<Interval> {
    if whole == 0 {
        return None;
    }
    let count = whole as f64;
    let value = (part as f64 / count).min(1.0);
    let squared = SIGMAS * SIGMAS;
    let middle = value + squared / (2.0 * count);
    let half = SIGMAS * (value * (1.0 - value) / count + squared / (4.0 * count * count)).sqrt();
    let scale = 1.0 + squared / count;
    let (low, high) = ((middle - half) / scale, (middle + half) / scale);
    Some(Interval { value, low: low.clamp(0.0, value), high: high.clamp(value, 1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_wilsons_interval() {
        let found = share(10, 100).unwrap();
        assert!(
            (found.low - 0.05523).abs() < 1e-4 && (found.high - 0.17437).abs() < 1e-4,
            "{found:?}"
        );
        let none = share(0, 10).unwrap();
        assert!(none.low == 0.0 && (none.high - 0.27753).abs() < 1e-4, "{none:?}");
        assert_eq!(share(10, 10).map(|all| all.high), Some(1.0));
        assert_eq!(share(0, 0), None);
    }
}
