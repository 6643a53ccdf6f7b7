//! The past: five minutes of the curves, and one minute of all counters.

use super::Figures;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Seconds of the curves.
const POINTS_MAX: usize = 300;

/// Seconds of the counters, for figures of the last minute.
const FIGURES_MAX: usize = 61;

/// The columns that are drawn as curves, in the order of a [`Point`].
pub(super) const COLUMNS: [&str; 14] = [
    "unix_seconds",
    "sent_gbps",
    "connections",
    "sending",
    "cpu_mean",
    "cpu_max",
    "gbps_per_cpu_percent",
    "first_byte_p50_ms",
    "first_byte_p99_ms",
    "cache_hit_ratio",
    "disk_read_mb_per_second",
    "nic_sent_gbps",
    "requests_per_second",
    "errors_per_second",
];

/// One second of the curves; `None` if there was nothing to measure.
pub(super) type Point = [Option<f64>; COLUMNS.len()];

/// The curves so far.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Point>);

impl History {
    /// Adds a second, and drops the oldest one.
    pub(super) fn push(&mut self, point: Point) {
        if self.0.len() == POINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// A list per column, by the column's name, oldest first.
    pub(super) fn json(&self) -> Value {
        let columns: serde_json::Map<_, _> = COLUMNS
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let column: Vec<_> = self.0.iter().map(|point| point[index]).collect();
                ((*name).to_owned(), json!(column))
            })
            .collect();
        json!({ "version": 1, "kind": "dashboard_history", "columns": columns })
    }
}

/// The counters of the last minute, oldest first; never empty after the first push.
#[derive(Default)]
pub(super) struct Past(VecDeque<Figures>);

impl Past {
    /// Adds the current counters.
    pub(super) fn push(&mut self, figures: Figures) {
        if self.0.len() == FIGURES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(figures);
    }

    /// The newest counters.
    pub(super) fn last(&self) -> &Figures {
        self.0.back().expect("the first is pushed before anything is asked")
    }

    /// The counters from about `seconds` before the latest ones.
    pub(super) fn before(&self, seconds: usize) -> &Figures {
        &self.0[self.0.len().saturating_sub(seconds)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_are_kept_by_column() {
        let mut history = History::default();
        for second in 0..POINTS_MAX + 10 {
            let mut point = [None; COLUMNS.len()];
            point[0] = Some(second as f64);
            history.push(point);
        }
        let json = history.json();
        let times = json["columns"]["unix_seconds"].as_array().unwrap();
        assert_eq!((times.len(), times[0].as_f64()), (POINTS_MAX, Some(10.0)));
        assert!(json["columns"]["cache_hit_ratio"][0].is_null());
    }
}
