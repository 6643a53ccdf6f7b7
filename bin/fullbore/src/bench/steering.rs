//! `fullbore bench steering`.

use ::bench::steering::{Options, run};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure how fast viewers are assigned to nodes
///
/// Generates a fleet, builds the index of its snapshot, checks 200,000 answers, and measures decisions per second of one core, their latency,
/// and the memory that the index needs. Every run generates the same fleet.
#[derive(Args)]
pub(super) struct Steering {
    /// Number of nodes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(6..=1_000_000))]
    nodes: u32,
    /// Number of titles on each node
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    held: u32,
    /// Number of titles in all
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    titles: u32,
    /// Number of sites
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    sites: u32,
    /// Number of prefixes, each announced by three sites
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(0..=4_000_000))]
    prefixes: u32,
    /// Number of turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per turn
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Steering {
    pub(super) fn run(self) -> std::io::Result<ExitCode> {
        let options = Options {
            nodes: self.nodes,
            held: self.held,
            titles: self.titles,
            sites: self.sites,
            prefixes: self.prefixes,
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.01, 60.0),
        };
        let outcome = run(&options, crate::note)?;
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        Ok(ExitCode::SUCCESS)
    }
}
