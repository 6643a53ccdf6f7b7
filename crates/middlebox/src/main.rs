//! `middlebox`: a bad network between two interfaces. How to use it is in docs/middlebox.md.
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

/// Carries frames between two network interfaces, and treats them as a bad network would.
///
/// It needs CAP_NET_RAW. The interfaces are up, have no addresses and belong to no bridge. Settings are for each direction: with
/// --delay 10ms, a round trip takes 20 ms longer. It runs until SIGTERM and then says what became of all packets.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The two interfaces
    #[arg(long, num_args = 2, value_names = ["A", "B"], required = true)]
    between: Vec<String>,
    /// How long every packet is under way, such as 10ms
    #[arg(long)]
    delay: Option<String>,
    /// Longer for each connection by what is drawn for it, such as 10ms-80ms
    #[arg(long, value_name = "LEAST-MOST")]
    flow_delay: Option<String>,
    /// Up to so much longer, in order
    #[arg(long)]
    jitter: Option<String>,
    /// How many are lost, such as 1%
    #[arg(long)]
    loss: Option<String>,
    /// How many are held back while others pass, such as 1%
    #[arg(long)]
    reorder: Option<String>,
    /// By how much at most they are held back, such as 5ms
    #[arg(long)]
    reorder_by: Option<String>,
    /// How many arrive twice, such as 1%
    #[arg(long)]
    duplicate: Option<String>,
    /// A bottleneck's rate, such as 100Mbit
    #[arg(long)]
    rate: Option<String>,
    /// What may wait for the bottleneck, such as 256KiB
    #[arg(long)]
    queue: Option<String>,
    /// What the path may hold in all, such as 256MiB
    #[arg(long)]
    held: Option<String>,
    /// Other settings from A to B: delay=5ms,loss=0%
    #[arg(long, value_name = "SETTINGS")]
    there: Option<String>,
    /// Other settings from B to A
    #[arg(long, value_name = "SETTINGS")]
    back: Option<String>,
    /// The same seed draws the same fates
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Carry super-segments of up to 64 KiB as one packet, as they come. Cheaper, and no wire does so
    #[arg(long)]
    keep_super_segments: bool,
    /// Where to write what became of all packets, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Arguments {
    /// Both directions' settings, A to B first.
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
    // clap answers wrong usage itself, with exit code 2.
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

/// Writes to standard output. Whoever read it may have gone: frames are carried on.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
