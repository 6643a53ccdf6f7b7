//! `fullbore bench plan`: compares the rate per core that `fullbore plan` predicts with the server's measured rate on this machine.

use ::bench::limit;
use ::load::interrupt::{self, Interrupt};
use capacity::{CostTable, Demand, PlannedRoute, SealedBy, read_machine};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The largest acceptable error of the plan.
const ERROR_MAX: f64 = 0.15;

/// The workloads to compare: full speed from memory and from disk, without TLS, and viewers at a film's bit rate.
const WORKLOADS: [&str; 4] = ["tls-warm", "tls-cold", "http-warm", "viewers"];

/// Any machine: a core's rate depends only on its costs.
const MACHINE: &str = r#"
name = "one core"
[[node]]
cores = 1
memory_gbytes_per_second = 100
[[disk]]
gbytes_per_second = 3
[[card]]
ports = 1
gbits_per_second = 100
lanes = 16
pcie_generation = 4
[workload]
tls = "software"
"#;

/// Larger than any file that a bench writes.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// Compare `fullbore plan` with the server's measured rate on this machine
///
/// Measures the parts of serving and the server itself in turn (as `bench limit` does), and computes from the parts the rate that a core serves (as
/// `plan --costs` does): tls-warm, tls-cold, http-warm and viewers. The exit code is 1 if one is more than 15% off. Needs two cores and an
/// otherwise idle machine for some minutes.
#[derive(Args)]
pub(super) struct BenchPlan {
    /// Measure nothing: read limit.json and the files of `bench versus` from this directory, such as one written by `bench report`
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Number of turns per part and per workload
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds measured per turn
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Size of the library in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    library: u64,
    /// Directory to create the library in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The figures of a bench.
#[derive(Default)]
struct Figures {
    limit: Value,
    servers: Vec<Measured>,
    is_interrupted: bool,
}

/// The server's Gb/s per core.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    workload: String,
    /// The other server that took turns with it.
    beside: Option<String>,
    gbps: f64,
}

/// Gb/s per core.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    workload: String,
    planned: f64,
    measured: f64,
}

impl BenchPlan {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let figures = match &self.from {
            Some(folder) => read(folder)?,
            None => self.measured()?,
        };
        let (costs, missing) =
            CostTable::USUAL.with_measured(&figures.limit).map_err(io::Error::other)?;
        let rows = rows(&figures.servers, &costs);
        if rows.is_empty() && !figures.is_interrupted {
            return Err(io::Error::other(
                "no workload was measured: nothing to compare the plan with",
            ));
        }
        crate::say(&describe(&rows, &missing));
        super::write_json(self.json.as_deref(), &to_json(&rows, &missing, &figures.limit))?;
        Ok(match (figures.is_interrupted, rows.iter().all(Row::is_near)) {
            (true, _) => interrupt::EXIT_CODE.into(),
            (false, is_near) => ExitCode::from(u8::from(!is_near)),
        })
    }

    fn measured(&self) -> io::Result<Figures> {
        let interrupt = Interrupt::on_signal()?;
        let seconds = if self.seconds.is_nan() { 0.2 } else { self.seconds.clamp(0.2, 60.0) };
        let options = limit::Options {
            rounds: self.rounds.into(),
            seconds,
            library_bytes: self.library << 20,
            scratch: self.scratch.clone(),
            is_for_plan: true,
        };
        let outcome = limit::run(&options, &interrupt, |line| crate::note(&line))?;
        let limit = outcome.to_json();
        let servers = limit["chains"].as_array().into_iter().flatten().filter_map(of_chain);
        let servers = servers.collect();
        Ok(Figures { limit, servers, is_interrupted: outcome.interrupted })
    }
}

fn of_chain(chain: &Value) -> Option<Measured> {
    let workload = chain["workload"].as_str()?.to_owned();
    let gbps = chain["server"]["gbps_per_cpu_second"].as_f64()?;
    Some(Measured { workload, beside: None, gbps })
}

