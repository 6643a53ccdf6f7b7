//! `fullbore bench`: measures this server's speed on this machine, and its bottleneck. Each kind of bench has a file.

mod ablate;
mod connections;
mod disk;
mod edge;
mod eviction;
mod fill_beside;
mod gateway;
mod heartbeats;
mod limit;
mod plan;
mod report;
mod start;
mod steering;
mod versus;

use clap::{Args, Subcommand};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Measure this machine and the servers on it
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Ablate(ablate::Ablate),
    Connections(connections::Connections),
    Disk(disk::DiskReads),
    Edge(edge::EdgeBench),
    Eviction(eviction::Eviction),
    FillBeside(fill_beside::FillBeside),
    Gateway(gateway::Gateway),
    Heartbeats(heartbeats::Heartbeats),
    #[command(hide = true)]
    Hello(gateway::Hello),
    Limit(limit::Limit),
    Plan(plan::BenchPlan),
    Report(report::Report),
    Versus(Box<versus::Versus>),
    Start(start::Start),
    Steering(steering::Steering),
}

impl Bench {
    /// Measures and reports.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.kind {
            Kind::Ablate(ablate) => ablate.run(),
            Kind::Connections(connections) => connections.run(),
            Kind::Disk(disk) => disk.run(),
            Kind::Edge(edge) => edge.run(),
            Kind::Eviction(eviction) => eviction.run(),
            Kind::FillBeside(beside) => beside.run(),
            Kind::Gateway(gateway) => gateway.run(),
            Kind::Heartbeats(heartbeats) => heartbeats.run(),
            Kind::Hello(hello) => hello.run(),
            Kind::Limit(limit) => limit.run(),
            Kind::Plan(plan) => plan.run(),
            Kind::Report(report) => report.run(),
            Kind::Versus(versus) => versus.run(),
            Kind::Start(start) => start.run(),
            Kind::Steering(steering) => steering.run(),
        };
        done.unwrap_or_else(|error| {
            crate::note(&format!("fullbore: {error}"));
            ExitCode::FAILURE
        })
    }
}

/// Writes figures as JSON, if a file was named.
fn write_json(path: Option<&Path>, figures: &impl std::fmt::Display) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, format!("{figures:#}\n")).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    })
}
