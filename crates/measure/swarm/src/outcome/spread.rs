//! The distribution of one quantity over sessions.

use serde_json::{Map, Value, json};
use telemetry::Buckets;

/// A distribution of values, precise to less than 1%. Counts are whole numbers, so the order of values, and of adding distributions, does
/// not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Values are counted in this many parts of their unit.
    parts: u32,
    buckets: Buckets<7>,
}

/// The percentiles shown of each distribution.
pub(crate) const PERCENTS: [u32; 7] = [1, 5, 25, 50, 75, 95, 99];

impl Spread {
    /// An empty distribution of values that are rounded to this many parts of their unit.
    pub(crate) fn new(parts: u32) -> Self {
        Self { parts, buckets: Buckets::default() }
    }

    pub(crate) fn record(&mut self, value: f64) {
        // The cast maps negative values, and those that are not a number, to 0.
        self.buckets.record((value * f64::from(self.parts)).round() as u64);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.buckets.add(&other.buckets);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.count()
    }

    /// Their mean; `None` if there are no values.
    pub fn mean(&self) -> Option<f64> {
        self.buckets.mean().map(|mean| mean / f64::from(self.parts))
    }

    /// The given percentile; `None` if there are no values.
    pub fn percentile(&self, percent: u32) -> Option<f64> {
        let value = self.buckets.quantile_floor(f64::from(percent) / 100.0);
        value.map(|value| value as f64 / f64::from(self.parts))
    }

    pub(crate) fn to_json(&self) -> Value {
        let percentiles = PERCENTS
            .iter()
            .map(|percent| (format!("p{percent}"), json!(self.percentile(*percent))));
        let mut map: Map<String, Value> = percentiles.collect();
        map.insert("mean".to_owned(), json!(self.mean()));
        map.insert("count".to_owned(), json!(self.count()));
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_and_the_mean_is_exact() {
        let mut spread = Spread::new(1000);
        for value in 1..=1000 {
            spread.record(f64::from(value) / 1000.0);
        }
        for (percent, wanted) in [(1, 0.01), (50, 0.5), (99, 0.99)] {
            let found = spread.percentile(percent).expect("values");
            assert!((found / wanted - 1.0).abs() < 0.01, "p{percent}: {found}");
        }
        assert_eq!(spread.mean(), Some(0.5005));
    }

    #[test]
    fn nothing_is_shown_as_null_and_anything_can_be_recorded() {
        let mut spread = Spread::new(1);
        assert_eq!(spread.to_json()["p50"], Value::Null);
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            spread.record(value);
        }
        assert_eq!(spread.count(), 3);
        assert_eq!(spread.percentile(50), Some(0.0));
    }
}
