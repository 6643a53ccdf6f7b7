//! `fullbore bench start`.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the time from process start to the first byte served
#[derive(Args)]
pub(super) struct Start {
    /// Number of starts
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Start {
    pub(super) fn run(self) -> std::io::Result<ExitCode> {
        let started = ::bench::start::run(self.rounds.into())?;
        crate::say(&started.describe());
        super::write_json(self.json.as_deref(), &started.to_json())?;
        Ok(ExitCode::SUCCESS)
    }
}
