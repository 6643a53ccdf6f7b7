//! `fullbore bench versus`.

use ::bench::interrupt::{self, Interrupt};
use ::bench::versus::{self, Options, Peer, Wire, Workload};
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Two servers do the same work in turn
///
/// Server and clients are pinned to cores of their own; what is compared is work per CPU second of the server. Before each
/// turn bytes are compared with the library: nothing is reported of a server that answers wrongly. Needs two cores, the
/// other server, and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Versus {
    /// The other side: nginx, h2o, or fullbore (this program, to see how exact the bench is)
    #[arg(value_parser = ["nginx", "h2o", "fullbore"], required_unless_present = "peer_command")]
    peer: Option<String>,
    /// Any other server: a command line that keeps it in the foreground on 127.0.0.1:@PORT@, serving @LIBRARY@ with @CERT@
    /// and @KEY@; also @CONFIG@, @SCRATCH@, @CPU@
    #[arg(long, value_name = "COMMAND", conflicts_with = "peer")]
    peer_command: Option<String>,
    /// A template for its configuration, with the same placeholders
    #[arg(long, value_name = "FILE", requires = "peer_command", conflicts_with = "peer")]
    peer_config: Option<PathBuf>,
    /// Its name in reports [default: its program's]
    #[arg(long, value_name = "NAME", requires = "peer_command", conflicts_with = "peer")]
    peer_name: Option<String>,
    /// tls-warm, tls-cold, http-warm, http-cold, http-beside, idle, handshakes, viewers, mixed or http-mixed
    #[arg(long, default_value = "tls-warm")]
    workload: Workload,
    /// Turns per side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measured seconds per turn
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Connections at once [default: 8; handshakes 64, mixed 16, idle and viewers 1000]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// What each viewer plays, in Mb/s [default: so much that it is 4 Gb/s together]
    #[arg(long, value_name = "MBPS")]
    rate: Option<f64>,
    /// Hit ratios of the mixed workload, in percent
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "0,10,50,100",
          value_parser = clap::value_parser!(u32).range(0..=100))]
    hit_ratio: Vec<u32>,
    /// MiB of video in the library, over sixteen files [default: 2048, or a quarter of the memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    library: Option<u64>,
    /// What lies between clients and servers. With ethernet (needs root) both are in network namespaces with packets of 1500
    /// bytes between them, and all of the server's core is counted; serve --route bypass wants it, and is over a TAP there.
    /// With xdp it takes its frames by AF_XDP
    #[arg(long, value_name = "WHAT", default_value = "loopback")]
    wire: Wire,
    /// Dashboards that are open on the other side, with `versus fullbore`: what do they cost?
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=16),
          conflicts_with = "wire")]
    dashboards: u8,
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
    pub(super) fn run(self) -> io::Result<ExitCode> {
        // Our own TCP has CUBIC: unless told otherwise, like is compared with like.
        let own = (self.wire != Wire::Loopback).then_some("cubic");
        if let Some(name) = self.congestion_control.as_deref().or(own) {
            if !::bench::namespace::is_inside() {
                ::bench::namespace::enter_with(name)?;
            }
        }
        let interrupt = Interrupt::on_signal()?;
        let json = self.json.clone();
        let outcome = versus::run(&self.options(), &interrupt, |line| {
            // Whoever reads this may stop to; the comparison goes on.
            let _ = writeln!(io::stderr(), "{line}");
        });
        let outcome = match outcome {
            Err(_) if interrupt.is_asked() => {
                eprintln!("fullbore: interrupted before the first turn");
                return Ok(interrupt::EXIT_CODE.into());
            }
            outcome => outcome?,
        };
        print!("{}", outcome.describe());
        super::write_json(json.as_deref(), &outcome.to_json())?;
        Ok(if outcome.interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
    }

    fn options(self) -> Options {
        let peer = match (self.peer.as_deref(), self.peer_command) {
            (_, Some(command)) => {
                Peer::Other { command, config: self.peer_config, name: self.peer_name }
            }
            (Some("h2o"), _) => Peer::H2o,
            (Some("fullbore"), _) => Peer::Fullbore,
            _ => Peer::Nginx,
        };
        Options {
            peer,
            workload: self.workload,
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.1, 600.0),
            connections: self.connections.map(|connections| connections.max(1)),
            rate_bits_per_second: self.rate.map(|mbps| (mbps.clamp(0.001, 1e5) * 1e6) as u64),
            hit_percents: self.hit_ratio,
            library_bytes: self.library.map(|mib| mib << 20),
            wire: self.wire,
            dashboards: self.dashboards.into(),
            scratch: self.scratch,
            serve_arguments: self.serve,
        }
    }
}
