//! One workload with several clients and congestion controls: the ratio of each, and the worst.
//!
//! A server tuned for one client under one congestion control can be several times slower with another. So cite the worst ratio.

use super::outcome::{Outcome, Part};
use crate::stats::Summary;
use serde_json::{Value, json};
use std::fmt::Write;

/// The comparisons of one run.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    pub(super) outcomes: Vec<Outcome>,
    /// How many comparisons there should be.
    pub(super) planned: usize,
    /// The user ended it early.
    pub interrupted: bool,
}

/// The ratio of one comparison.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    client: &'static str,
    congestion_control: &'a str,
    hit_percent: Option<u32>,
    /// `None` if not both sides had a turn.
    ratio: Option<Summary>,
    /// The ratio, inverted if a smaller figure is better: the smaller this is, the worse is the first side.
    advantage: Option<f64>,
}

impl Grid {
    /// For people: the ratios and the worst of them. `None` for a single comparison, which describes itself.
    pub fn describe(&self) -> Option<String> {
        let cells = self.cells();
        let worst = worst(&cells)?;
        if self.planned < 2 {
            return None;
        }
        let mut text = String::new();
        let ended = if self.interrupted { "interrupted; " } else { "" };
        let names = self.outcomes[0].sides.each_ref().map(|side| side.name.as_str());
        let workload = self.outcomes[0].workload.name();
        let mut line = |words: String| {
            writeln!(text, "{words}").expect("writing to a string cannot fail");
        };
        line(format!("{ended}{workload}: {} compared with {}, every ratio", names[0], names[1]));
        for cell in &cells {
            line(format!("  {:24} {}", cell.name(), cell.ratio_words()));
        }
        line(format!("worst: {} ({})", worst.ratio_words(), worst.name()));
        Some(text)
    }

    /// For programs: a single comparison as it is, several as `cells` with the `worst` of them.
    pub fn to_json(&self) -> Value {
        if let (1, [only]) = (self.planned, self.outcomes.as_slice()) {
            return only.to_json();
        }
        let cells = self.cells();
        json!({
            "version": 1,
            "kind": "versus-grid",
            "workload": self.outcomes.first().map(|outcome| outcome.workload.name()),
            "interrupted": self.interrupted,
            "worst": worst(&cells).map(|cell| json!({
                "client": cell.client,
                "congestion_control": cell.congestion_control,
                "hit_percent": cell.hit_percent,
                "ratio": cell.ratio.map(|ratio| ratio.median),
                "ratio_deviation": cell.ratio.map(|ratio| ratio.deviation),
            })),
            "cells": self.outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        })
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        let parts = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.parts.iter().map(move |part| Cell::of(outcome, part)));
        parts.collect()
    }
}

fn worst<'a>(cells: &[Cell<'a>]) -> Option<Cell<'a>> {
    let rank = |cell: &Cell<'_>| cell.advantage.unwrap_or(f64::INFINITY);
    let compared = cells.iter().filter(|cell| cell.advantage.is_some());
    compared.min_by(|a, b| rank(a).total_cmp(&rank(b))).copied()
}

impl<'a> Cell<'a> {
    fn of(outcome: &'a Outcome, part: &Part) -> Self {
        let ratio = part.ratio();
        let is_lower_better = part.figure.better() == "lower";
        Self {
            client: outcome.client.name(),
            congestion_control: &outcome.congestion_control,
            hit_percent: part.hit_percent,
            ratio,
            advantage: ratio
                .map(|ratio| if is_lower_better { 1.0 / ratio.median } else { ratio.median }),
        }
    }

    /// `wrk, bbr` or `load, bbr, hit ratio 10%`.
    fn name(&self) -> String {
        let hit = self.hit_percent.map(|hit| format!(", hit ratio {hit}%")).unwrap_or_default();
        format!("{}, {}{hit}", self.client, self.congestion_control)
    }

    fn ratio_words(&self) -> String {
        self.ratio.map_or_else(
            || "none: not both sides had a turn".to_owned(),
            |ratio| format!("{:.2} +- {:.2}", ratio.median, ratio.deviation),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(client: &'static str, ratio: f64, is_lower_better: bool) -> Cell<'static> {
        Cell {
            client,
            congestion_control: "bbr",
            hit_percent: None,
            ratio: Some(Summary { median: ratio, deviation: 0.0 }),
            advantage: Some(if is_lower_better { 1.0 / ratio } else { ratio }),
        }
    }

    #[test]
    fn the_worst_is_the_smallest_ratio_or_the_largest_if_less_is_better() {
        let named = |cells: &[Cell<'static>]| worst(cells).map(|cell| cell.client);
        assert_eq!(named(&[cell("load", 2.4, false), cell("curl", 1.3, false)]), Some("curl"));
        assert_eq!(named(&[cell("load", 2.4, true), cell("curl", 1.3, true)]), Some("load"));
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn a_comparison_without_a_ratio_is_never_the_worst() {
        let none = Cell { ratio: None, advantage: None, ..cell("wrk", 1.0, false) };
        assert_eq!(worst(&[none, cell("load", 2.0, false)]).map(|cell| cell.client), Some("load"));
        assert!(worst(&[none]).is_none());
    }
}
