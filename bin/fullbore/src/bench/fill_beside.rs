//! `fullbore bench fill-beside`.

use ::bench::fill::{self, Options};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure how long a box's viewers wait while it copies a title at its full rate
///
/// The box's agent and server run on the first core. Viewers request ranges from memory, each at its own rate, in turns with and without a title
/// being copied from another server over TLS. Prints the time to first byte for both. Needs two cores, disk space for the film twice, and an
/// otherwise idle machine.
#[derive(Args)]
pub(super) struct FillBeside {
    /// Number of turns with a fill, and as many without
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per turn
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Number of viewers
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    viewers: u16,
    /// Rate at which each viewer plays, in Mb/s
    #[arg(long, value_name = "MBPS", default_value_t = 8.0)]
    rate: f64,
    /// Rate of the copy, in Mb/s, as with `fullbore node --fill-rate`
    #[arg(long, value_name = "MBPS", default_value_t = 800.0)]
    fill_rate: f64,
    /// Size of the library that viewers watch, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    library: u64,
    /// Directory to create the libraries in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl FillBeside {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let bits = |megabits: f64| (megabits.clamp(0.1, 100_000.0) * 1e6) as u64;
        let options = Options {
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.5, 600.0),
            viewers: self.viewers.into(),
            viewer_bits_per_second: bits(self.rate),
            fill_bits_per_second: bits(self.fill_rate),
            library_bytes: self.library.max(16) << 20,
            scratch: self.scratch,
        };
        let interrupt = Interrupt::on_signal()?;
        match fill::run(&options, &interrupt, |line| crate::note(&line)) {
            Err(_) if interrupt.is_asked() => Ok(interrupt::EXIT_CODE.into()),
            outcome => {
                let outcome = outcome?;
                crate::say(&outcome.describe());
                super::write_json(self.json.as_deref(), &outcome.to_json())?;
                let interrupted = outcome.interrupted;
                Ok(if interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
            }
        }
    }
}
