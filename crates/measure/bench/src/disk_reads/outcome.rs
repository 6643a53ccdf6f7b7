//! The results of each way to read.

use super::target::Target;
use super::{Options, Turn, Way};
use crate::machine_json::machine_json;
use crate::stats::Summary;
use serde_json::{Value, json};
use std::fmt::Write;

/// The results.
#[derive(Debug)]
pub struct Outcome {
    options: Options,
    read: String,
    ways: Vec<Found>,
    /// The user interrupted.
    pub interrupted: bool,
}

/// The results of one way.
#[derive(Debug)]
struct Found {
    way: Way,
    unavailable: Option<String>,
    compared_bytes: u64,
    turns: Vec<Turn>,
}

impl Found {
    /// The median of one of its figures over the turns.
    fn median(&self, figure: impl Fn(&Turn) -> f64) -> Option<Summary> {
        let figures: Vec<_> = self.turns.iter().map(figure).collect();
        (!figures.is_empty()).then(|| Summary::of(&figures))
    }

    /// The same for a figure that turns may lack.
    fn median_of_some(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Option<Summary> {
        let figures: Vec<_> = self.turns.iter().filter_map(figure).collect();
        (!figures.is_empty()).then(|| Summary::of(&figures))
    }
}

impl Outcome {
    pub(super) fn new(options: &Options, target: &Target) -> Self {
        let found = |way| Found { way, unavailable: None, compared_bytes: 0, turns: Vec::new() };
        Self {
            options: options.clone(),
            read: target.describe(),
            ways: Way::ALL.map(found).into(),
            interrupted: false,
        }
    }

    fn found(&mut self, way: Way) -> &mut Found {
        let found = self.ways.iter_mut().find(|found| found.way == way);
        found.expect("there is a place for each way")
    }

    pub(super) fn compared(&mut self, way: Way, bytes: u64) {
        self.found(way).compared_bytes = bytes;
    }

    pub(super) fn unavailable(&mut self, way: Way, why: String) {
        self.found(way).unavailable = Some(why);
    }

    pub(super) fn add(&mut self, way: Way, turn: Turn) {
        self.found(way).turns.push(turn);
    }

    /// As text.
    pub fn describe(&self) -> String {
        let Options { read_bytes, in_flight, rounds, seconds, .. } = &self.options;
        let mut said = format!(
            "{}: {in_flight} reads of {} KiB in flight, {rounds} turns of {seconds} s\n\n{:<20} {:>16} {:>8} {:>9} {:>9} {:>8} {:>11}\n",
            self.read,
            read_bytes >> 10,
            "",
            "Gb/s per CPU s",
            "Gb/s",
            "reads/s",
            "us",
            "at once",
            "interrupts"
        );
        for found in &self.ways {
            let _ = writeln!(said, "{}", row(found));
        }
        said.push_str(
            "\nEach way first read the same bytes as pread, from a place in the file for each read in flight.\n\
             us: median time until the program sees that a read is done. at once: reads that are done each time it looks.\n\
             interrupts: the disk's, for each read. A polling thread is never idle, so its CPU seconds equal wall time.\n",
        );
        for found in &self.ways {
            let _ = writeln!(said, "{:<20} {}", found.way.name(), found.way.what());
        }
        said
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let ways: Vec<_> = self.ways.iter().map(of_way).collect();
        json!({
            "version": 1,
            "kind": "disk",
            "machine": machine_json(),
            "read": self.read,
            "read_bytes": self.options.read_bytes,
            "in_flight": self.options.in_flight,
            "seconds": self.options.seconds,
            "interrupted": self.interrupted,
            "ways": ways,
        })
    }
}

fn row(found: &Found) -> String {
    let name = found.way.name();
    if let Some(why) = &found.unavailable {
        return format!("{name:<20} not available: {why}");
    }
    let Some(per_cpu) = found.median(|turn| turn.gbps_per_cpu_second) else {
        return format!("{name:<20} not measured");
    };
    let median = |figure: fn(&Turn) -> f64| found.median(figure).map_or(0.0, |of| of.median);
    let interrupts = found.median_of_some(|turn| turn.interrupts_per_read);
    let interrupts = interrupts.map_or("unknown".to_owned(), |of| format!("{:.3}", of.median));
    format!(
        "{name:<20} {:>8.1} +- {:<4.1} {:>8.2} {:>9.0} {:>9.0} {:>8.2} {interrupts:>11}",
        per_cpu.median,
        per_cpu.deviation,
        median(|turn| turn.gbps),
        median(|turn| turn.reads_per_second),
        median(|turn| turn.us_median),
        median(|turn| turn.reads_per_look),
    )
}

fn of_way(found: &Found) -> Value {
    let median = |figure: fn(&Turn) -> f64| found.median(figure).map(|of| of.median);
    let per_cpu = found.median(|turn| turn.gbps_per_cpu_second);
    json!({
        "name": found.way.name(),
        "what": found.way.what(),
        "unavailable": found.unavailable,
        "compared_bytes": found.compared_bytes,
        "gbps_per_cpu_second": per_cpu.map(|of| of.median),
        "deviation": per_cpu.map(|of| of.deviation),
        "gbps": median(|turn| turn.gbps),
        "reads_per_second": median(|turn| turn.reads_per_second),
        "us_median": median(|turn| turn.us_median),
        "reads_at_once": median(|turn| turn.reads_per_look),
        "interrupts_per_read": found.median_of_some(|turn| turn.interrupts_per_read).map(|of| of.median),
    })
}
