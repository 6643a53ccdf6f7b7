//! `fullbore bench edge`.

use ::bench::edge::{EdgePeer, Options, Part, run};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare caching edges: this program's, nginx with proxy_cache and slice, Varnish, Traffic Server, and plain serve
///
/// All have the same origin and the same clients, and take turns: first with empty caches, then with full ones. The result is work per CPU second,
/// helper processes included. The bench checks the server's bytes before each warm turn and after each cold one. Three more parts have a slow
/// origin: they show the time to the first byte of a title that is new to the edge, and count the requests that each edge sends during a
/// stampede of viewers on one title, and while the origin fails one request in a hundred. Needs two cores, the other servers, and an otherwise
/// idle machine.
#[derive(Args)]
pub(super) struct EdgeBench {
    /// Parts to run: cold, warm, miss, stampede, flaky
    #[arg(long, value_name = "PART", value_delimiter = ',', default_values = Part::ALL.map(|(_, name)| name))]
    part: Vec<Part>,
    /// Servers to compare with: nginx, varnish (with --plain, because it has no TLS), ats
    #[arg(long, value_name = "SERVER", value_delimiter = ',', default_values = EdgePeer::ALL.map(|(_, name)| name))]
    peers: Vec<EdgePeer>,
    /// Serve viewers over plain HTTP instead of TLS 1.3
    #[arg(long)]
    plain: bool,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Viewers in a stampede
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    viewers: u16,
    /// Turns per server in each part
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds measured per turn with full caches
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Size of the library in MiB, in sixteen files; each cache is as large [default: 1024, or less if the memory is small]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    library: Option<u64>,
    /// Directory to make the library and the caches in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl EdgeBench {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let interrupt = Interrupt::on_signal()?;
        let options = Options {
            parts: self.part,
            peers: self.peers,
            viewers: self.viewers.into(),
            has_tls: !self.plain,
            connections: self.connections.into(),
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.1, 600.0),
            library_bytes: self.library.map(|mib| mib << 20),
            scratch: self.scratch,
        };
        let outcome = run(&options, &interrupt, |line| crate::note(&line));
        let outcome = match outcome {
            Err(_) if interrupt.is_asked() => {
                crate::tell("interrupted before the first turn");
                return Ok(interrupt::EXIT_CODE.into());
            }
            outcome => outcome?,
        };
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        Ok(if outcome.interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
    }
}
