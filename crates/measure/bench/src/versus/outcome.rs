//! The results of a comparison, for programs; `table` shows them to people.

use super::carry::Carried;
use super::side::Side;
use super::turn::Round;
use super::workload::Figure;
use super::{Client, Options, Wire, Workload};
use crate::counters;
use crate::machine_json::machine_json;
use crate::namespace;
use crate::stats::Summary;
use serde_json::{Value, json};

/// The results.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) workload: Workload,
    pub(super) client: Client,
    /// The client's version, if it is not our own load.
    pub(super) client_version: Option<String>,
    pub(super) connections: usize,
    pub(super) seconds: f64,
    /// The rate of each viewer; `None` without paced viewers.
    pub(super) rate_bits_per_second: Option<u64>,
    pub(super) congestion_control: String,
    pub(super) wire: Wire,
    pub(super) sides: [SideOutcome; 2],
    pub(super) parts: Vec<Part>,
    /// The user ended it early.
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

    pub(super) fn summary(&self, figure: impl Fn(&Round) -> f64) -> Option<Summary> {
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
}

impl Round {
    fn to_json(&self) -> Value {
        let first_byte = |percentile| self.first_byte_ms(percentile);
        let viewer = |percentile| self.viewer_mbps(percentile);
        // Only our own clients tell.
        let is_told = self.outcome.is_some() || self.carried.is_some();
        let per_second = |count| is_told.then(|| count as f64 / self.wall_seconds);
        json!({
            "figure": self.figure,
            "gbps": self.gbps(),
            "requests_per_second": per_second(self.counts.requests),
            "handshakes_per_second": per_second(self.counts.handshakes),
            "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "core_cpu_seconds": self.core_cpu_seconds,
            "softirq_share": self.softirq_share,
            "rss_bytes": self.rss_bytes,
            "wakeups_per_mib": self.wakeups_per_mib(),
            "cpu_us_per_wakeup": self.cpu_us_per_wakeup(),
            "left_in_page_cache_bytes": self.left_bytes,
            "left_in_page_cache_share": self.left_share(),
            "client_bound": self.is_client_bound,
            "first_byte_ms": {
                "p50": first_byte(50.0), "p99": first_byte(99.0), "p999": first_byte(99.9),
            },
            "viewer_mbps": { "p1": viewer(1.0), "p50": viewer(50.0), "p99": viewer(99.0) },
            "swarm": self.carried.as_ref().map(Carried::to_json),
            "counters": self.hardware.as_ref().map(|hardware| hardware.to_json(self.counts.body_bytes)),
        })
    }
}

impl Part {
    /// The first side over the second, round by round.
    pub(super) fn ratio(&self) -> Option<Summary> {
        let pairs = self.sides[0].rounds.iter().zip(&self.sides[1].rounds);
        let ratios: Vec<_> = pairs.map(|(ours, theirs)| ours.figure / theirs.figure).collect();
        (!ratios.is_empty()).then(|| Summary::of(&ratios))
    }

    /// The same by the CPU seconds of the servers' threads alone, which excludes other programs on the core.
    pub(super) fn ratio_of_threads(&self) -> Option<Summary> {
        let work = |round: &Round| round.counts.body_bytes as f64 / round.cpu_seconds;
        let pairs = self.sides[0].rounds.iter().zip(&self.sides[1].rounds);
        let ratios: Vec<_> = pairs.map(|(ours, theirs)| work(ours) / work(theirs)).collect();
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
            "ratio_of_threads": self.ratio_of_threads().map(|ratio| ratio.median),
        })
    }
}

impl Outcome {
    pub(super) fn new(options: &Options, client: Client, sides: [SideOutcome; 2]) -> Self {
        let workload = options.workload;
        let connections = options.connections.unwrap_or(workload.connections());
        let rate = options.rate_bits_per_second;
        let rate = rate.unwrap_or_else(|| workload.rate_bits_per_second(connections));
        Self {
            workload,
            client,
            client_version: client.version(),
            connections,
            rate_bits_per_second: workload.has_rate().then_some(rate),
            seconds: options.seconds,
            congestion_control: namespace::congestion_control(),
            wire: options.wire,
            sides,
            parts: Vec::new(),
            interrupted: false,
        }
    }

    pub(super) fn begin(&self, hit_percent: Option<u32>) -> Part {
        Part { figure: self.workload.figure(), hit_percent, sides: self.sides.clone() }
    }

    /// For programs. A workload with hit ratios has `parts`; any other has the members of its one part at the top level.
    pub fn to_json(&self) -> Value {
        let mut machine = machine_json();
        // By now the bench may have gone on to another one.
        machine["congestion_control"] = self.congestion_control.as_str().into();
        let mut whole = json!({
            "version": 1,
            "kind": "versus",
            "workload": self.workload.name(),
            "client": self.client.name(),
            "client_version": self.client_version,
            "congestion_control": self.congestion_control,
            "wire": self.wire.name(),
            "cpu_of": self.wire.counted(),
            "connections": self.connections,
            "seconds": self.seconds,
            "rate_bits_per_second": self.rate_bits_per_second,
            "interrupted": self.interrupted,
            "machine": machine,
            "counters_unavailable": counters::unavailable(),
        });
        let parts: Vec<_> = self.parts.iter().map(Part::to_json).collect();
        match (self.workload.has_hit_ratio(), parts.as_slice()) {
            (true, _) => whole["parts"] = parts.into(),
            (_, [Value::Object(part)]) => {
                let members = whole.as_object_mut().expect("it was made as an object");
                members.extend(part.clone());
            }
            _ => {}
        }
        whole
    }
}
