//! `fullbore bench`: how this server stands on this machine, and what bounds it. Each kind has a file.

mod start;
mod versus;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Measure this machine and the servers on it
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Versus(versus::Versus),
    Start(start::Start),
}

impl Bench {
    /// Compares and reports.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.kind {
            Kind::Versus(versus) => versus.run(),
            Kind::Start(start) => start.run(),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("fullbore: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
