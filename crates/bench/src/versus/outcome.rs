//! What a comparison has found, for people and for programs.

use super::side::Side;
use super::turn::Round;
use super::workload::Figure;
use super::{Options, Workload};
use crate::counters;
use crate::machine_json::machine_json;
use crate::namespace;
use crate::stats::Summary;
use serde_json::{Value, json};
use std::fmt::Write;

/// The share of the median that a viewer at the 1st percentile gets of a server that treats viewers alike.
const FAIR_SHARE: f64 = 0.8;

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) workload: Workload,
    pub(super) connections: usize,
    pub(super) seconds: f64,
    pub(super) congestion_control: String,
    pub(super) sides: [SideOutcome; 2],
    pub(super) parts: Vec<Part>,
    /// Somebody ended it before its time.
    pub interrupted: bool,
}

/// One comparison: all of a workload, or its part with one hit ratio.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) figure: Figure,
    pub(super) hit_percent: Option<u32>,
    pub(super) sides: [SideOutcome; 2],
}

/// A server and its rounds.
#[derive(Clone, Debug)]
pub(super) struct SideOutcome {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) command: String,
    pub(super) rounds: Vec<Round>,
}

impl SideOutcome {
    pub(super) fn of(side: &Side) -> Self {
        Self {
            name: side.name.clone(),
            version: side.version.clone(),
            command: side.command.clone(),
            rounds: Vec::new(),
        }
    }

    fn summary(&self, figure: impl Fn(&Round) -> f64) -> Option<Summary> {
        let figures: Vec<_> = self.rounds.iter().map(figure).collect();
        (!figures.is_empty()).then(|| Summary::of(&figures))
    }

    fn to_json(&self) -> Value {
        let figure = self.summary(|round| round.figure);
        json!({
            "name": self.name,
            "version": self.version,
            "command": self.command,
            "median": figure.map(|figure| figure.median),
            "deviation": figure.map(|figure| figure.deviation),
            "rounds": self.rounds.iter().map(Round::to_json).collect::<Vec<_>>(),
        })
    }

    fn describe(&self, text: &mut String, is_paced: bool) -> std::fmt::Result {
        let Some(figure) = self.summary(|round| round.figure) else {
            return writeln!(text, "  {:12} no round was completed", self.name);
        };
        let median = |of: &dyn Fn(&Round) -> f64| self.summary(of).map_or(0.0, |of| of.median);
        writeln!(
            text,
            "  {:12} {:>9} +- {:<6} {:.2} Gb/s over the wire, {:.0} requests/s, {:.0} handshakes/s, {:.1} MiB of memory, \
             {:.1}% softirq, {} rounds",
            self.name,
            number(figure.median),
            number(figure.deviation),
            median(&Round::gbps),
            median(&|round| round.counts.requests as f64 / round.wall_seconds),
            median(&|round| round.counts.handshakes as f64 / round.wall_seconds),
            median(&|round| round.rss_bytes as f64 / f64::from(1 << 20)),
            median(&|round| round.softirq_share * 100.0),
            self.rounds.len()
        )?;
        self.describe_latency(text)?;
        self.describe_viewers(text, is_paced)?;
        if self.rounds.iter().any(|round| round.outcome.is_client_bound()) {
            writeln!(
                text,
                "               the clients' cores were full: what went over the wire is their limit; per CPU second of the \
                 server it stands"
            )?;
        }
        Ok(())
    }

    fn describe_latency(&self, text: &mut String) -> std::fmt::Result {
        let of = |percentile: f64| {
            self.summary(|round| round.outcome.first_byte_ms(percentile).unwrap_or(f64::NAN))
                .map(|ms| ms.median)
                .filter(|ms| ms.is_finite())
        };
        match [of(50.0), of(99.0), of(99.9)] {
            [Some(p50), Some(p99), Some(p999)] => writeln!(
                text,
                "               first byte p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms"
            ),
            _ => Ok(()),
        }
    }

    fn describe_viewers(&self, text: &mut String, is_paced: bool) -> std::fmt::Result {
        let (Some(p1), Some(p50), Some(p99)) =
            (self.viewer(1.0), self.viewer(50.0), self.viewer(99.0))
        else {
            return Ok(());
        };
        write!(
            text,
            "               viewers p1 {p1:.2} Mb/s, median {p50:.2} Mb/s, p99 {p99:.2} Mb/s"
        )?;
        // Viewers who take what they can get are as many streams as TCP makes of them: that is not for the server to level.
        if is_paced && p1 < FAIR_SHARE * p50 {
            write!(
                text,
                "; UNFAIR: the slowest 1% get less than {:.0}% of the median",
                FAIR_SHARE * 100.0
            )?;
        }
        writeln!(text)
    }

    /// Mb/s that so many percent of the viewers did not exceed, over all rounds.
    fn viewer(&self, percentile: f64) -> Option<f64> {
        let rates: Option<Vec<_>> =
            self.rounds.iter().map(|round| round.outcome.viewer_mbps(percentile)).collect();
        rates.filter(|rates| !rates.is_empty()).map(|rates| Summary::of(&rates).median)
    }
}

