//! `fullbore bench versus`.

use ::bench::Workload;
use clap::Args;
use std::path::PathBuf;

/// Fullbore and nginx do the same work in turn
///
/// Server and clients are pinned to a core each; what is compared is Gb/s per CPU second of the server. Needs two
/// cores, nginx on the PATH, and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Versus {
    /// The other side
    #[arg(value_parser = ["nginx"])]
    peer: String,
    /// tls-warm, tls-cold or http-warm
    #[arg(long, default_value = "tls-warm")]
    workload: Workload,
    /// Rounds per side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per round
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Connections at once
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// MiB of video in the library, over eight files
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    library: u64,
    /// Where to make the library
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Congestion control for both sides, in a network namespace made for it (needs root) [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Further arguments for `fullbore serve`
    #[arg(last = true)]
    serve: Vec<String>,
}

impl Versus {
    pub(super) fn run(self) -> std::io::Result<()> {
        if let Some(name) = &self.congestion_control {
            if !::bench::namespace::is_inside() {
                return ::bench::namespace::enter_with(name);
            }
        }
        let options = ::bench::Options {
            workload: self.workload,
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.1, 600.0),
            connections: self.connections.max(1),
            library_bytes: (self.library.max(8)) << 20,
            scratch: self.scratch,
            serve_arguments: self.serve,
        };
        let outcome = ::bench::run(&options, |line| eprintln!("{line}"))?;
        print!("{}", outcome.describe());
        if let Some(path) = self.json {
            std::fs::write(path, format!("{:#}\n", outcome.to_json()))?;
        }
        Ok(())
    }
}
