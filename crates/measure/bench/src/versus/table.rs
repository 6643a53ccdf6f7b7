//! A comparison as a table for people: a row for each side with medians over its turns, and the ratio with its spread.

use super::outcome::{Outcome, Part, SideOutcome};
use super::turn::Round;
use super::workload::Figure;
use super::{Client, Workload};
use crate::counters;
use crate::stats::Summary;
use std::fmt::{self, Write};

/// The share of the median that the viewer at the 1st percentile gets from a server that treats viewers alike.
const FAIR_SHARE: f64 = 0.8;

/// The share of its rate that a viewer gets from a server that can serve all of them.
const SERVED_SHARE: f64 = 0.95;

/// The share of the server's core that other programs may use before it is reported.
const OTHERS_SHARE_MAX: f64 = 0.03;

/// Between columns.
const GAP: &str = "   ";

/// A median over a side's turns.
type Median = fn(&SideOutcome) -> Option<String>;

/// A heading and the values below it.
type Column = (&'static str, Median);

const GBPS: Column = ("Gb/s on the wire", |side| median(side, Round::gbps).map(number));
const REQUESTS: Column = ("requests/s", |side| {
    median(side, |round| per_second(round, round.counts.requests)).map(number)
});
const HANDSHAKES: Column = ("handshakes/s", |side| {
    median(side, |round| per_second(round, round.counts.handshakes)).map(number)
});
const CPU: Column = ("server's threads", |side| {
    median(side, |round| 100.0 * round.cpu_seconds / round.wall_seconds).map(percent)
});
const CORE: Column = ("its core", |side| {
    median(side, |round| 100.0 * round.core_cpu_seconds / round.wall_seconds).map(percent)
});
const SOFTIRQ: Column =
    ("softirq", |side| median(side, |round| 100.0 * round.softirq_share).map(percent));
const WAKEUPS: Column =
    ("wake-ups per MiB", |side| median_of(side, |round| round.wakeups_per_mib()).map(number));
const WAKEUP: Column =
    ("µs per wake-up", |side| median_of(side, |round| round.cpu_us_per_wakeup()).map(number));
const MEMORY: Column = ("memory", |side| {
    median(side, |round| round.rss_bytes as f64 / f64::from(1 << 20))
        .map(|mib| format!("{mib:.1} MiB"))
});
const FIRST_BYTE: Column = ("first byte p50 p99 p99.9", |side| {
    let at = |percentile: f64| median_of(side, |round| round.first_byte_ms(percentile));
    let (p50, p99, p999) = (at(50.0)?, at(99.0)?, at(99.9)?);
    Some(format!("{p50:.2} {p99:.2} {p999:.2} ms"))
});
const VIEWERS: Column = ("each viewer p1 p50 p99", |side| {
    let (p1, p50, p99) = (viewer(side, 1.0)?, viewer(side, 50.0)?, viewer(side, 99.0)?);
    Some(format!("{p1:.2} {p50:.2} {p99:.2} Mb/s"))
});
const LEFT: Column = ("left in the page cache", |side| {
    median_of(side, |round| round.left_share().map(|share| 100.0 * share)).map(percent)
});

const CARRIED: Column = ("viewers at 0 stalls", |side| {
    let viewers = median_of(side, |round| Some(round.carried.as_ref()?.viewers as f64))?;
    let is_least = side
        .rounds
        .iter()
        .filter_map(|round| round.carried.as_ref())
        .any(|carried| carried.is_least);
    Some(if is_least { format!("at least {viewers:.0}") } else { format!("{viewers:.0}") })
});

/// The columns of a workload, in addition to the compared figure.
fn columns(workload: Workload, client: Client) -> &'static [Column] {
    match workload {
        _ if !client.is_own() => &[GBPS, CPU, CORE, SOFTIRQ, WAKEUPS, WAKEUP, MEMORY],
        Workload::Idle => &[MEMORY],
        Workload::Swarm => &[CARRIED, GBPS, REQUESTS, CPU, SOFTIRQ, WAKEUPS, WAKEUP, MEMORY],
        Workload::Handshakes => &[HANDSHAKES, CPU, SOFTIRQ, MEMORY, FIRST_BYTE],
        Workload::Viewers => &[GBPS, CPU, SOFTIRQ, WAKEUPS, WAKEUP, MEMORY, FIRST_BYTE, VIEWERS],
        Workload::Mixed | Workload::HttpMixed => {
            &[GBPS, REQUESTS, CPU, CORE, SOFTIRQ, WAKEUPS, WAKEUP, MEMORY, LEFT, FIRST_BYTE]
        }
        _ => &[GBPS, REQUESTS, CPU, CORE, SOFTIRQ, WAKEUPS, WAKEUP, MEMORY, FIRST_BYTE],
    }
}