/// This server's figures in a file of `bench versus`.
fn of_versus(figures: &Value) -> Option<Measured> {
    let [ours, peer] = [0, 1].map(|side| &figures["sides"][side]);
    // A run against itself counts as a run alone.
    let other = peer["name"].as_str().filter(|name| !name.starts_with("fullbore"));
    Some(Measured {
        workload: figures["workload"].as_str()?.to_owned(),
        beside: other.map(str::to_owned),
        gbps: ours["median"].as_f64()?,
    })
}

/// Reads the files of earlier benches in a folder, ordered by name.
fn read(folder: &Path) -> io::Result<Figures> {
    let named = |path: &Path, why: String| {
        io::Error::other(format!("cannot read {}: {why}", path.display()))
    };
    let entries = std::fs::read_dir(folder).map_err(|error| named(folder, error.to_string()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort_unstable();
    let (mut figures, mut comparisons) = (Figures::default(), Vec::new());
    for path in paths {
        let text = files::read_text(&path, FILE_BYTES_MAX)
            .map_err(|error| named(&path, error.to_string()))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| named(&path, error.to_string()))?;
        match value["kind"].as_str() {
            Some("limit") => figures.limit = value,
            Some("versus") => comparisons.push(value),
            Some("versus-grid") => {
                comparisons.extend(value["cells"].as_array().into_iter().flatten().cloned());
            }
            _ => {}
        }
    }
    // The plan's costs are those that `limit` found, with the load of this program and under the same congestion control.
    let control = &figures.limit["congestion_control"];
    let is_alike = |one: &&Value| {
        let its = &one["congestion_control"];
        one["client"].as_str().is_none_or(|client| client == "load")
            && (its.is_null() || control.is_null() || its == control)
    };
    let servers: Vec<_> = comparisons.iter().filter(is_alike).filter_map(of_versus).collect();
    figures.servers = servers;
    match figures.limit {
        Value::Null => Err(named(folder, "it has no figures of bench limit (--json)".to_owned())),
        _ => Ok(figures),
    }
}

fn rows(servers: &[Measured], costs: &CostTable) -> Vec<Row> {
    let row = |Measured { workload, beside, gbps }: &Measured| {
        let beside = beside.as_ref().map_or(String::new(), |name| format!(" next to {name}"));
        Some(Row {
            workload: format!("{workload}{beside}"),
            planned: planned(workload, costs)?,
            measured: Some(*gbps).filter(|gbps| *gbps > 0.0)?,
        })
    };
    servers.iter().filter_map(row).collect()
}

/// The planned rate per core, if the workload is one of [`WORKLOADS`].
fn planned(workload: &str, costs: &CostTable) -> Option<f64> {
    let is_wanted = WORKLOADS.contains(&workload);
    let demand = Demand::usual(SealedBy::Software, 1);
    let demand = match workload {
        "tls-cold" => demand,
        // Without TLS the kernel sends files by itself.
        "http-warm" => {
            let (tls, route) = (SealedBy::None, PlannedRoute::Kernel);
            Demand { tls, route, hit_share: 1.0, ..demand }
        }
        // Only the presence of a pace matters, not its value.
        "viewers" => Demand { hit_share: 1.0, viewer_mbits_per_second: Some(4.0), ..demand },
        _ => Demand { hit_share: 1.0, ..demand },
    };
    let machine = read_machine(MACHINE).expect("this machine is described well");
    let planned = capacity::plan(&machine.hardware, &demand, costs).gbps_per_core;
    planned.filter(|_| is_wanted)
}

impl Row {
    fn error(&self) -> f64 {
        self.planned / self.measured - 1.0
    }

    fn is_near(&self) -> bool {
        self.error().abs() <= ERROR_MAX
    }
}

fn describe(rows: &[Row], missing: &[&str]) -> String {
    let mut text =
        format!("{:28} {:>8} {:>9} {:>7}\n", "Gb/s a core", "planned", "measured", "error");
    for row in rows {
        let Row { workload, planned, measured } = row;
        let far = if row.is_near() { "" } else { "   more than 15% off" };
        let error = 100.0 * row.error();
        writeln!(text, "{workload:28} {planned:8.1} {measured:9.1} {error:+6.0}%{far}")
            .expect("writing to a string cannot fail");
    }
    if !missing.is_empty() {
        text.push_str(&format!("not measured, so at their usual cost: {}\n", missing.join(", ")));
    }
    text
}

fn to_json(rows: &[Row], missing: &[&str], limit: &Value) -> Value {
    let each = rows.iter().map(|row| {
        json!({
            "workload": row.workload,
            "planned_gbps": row.planned,
            "measured_gbps": row.measured,
            "error": row.error(),
        })
    });
    json!({
        "version": 1,
        "kind": "bench-plan",
        "machine": ::bench::machine_json(),
        "error_max": ERROR_MAX,
        "all_are_near": rows.iter().all(Row::is_near),
        "at_usual_cost": missing,
        "congestion_control": limit["congestion_control"],
        "parts": limit["parts"],
        "rows": each.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> CostTable {
        let rates = [
            ("seal aes128-gcm", 160.0),
            ("read direct", 190.0),
            ("send", 80.0),
            ("sendfile", 80.0),
        ];
        let parts: Vec<_> =
            rates.iter().map(|(name, gbps)| json!({ "name": name, "gbps": gbps })).collect();
        let limit = json!({ "kind": "limit", "version": 1, "parts": parts });
        let costs = CostTable::USUAL.with_measured(&limit).unwrap().0;
        CostTable { seal_hot: Some(120.0), ..costs }
    }

    fn measured(workload: &str, gbps: f64) -> Value {
        json!({ "workload": workload, "sides": [{ "median": gbps }, { "name": "nginx", "median": 1.0 }] })
    }

    #[test]
    fn a_core_is_planned_by_the_parts_of_each_workload() {
        let near = |workload, expected: f64| {
            let found = planned(workload, &costs()).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-9, "{workload}: {found} is not {expected}");
        };
        near("tls-warm", 1.0 / (1.0 / 120.0 + 1.0 / 80.0));
        near("tls-cold", 1.0 / (1.0 / 190.0 + 1.0 / 160.0 + 1.0 / 80.0));
        near("http-warm", 80.0);
        // 64 KiB each 13 µs.
        near("viewers", 1.0 / (1.0 / 120.0 + 1.0 / 80.0 + 13e3 / (64.0 * 1024.0 * 8.0)));
        assert_eq!(planned("handshakes", &costs()), None);
    }

    #[test]
    fn what_is_far_off_is_said_and_what_is_no_workload_of_the_plan_is_left_out() {
        let figures = [
            measured("tls-warm", 47.0),
            measured("http-warm", 60.0),
            measured("idle", 3.0),
            measured("viewers", 0.0),
            json!({ "workload": "viewers", "sides": [{ "median": 22.0 }, { "name": "fullbore (2)" }] }),
            json!({ "workload": "tls-cold", "sides": Value::Null }),
            Value::Null,
        ];
        let servers: Vec<_> = figures.iter().filter_map(of_versus).collect();
        let rows = rows(&servers, &costs());
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!(rows[2].workload, "viewers");
        assert_eq!((rows[0].is_near(), rows[1].is_near()), (true, false));
        let text = describe(&rows, &["send"]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[1].starts_with("tls-warm next to nginx") && lines[1].ends_with("+2%"),
            "{text}"
        );
        assert!(lines[2].ends_with("+33%   more than 15% off"), "{text}");
        assert!(lines[4].contains("usual cost: send"), "{text}");
        assert_eq!(to_json(&rows, &[], &Value::Null)["all_are_near"], false);
    }
}
