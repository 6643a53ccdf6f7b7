//! `fullbore bench heartbeats`.

use crate::load::Time;
use ::bench::heartbeats::{Options, run};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure a gateway's cost for a large fleet's heartbeats
///
/// Starts a gateway on the first core, and simulated nodes on the others. Each node has its own certificate and connection, and sends a heartbeat
/// every five seconds. Prints the gateway's CPU time, memory and network traffic, its writes to the store, lost heartbeats, and response times.
/// Needs two cores, an open file per node, and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Heartbeats {
    /// Number of nodes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    nodes: u32,
    /// Number of titles on each node
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    titles: u32,
    /// How long to measure, such as 5m
    #[arg(long, value_name = "TIME", default_value = "2m")]
    duration: Time,
    /// Time between the heartbeats of a node
    #[arg(long, value_name = "TIME", default_value = "5s")]
    interval: Time,
    /// Have nodes also fetch the fleet's snapshot this often; agents of 10,000 nodes do so every 17m [default: never]
    #[arg(long, value_name = "TIME")]
    snapshots: Option<Time>,
    /// Directory to create the gateway's folder in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Heartbeats {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let options = Options {
            nodes: self.nodes,
            titles: self.titles,
            interval: self.interval.0.clamp(Duration::from_millis(500), Duration::from_secs(10)),
            duration: self.duration.0.max(Duration::from_secs(1)),
            snapshots: self.snapshots.map(|after| after.0),
            scratch: self.scratch,
        };
        let interrupt = Interrupt::on_signal()?;
        match run(&options, &interrupt, crate::note) {
            Err(_) if interrupt.is_asked() => Ok(interrupt::EXIT_CODE.into()),
            outcome => {
                let outcome = outcome?;
                crate::say(&outcome.describe());
                super::write_json(self.json.as_deref(), &outcome.to_json())?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
