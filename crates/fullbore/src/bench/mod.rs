//! `fullbore bench`: how this server stands on this machine, and what bounds it. Each kind has a file.

mod ablate;
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
    Ablate(ablate::Ablate),
    Versus(versus::Versus),
    Start(start::Start),
}

impl Bench {
    /// Compares and reports.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.kind {
            Kind::Ablate(ablate) => ablate.run(),
            Kind::Versus(versus) => versus.run().map(|()| ExitCode::SUCCESS),
            Kind::Start(start) => start.run().map(|()| ExitCode::SUCCESS),
        };
        done.unwrap_or_else(|error| {
            eprintln!("fullbore: {error}");
            ExitCode::FAILURE
        })
    }
}