impl Round {
    fn to_json(&self) -> Value {
        let first_byte = |percentile| self.outcome.first_byte_ms(percentile);
        let viewer = |percentile| self.outcome.viewer_mbps(percentile);
        json!({
            "figure": self.figure,
            "gbps": self.gbps(),
            "requests_per_second": self.counts.requests as f64 / self.wall_seconds,
            "handshakes_per_second": self.counts.handshakes as f64 / self.wall_seconds,
            "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "softirq_share": self.softirq_share,
            "rss_bytes": self.rss_bytes,
            "client_bound": self.outcome.is_client_bound(),
            "first_byte_ms": {
                "p50": first_byte(50.0), "p99": first_byte(99.0), "p999": first_byte(99.9),
            },
            "viewer_mbps": { "p1": viewer(1.0), "p50": viewer(50.0), "p99": viewer(99.0) },
            "counters": self.hardware.as_ref().map(|hardware| hardware.to_json(self.counts.body_bytes)),
        })
    }
}

impl Part {
    pub(super) fn describe_round(&self, number: usize, side: usize, round: &Round) -> String {
        let hit = self.hit_percent.map_or_else(String::new, |hit| format!("hit ratio {hit}%  "));
        let figure = self::number(round.figure);
        let unit = self.figure.unit();
        format!(
            "{hit}round {number}  {:12} {:6.2} Gb/s  {figure:>9} {unit}",
            self.sides[side].name,
            round.gbps()
        )
    }

    /// The first side over the second, round by round.
    fn ratio(&self) -> Option<Summary> {
        let pairs = self.sides[0].rounds.iter().zip(&self.sides[1].rounds);
        let ratios: Vec<_> = pairs.map(|(ours, theirs)| ours.figure / theirs.figure).collect();
        (!ratios.is_empty()).then(|| Summary::of(&ratios))
    }

    fn to_json(&self) -> Value {
        let ratio = self.ratio();
        json!({
            "hit_percent": self.hit_percent,
            "unit": self.figure.unit(),
            "better": self.figure.better(),
            "sides": self.sides.each_ref().map(SideOutcome::to_json),
            "ratio": ratio.map(|ratio| ratio.median),
            "ratio_deviation": ratio.map(|ratio| ratio.deviation),
        })
    }

    fn describe(&self, text: &mut String, is_paced: bool) -> std::fmt::Result {
        if let Some(hit) = self.hit_percent {
            writeln!(text, "  hit ratio {hit}%")?;
        }
        for side in &self.sides {
            side.describe(text, is_paced)?;
        }
        match self.ratio() {
            Some(ratio) => {
                writeln!(text, "  {:12} {:9.2} +- {:.2}", "ratio", ratio.median, ratio.deviation)
            }
            None => writeln!(text, "  no ratio: not both sides completed a round"),
        }
    }
}

impl Outcome {
    pub(super) fn new(options: &Options, sides: [SideOutcome; 2]) -> Self {
        let workload = options.workload;
        Self {
            workload,
            connections: options.connections.unwrap_or(workload.connections()),
            seconds: options.seconds,
            congestion_control: namespace::congestion_control(),
            sides,
            parts: Vec::new(),
            interrupted: false,
        }
    }

    pub(super) fn begin(&self, hit_percent: Option<u32>) -> Part {
        Part { figure: self.workload.figure(), hit_percent, sides: self.sides.clone() }
    }

    /// For people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let (workload, figure) = (self.workload.name(), self.workload.figure().words());
        writeln!(
            text,
            "{workload}, {}, {} connections: {figure}; median and median deviation",
            self.congestion_control, self.connections
        )?;
        for part in &self.parts {
            part.describe(text, self.workload == Workload::Viewers)?;
        }
        if let Some(reason) = counters::unavailable() {
            writeln!(text, "  hardware counters: not available on this machine ({reason})")?;
        }
        Ok(())
    }

    /// For programs. A workload with hit ratios has `parts`; any other has one part's members beside the common ones.
    pub fn to_json(&self) -> Value {
        let mut whole = json!({
            "version": 1,
            "kind": "versus",
            "workload": self.workload.name(),
            "congestion_control": self.congestion_control,
            "connections": self.connections,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "machine": machine_json(),
            "counters_unavailable": counters::unavailable(),
        });
        let parts: Vec<_> = self.parts.iter().map(Part::to_json).collect();
        match (self.workload, parts.as_slice()) {
            (Workload::Mixed, _) => whole["parts"] = parts.into(),
            (_, [Value::Object(part)]) => {
                let members = whole.as_object_mut().expect("it was made as an object");
                members.extend(part.clone());
            }
            _ => {}
        }
        whole
    }
}

/// Three significant digits or so.
fn number(figure: f64) -> String {
    match figure.abs() {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
