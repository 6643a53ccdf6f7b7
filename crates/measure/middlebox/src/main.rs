//! `middlebox`: a bad network between two interfaces. docs/middlebox.md explains how to use it.
//!
//! Exit codes: 0 ended by SIGTERM or SIGINT, 1 failed, 2 wrong usage.

mod bridge;
mod port;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use fullbore_middlebox::Impairment;

/// Forwards frames between two network interfaces, with the defects of a bad network.
///
/// Requires CAP_NET_RAW. The interfaces must be up, without addresses, and not part of a bridge. Settings apply to each direction: with
/// --delay 10ms, a round trip takes 20 ms longer. Runs until SIGTERM, then prints what happened to all packets.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The two interfaces
    #[arg(long, num_args = 2, value_names = ["A", "B"], required = true)]
    between: Vec<String>,
    /// Delay of every packet, such as 10ms
    #[arg(long)]
    delay: Option<String>,
    /// Extra delay of each connection, drawn once from this range, such as 10ms-80ms
    #[arg(long, value_name = "LEAST-MOST")]
    flow_delay: Option<String>,
    /// Extra delay up to this, without reordering, such as 2ms
    #[arg(long)]
    jitter: Option<String>,
    /// Share of packets lost, such as 1%
    #[arg(long)]
    loss: Option<String>,
    /// Share of packets held back while others pass, such as 1%
    #[arg(long)]
    reorder: Option<String>,
    /// Longest time a reordered packet is held back, such as 5ms
    #[arg(long)]
    reorder_by: Option<String>,
    /// Share of packets that arrive twice, such as 1%
    #[arg(long)]
    duplicate: Option<String>,
    /// Rate of a bottleneck, such as 100Mbit
    #[arg(long)]
    rate: Option<String>,
    /// Size of the bottleneck's queue, such as 256KiB
    #[arg(long)]
    queue: Option<String>,
    /// Memory for all packets waiting or delayed, such as 256MiB
    #[arg(long)]
    held: Option<String>,
    /// Settings from A to B that override these: delay=5ms,loss=0%
    #[arg(long, value_name = "SETTINGS")]
    there: Option<String>,
    /// Settings from B to A that override these
    #[arg(long, value_name = "SETTINGS")]
    back: Option<String>,
    /// Seed of the random choices; the same seed treats the same packets alike
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pass on super-segments of up to 64 KiB as one packet: cheaper, but unlike any wire
    #[arg(long)]
    keep_super_segments: bool,
    /// Write what happened to all packets to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Arguments {
    /// The settings of both directions, A to B first.
    fn impairments(&self) -> Result<[Impairment; 2], String> {
        let mut both = Impairment::default();
        let settings = [
            ("delay", &self.delay),
            ("flow-delay", &self.flow_delay),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("reorder", &self.reorder),
            ("reorder-by", &self.reorder_by),
            ("duplicate", &self.duplicate),
            ("rate", &self.rate),
            ("queue", &self.queue),
            ("held", &self.held),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                both.set(name, value).map_err(|error| format!("--{name}: {error}"))?;
            }
        }
        let (mut there, mut back) = (both, both);
        for (name, way, settings) in
            [("there", &mut there, &self.there), ("back", &mut back, &self.back)]
        {
            if let Some(settings) = settings {
                way.set_all(settings).map_err(|error| format!("--{name}: {error}"))?;
            }
        }
        Ok([there, back])
    }
}

fn main() -> ExitCode {
    // clap reports wrong usage itself, with exit code 2.
    let arguments = Arguments::parse();
    let impairments = match arguments.impairments() {
        Ok(impairments) => impairments,
        Err(error) => {
            use clap::CommandFactory;
            Arguments::command().error(ErrorKind::ValueValidation, error).exit()
        }
    };
    match run(&arguments, impairments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("middlebox: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, impairments: [Impairment; 2]) -> Result<(), String> {
    let [a, b] = &arguments.between[..] else { unreachable!("clap takes two names") };
    let open = |name: &String| {
        port::Port::open(name).map_err(|error| format!("cannot carry frames of {name}: {error}"))
    };
    let ports = [open(a)?, open(b)?];
    let keep = arguments.keep_super_segments;
    let mut bridge = bridge::Bridge::new(ports, impairments, arguments.seed, keep)
        .map_err(|error| format!("cannot wait for frames: {error}"))?;
    say(&format!("ready {a} {b}\n"));
    let ended = bridge.run().map_err(|error| format!("stopped carrying frames: {error}"));
    let report = report::Report::new([a, b], &bridge);
    say(&report.text());
    if let Some(file) = &arguments.json {
        let written = std::fs::write(file, report.json());
        written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    ended
}

/// Writes to standard output. If the reader has gone, frames are still forwarded.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
