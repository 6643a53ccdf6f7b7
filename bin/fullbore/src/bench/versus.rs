//! `fullbore bench versus`.

use ::bench::namespace;
use ::bench::versus::{self, Client, Options, Peer, Wire, Workload};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `--congestion-control` calls the system's setting.
const SYSTEM: &str = "system";

/// What operators of video use. A server that is fast under one of them need not be under the other.
const USUAL: [&str; 2] = ["cubic", "bbr"];

/// Compare two servers that do the same work in turn
///
/// The result is work per CPU second. Server and clients are pinned to cores of their own. Before each turn the bench checks
/// the server's bytes against the library, and it reports no figures for a server whose answers are wrong. Needs two cores,
/// the other server, and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Versus {
    /// The other server: nginx, h2o, or fullbore (this program, to show the bench's precision)
    #[arg(value_parser = ["nginx", "h2o", "fullbore"], required_unless_present = "peer_command")]
    peer: Option<String>,
    /// Any other server: a command line that runs it in the foreground on 127.0.0.1:@PORT@, serving @LIBRARY@ with @CERT@
    /// and @KEY@; also @CONFIG@, @SCRATCH@, @CPU@
    #[arg(long, value_name = "COMMAND", conflicts_with = "peer")]
    peer_command: Option<String>,
    /// Template of the other server's configuration, with the same placeholders
    #[arg(long, value_name = "FILE", requires = "peer_command", conflicts_with = "peer")]
    peer_config: Option<PathBuf>,
    /// Name of the other server in reports [default: its program's name]
    #[arg(long, value_name = "NAME", requires = "peer_command", conflicts_with = "peer")]
    peer_name: Option<String>,
    /// tls-warm, tls-cold, http-warm, http-cold, http-beside, idle, handshakes, viewers, mixed, http-mixed or swarm
    #[arg(long, default_value = "tls-warm")]
    workload: Workload,
    /// Clients that request the files, one after the other: load (this program's own), small-reads (the same, reading 64 KiB at
    /// a time), curl and wrk. curl and wrk only do tls-warm, tls-cold, http-warm and http-cold
    #[arg(long, value_name = "PROGRAM,...", value_delimiter = ',', default_value = "load")]
    client: Vec<Client>,
    /// Turns per side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds measured per turn; with swarm, per trial
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Number of connections [default: 8; handshakes 64, mixed 16, idle and viewers 1000]; with swarm, the most viewers to
    /// try [default: 16000]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Rate of each viewer in Mb/s [default: 4 Gb/s divided by their number; swarm 4]
    #[arg(long, value_name = "MBPS")]
    rate: Option<f64>,
    /// Hit ratios of the mixed workload, in percent
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "0,10,50,100",
          value_parser = clap::value_parser!(u32).range(0..=100))]
    hit_ratio: Vec<u32>,
    /// Size of the library in MiB, in sixteen files [default: 2048, or a quarter of the memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    library: Option<u64>,
    /// Network between clients and servers. With ethernet (needs root) both run in network namespaces connected by 1500-byte
    /// packets, and all CPU time of the server's core is counted. serve --route bypass needs ethernet, and uses a TAP there;
    /// with xdp it uses AF_XDP instead
    #[arg(long, value_name = "WHAT", default_value = "loopback")]
    wire: Wire,
    /// Number of dashboards open on the other side, with `versus fullbore`, to measure their cost
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=16),
          conflicts_with = "wire")]
    dashboards: u8,
    /// Directory to create the library in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Congestion controls for both sides, one after the other, in a network namespace made for them (needs root); system stands
    /// for the one that is set [default: cubic,bbr if both can be set in such a namespace, otherwise system;
    /// cubic with --wire ethernet and xdp]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    congestion_control: Vec<String>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// More arguments for `fullbore serve`
    #[arg(last = true)]
    serve: Vec<String>,
}

impl Versus {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let controls = self.congestion_controls();
        if let Some(first) = controls.first() {
            if !namespace::is_inside() {
                namespace::enter_with(first)?;
            }
        }
        let interrupt = Interrupt::on_signal()?;
        let json = self.json.clone();
        let grid = versus::run(
            &self.options(controls),
            &interrupt,
            |line| crate::note(&line),
            |outcome| crate::say(&outcome.describe()),
        );
        let grid = match grid {
            Err(_) if interrupt.is_asked() => {
                crate::tell("interrupted before the first turn");
                return Ok(interrupt::EXIT_CODE.into());
            }
            grid => grid?,
        };
        if let Some(worst) = grid.describe() {
            crate::say(&worst);
        }
        super::write_json(json.as_deref(), &grid.to_json())?;
        Ok(if grid.interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
    }

    /// The congestion controls to set; none keeps the system's.
    fn congestion_controls(&self) -> Vec<String> {
        let is_system = |name: &String| name == SYSTEM;
        match self.congestion_control.as_slice() {
            [only] if is_system(only) && self.wire == Wire::Loopback => Vec::new(),
            // The server's own TCP uses CUBIC, so by default both sides use it.
            [] if self.wire != Wire::Loopback => vec!["cubic".to_owned()],
            [] if namespace::is_inside() || namespace::can_set(&USUAL) => {
                USUAL.map(str::to_owned).to_vec()
            }
            [] => {
                let system = namespace::system();
                let names = USUAL.join(" and ");
                crate::note(&format!(
                    "measuring under {system} only: {names} can't both be set here"
                ));
                Vec::new()
            }
            names => {
                let named = names.iter().map(|name| match name {
                    name if is_system(name) => namespace::system(),
                    name => name.clone(),
                });
                named.collect()
            }
        }
    }

    fn options(self, congestion_controls: Vec<String>) -> Options {
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
            clients: self.client,
            congestion_controls,
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