impl Outcome {
    /// For people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    /// The client, with its version if it is not our own load.
    fn client_words(&self) -> String {
        let version = self.client_version.as_deref();
        version.map_or_else(|| format!("our own {}", self.client.name()), short_version)
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let Self { connections, seconds, congestion_control, .. } = self;
        let ended = if self.interrupted { "interrupted; " } else { "" };
        let clients = match self.rate_bits_per_second {
            Some(rate) if self.workload == Workload::Swarm => {
                let mbps = rate as f64 / 1e6;
                format!(
                    "up to {connections} viewers who play {mbps} Mb/s, trials measured for {seconds} s"
                )
            }
            _ => {
                format!(
                    "{connections} connections of {}, turns of {seconds} s",
                    self.client_words()
                )
            }
        };
        writeln!(
            text,
            "{ended}{}, {clients}, {congestion_control}, {}; CPU seconds are those of {}",
            self.workload.name(),
            self.wire.name(),
            self.wire.counted()
        )?;
        for side in &self.sides {
            let version = side.version.as_deref().unwrap_or("version unknown");
            writeln!(text, "  {}: {version}", side.name)?;
        }
        for part in &self.parts {
            part.write(text, self)?;
        }
        if let Some(reason) = counters::unavailable() {
            writeln!(text, "hardware counters: not available on this machine ({reason})")?;
        }
        Ok(())
    }
}

impl Part {
    pub(super) fn describe_round(&self, turn: usize, side: usize, round: &Round) -> String {
        let hit = self.hit_percent.map_or_else(String::new, |hit| format!("hit ratio {hit}%  "));
        let (name, figure) = (&self.sides[side].name, number(round.figure));
        let wire = match (self.figure, &round.carried) {
            (Figure::GbpsPerCpuSecond, _) => format!(", {:.2} Gb/s on the wire", round.gbps()),
            (_, Some(carried)) => format!(", {} viewers at 0 stalls", carried.words()),
            _ => String::new(),
        };
        format!("{hit}round {turn}  {name:12} {figure} {}{wire}", self.figure.words())
    }

    fn write(&self, text: &mut String, outcome: &Outcome) -> fmt::Result {
        let Outcome {
            workload, client, wire, rate_bits_per_second: viewer_bits_per_second, ..
        } = *outcome;
        writeln!(text)?;
        if let Some(hit) = self.hit_percent {
            writeln!(text, "hit ratio {hit}%")?;
        }
        let rows = self.rows(columns(workload, client));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells: Vec<_> = cells
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            writeln!(text, "  {}", cells.join(GAP).trim_end())?;
        }
        if let (true, Some(ratio)) = (wire.counts_core(), self.ratio_of_threads()) {
            let Summary { median, deviation } = ratio;
            writeln!(text, "  by the servers' threads alone: {median:.2} +- {deviation:.2}")?;
        }
        for side in &self.sides {
            side.write_remarks(text, viewer_bits_per_second)?;
            if wire.counts_core() {
                side.write_others(text)?;
            }
        }
        Ok(())
    }

    /// Headings, sides, ratio.
    fn rows(&self, columns: &[Column]) -> Vec<Vec<String>> {
        let heading = ["".to_owned(), self.figure.words().to_owned()].into_iter();
        let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
        let mut rows: Vec<Vec<_>> = vec![heading.chain(headings).collect()];
        rows.extend(self.sides.iter().map(|side| side.row(columns)));
        let ratio = match self.ratio() {
            Some(ratio) => format!("{:.2} +- {:.2}", ratio.median, ratio.deviation),
            None => "none: not both sides had a turn".to_owned(),
        };
        let mut last = vec!["ratio".to_owned(), ratio];
        last.resize(rows[0].len(), String::new());
        rows.push(last);
        rows
    }
}

