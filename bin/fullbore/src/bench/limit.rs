//! `fullbore bench limit`.

use ::bench::limit::{self, Options};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Find the bottleneck of this machine
///
/// Measures each part of serving alone (seal, read, send, sendfile, and the first three in a bare loop) and the whole
/// server, in turn on the same core. Prints the server's rate as a percentage of what its parts allow, and the scarce
/// resource. Needs two cores and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Limit {
    /// Number of turns per part
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per turn
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Size of the library in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    library: u64,
    /// Directory to create the library in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Congestion control, in a network namespace made for it (needs root) [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Limit {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        if let Some(name) = &self.congestion_control {
            if !::bench::namespace::is_inside() {
                ::bench::namespace::enter_with(name)?;
            }
        }
        let options = Options {
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.05, 60.0),
            library_bytes: self.library.max(16) << 20,
            scratch: self.scratch,
            is_for_plan: false,
        };
        let interrupt = Interrupt::on_signal()?;
        let outcome = limit::run(&options, &interrupt, |line| crate::note(&line))?;
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        Ok(if outcome.interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
    }
}
