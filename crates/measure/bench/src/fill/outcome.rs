//! How long viewers waited, with and without a fill.

use super::Options;
use crate::machine_json::machine_json;
use crate::stats::Summary;
use serde_json::{Value, json};
use std::fmt::Write;

/// Picks one kind of waits from a round.
type WaitsOf = fn(&Round) -> Waits;

/// Times to the first byte, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    p50_ms: f64,
    p99_ms: f64,
    requests: u64,
}

impl Waits {
    /// `None` if there were no requests.
    pub(super) fn of(outcome: &load::Outcome) -> Option<Self> {
        let (p50_ms, p99_ms) = (outcome.first_byte_ms(50.0)?, outcome.first_byte_ms(99.0)?);
        Some(Self { p50_ms, p99_ms, requests: outcome.requests })
    }

    fn to_json(self) -> Value {
        json!({ "p50_ms": self.p50_ms, "p99_ms": self.p99_ms, "requests": self.requests })
    }
}

/// A turn with a fill and a turn without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) without: Waits,
    pub(super) with: Waits,
    pub(super) fill_gbps: f64,
    /// The share of its allowed rate that the fill had at the end: less than 1 if it gave way to viewers.
    pub(super) share: f64,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Outcome {
    options: Options,
    rounds: Vec<Round>,
    /// The user interrupted.
    pub interrupted: bool,
}

impl Outcome {
    pub(super) fn new(options: &Options) -> Self {
        Self { options: options.clone(), rounds: Vec::new(), interrupted: false }
    }

    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    fn of(&self, figure: impl Fn(&Round) -> f64) -> Option<Summary> {
        let figures: Vec<_> = self.rounds.iter().map(figure).collect();
        (!figures.is_empty()).then(|| Summary::of(&figures))
    }

    /// The 99th percentile with a fill, relative to the one without, round by round.
    fn ratio(&self) -> Option<Summary> {
        self.of(|round| round.with.p99_ms / round.without.p99_ms)
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let rate = self.options.fill_bits_per_second as f64 * 1e-9;
        writeln!(
            text,
            "{} viewers of {} kb/s: time to the first byte; median of {} rounds, and median deviation",
            self.options.viewers,
            self.options.viewer_bits_per_second / 1000,
            self.rounds.len()
        )?;
        let sides: [(&str, WaitsOf); 2] =
            [("without a fill", |round| round.without), ("during a fill", |round| round.with)];
        for (name, side) in sides {
            let p50 = self.of(|round| side(round).p50_ms);
            let Some((p50, p99)) = p50.zip(self.of(|round| side(round).p99_ms)) else { continue };
            writeln!(
                text,
                "  {name:15} p50 {:7.3} +- {:<6.3} ms   p99 {:7.3} +- {:<6.3} ms",
                p50.median, p50.deviation, p99.median, p99.deviation
            )?;
        }
        if let (Some(ratio), Some(fill)) = (self.ratio(), self.of(|round| round.fill_gbps)) {
            writeln!(
                text,
                "  p99 during a fill is {:.2} +- {:.2} times that without; the fill took {:.3} of {rate:.3} Gb/s",
                ratio.median, ratio.deviation, fill.median
            )?;
        }
        Ok(())
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "without": round.without.to_json(),
                "with": round.with.to_json(),
                "fill_gbps": round.fill_gbps,
                "share": round.share,
            })
        });
        json!({
            "version": 1,
            "kind": "fill-beside",
            "machine": machine_json(),
            "interrupted": self.interrupted,
            "viewers": self.options.viewers,
            "viewer_bits_per_second": self.options.viewer_bits_per_second,
            "fill_bits_per_second": self.options.fill_bits_per_second,
            "rounds": rounds.collect::<Vec<_>>(),
            "p99_ratio": self.ratio().map(|ratio| ratio.median),
            "p99_ratio_deviation": self.ratio().map(|ratio| ratio.deviation),
            "fill_gbps": self.of(|round| round.fill_gbps).map(|fill| fill.median),
        })
    }
}
