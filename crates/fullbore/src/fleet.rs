//! `fullbore fleet`: what concerns a fleet as a whole, and needs none.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use simulation::{DayOptions, simulate};

use crate::{say, tell};

/// Try out a fleet without having one
#[derive(Args)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Simulate(Simulate),
}

/// Simulate a day of a drawn fleet in virtual time
///
/// Steering and placement are the real ones. Nodes, sites, gateways and stores fail, and a feed of popularity lies; whatever must hold is checked
/// at each step. Two other rules of equal room serve the same viewers for comparison. The same flags give the same report to the byte.
/// docs/simulation.md says what is modelled. Exit code 1: something did not hold.
#[derive(Args)]
struct Simulate {
    /// Number of nodes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    nodes: u32,
    /// Number of titles
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    titles: u32,
    /// What all is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Hours, from 02:00 on
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=24))]
    hours: u32,
    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Fleet {
    /// Runs the verb.
    pub(crate) fn run(self) -> ExitCode {
        let Verb::Simulate(simulate) = self.verb;
        simulate.run()
    }
}

impl Simulate {
    fn run(self) -> ExitCode {
        let Self { nodes, titles, seed, hours, json } = self;
        let report = simulate(&DayOptions { nodes, titles, seed, hours, planted: None });
        say(&report.describe());
        if let Some(path) = json {
            let text = serde_json::to_string_pretty(&report).expect("a report is plain JSON");
            if let Err(error) = std::fs::write(&path, text + "\n") {
                tell(&format!("cannot write {}: {error} (choose another file)", path.display()));
                return ExitCode::FAILURE;
            }
        }
        if report.breaches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