impl SideOutcome {
    fn row(&self, columns: &[Column]) -> Vec<String> {
        let figure = self
            .summary(|round| round.figure)
            .map(|figure| format!("{} +- {}", number(figure.median), number(figure.deviation)));
        let cells = columns.iter().map(|(_, median)| median(self));
        [Some(self.name.clone()), figure]
            .into_iter()
            .chain(cells)
            .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
            .collect()
    }

    /// What ran on the server's core that was neither its threads nor a software interrupt; it counts against the server.
    fn write_others(&self, text: &mut String) -> fmt::Result {
        let others = |round: &Round| {
            round.core_cpu_seconds / round.wall_seconds
                - round.cpu_seconds / round.wall_seconds
                - round.softirq_share
        };
        let share = median(self, others).unwrap_or(0.0);
        if share > OTHERS_SHARE_MAX {
            let (name, percent) = (&self.name, 100.0 * share);
            writeln!(
                text,
                "  OTHERS: other programs used {percent:.0}% of the core in the turns of {name}, which counts against it"
            )?;
        }
        Ok(())
    }

    /// How the figures could be misread. Viewers who take what they can get are as many streams as TCP makes of them,
    /// so fairness is reported only for viewers with a rate.
    fn write_remarks(&self, text: &mut String, viewer_bits_per_second: Option<u64>) -> fmt::Result {
        let name = &self.name;
        let shares = (viewer_bits_per_second, viewer(self, 1.0), viewer(self, 50.0));
        if let (Some(wanted), Some(p1), Some(p50)) = shares {
            let wanted = wanted as f64 / 1e6;
            if p50 < SERVED_SHARE * wanted {
                writeln!(
                    text,
                    "  TOO MUCH: half of the viewers of {name} get {p50:.2} Mb/s or less, but want {wanted:.2}"
                )?;
            }
            if p1 < FAIR_SHARE * p50 {
                let share = 100.0 * p1 / p50;
                writeln!(
                    text,
                    "  UNFAIR: {name} gives the slowest 1% of viewers {share:.0}% or less of what the median gets"
                )?;
            }
        }
        let carried = || self.rounds.iter().filter_map(|round| round.carried.as_ref());
        if let Some(carried) = carried().find(|carried| carried.is_least).or(carried().next()) {
            let (viewers, why) = (carried.words(), &carried.stopped_by);
            return writeln!(
                text,
                "  {name} carried {viewers} viewers; what ended the search: {why}"
            );
        }
        if self.rounds.iter().any(|round| round.is_client_bound) {
            writeln!(
                text,
                "  {name}: the clients' cores were full, so Gb/s and times show their limit; work per CPU second \
                 of the server stands"
            )?;
        }
        Ok(())
    }
}

/// Name and number, without the libraries that programs list after them.
fn short_version(version: &str) -> String {
    version.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn median(side: &SideOutcome, figure: impl Fn(&Round) -> f64) -> Option<f64> {
    side.summary(figure).map(|figure| figure.median)
}

/// For figures that not every turn has.
fn median_of(side: &SideOutcome, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
    median(side, |round| figure(round).unwrap_or(f64::NAN)).filter(|median| median.is_finite())
}

/// The rate in Mb/s that this percentage of viewers did not exceed.
fn viewer(side: &SideOutcome, percentile: f64) -> Option<f64> {
    median_of(side, |round| round.viewer_mbps(percentile))
}

fn per_second(round: &Round, count: u64) -> f64 {
    count as f64 / round.wall_seconds
}

fn percent(percent: f64) -> String {
    format!("{percent:.1}%")
}

/// About three significant digits.
fn number(figure: f64) -> String {
    match figure.abs() {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
