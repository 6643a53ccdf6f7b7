//! What limits this machine: measures each part of serving alone, in the same run as the server made of these parts.
//!
//! Each part runs on the server's core, with the server's sizes and calls, and is measured in CPU seconds of its thread: waiting for the
//! disk or for viewers does not count. A byte that is read, encrypted and sent costs the sum of the three, so the chain's ceiling is 1 /
//! (1/read + 1/seal + 1/send). The nearer the server comes to it, the less the server adds.
//!
//! Fills are measured the same way: opening records, SHA-256 and writing alone, next to a box that copies a title over TLS.
//!
//! Read `parts` for how each part is measured, `chain` for the sums.

mod chain;
mod fill;
mod fill_parts;
mod outcome;
pub(crate) mod parts;
mod sending;
mod sockets;

pub use outcome::Outcome;

use crate::fill::source::Source;
use crate::library::Library;
use crate::stats::Summary;
use crate::versus::side::{Given, Side};
use crate::versus::turn::Task;
use crate::versus::workload::FILES;
use crate::versus::{Client, Network, OURS, SERVER_CPU, Workload, client_cpus, fullbore};
use chain::CHAINS;
use load::interrupt::Interrupt;
pub(crate) use parts::pin;
use parts::{Part, Rate, Stage};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of the film that is copied in each turn: about a second's worth, in memory at its source.
const FILM_BYTES_MAX: u64 = 512 << 20;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns of each part.
    pub rounds: usize,
    /// Seconds of each turn.
    pub seconds: f64,
    /// Bytes of the library.
    pub library_bytes: u64,
    /// Where to create the library; the system's temporary directory if unset.
    pub scratch: Option<PathBuf>,
    /// Measures only the parts that `fullbore plan` needs if set: no other ciphers, and no fill.
    pub is_for_plan: bool,
}

/// Measures, and reports each round to `progress`.
///
/// # Errors
/// If the server or a part cannot run. An interrupt is not an error: the outcome then has the rounds so far.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
) -> io::Result<Outcome> {
    let scratch = crate::scratch::folder(options.scratch.as_ref())?;
    progress(format!("creating a library of {} MiB", options.library_bytes >> 20));
    let library =
        Library::make(&scratch.path().join("library"), FILES, options.library_bytes, interrupt)?;
    let library = Arc::new(library);
    let client_cpus = client_cpus()?;
    let stage = Stage {
        library: Arc::clone(&library),
        scratch: scratch.path().to_owned(),
        cpu: SERVER_CPU,
        sink_cpu: client_cpus[0],
        seconds: options.seconds,
    };
    let given = Given {
        library: &library.root,
        scratch: scratch.path(),
        cpu: Some(SERVER_CPU),
        network: &Network::Loopback,
        interrupt,
    };
    let parts = if options.is_for_plan { &Part::PLANNED[..] } else { &Part::ALL };
    let filled = match options.is_for_plan {
        true => None,
        false => Some(Filled::start(options.library_bytes, &given, client_cpus[0])?),
    };
    let mut outcome = Outcome::new();
    for round in 1..=options.rounds {
        let measured = measure(&stage, parts, &given, &client_cpus, &mut outcome);
        let measured = measured.and_then(|()| {
            let Some(Filled { source, sender }) = &filled else { return Ok(()) };
            let rate = fill::measure(&stage, source, round, sender.address, interrupt)?;
            outcome.add_fill(rate);
            Ok(())
        });
        match measured {
            Err(error) if interrupt.is_asked() => {
                progress(format!("interrupted ({error}): the figures cover the rounds so far"));
                outcome.interrupted = true;
                break;
            }
            measured => measured?,
        }
        progress(format!("round {round} of {}", options.rounds));
    }
    Ok(outcome)
}

/// The title that a box copies, and the server that it copies from.
struct Filled {
    source: Source,
    sender: Side,
}

impl Filled {
    /// Starts the source's server on core `cpu`. The box runs on the core of the parts.
    fn start(library_bytes: u64, given: &Given<'_>, cpu: u32) -> io::Result<Self> {
        let film_bytes = (library_bytes / 4).min(FILM_BYTES_MAX);
        let source = Source::make(&given.scratch.join("source"), film_bytes, given.interrupt)?;
        let of_source = Given { library: &source.root, cpu: Some(cpu), ..*given };
        let sender = Side::start(&fullbore(Workload::TlsWarm, &[], OURS)?, &of_source)?;
        Ok(Self { source, sender })
    }
}

/// Runs one round: each of `parts`, then each server. Every round starts new servers: the placement of a server's buffers varies by run and
/// affects its speed, so a single server would make all rounds alike.
fn measure(
    stage: &Stage,
    parts: &[Part],
    given: &Given<'_>,
    client_cpus: &[u32],
    outcome: &mut Outcome,
) -> io::Result<()> {
    let interrupt = given.interrupt;
    for part in parts {
        interrupt.check()?;
        outcome.add_part(*part, stage.measure(*part)?);
    }
    for chain in &CHAINS {
        let mut server = Side::start(&fullbore(chain.workload, &[], OURS)?, given)?;
        let task = Task {
            workload: chain.workload,
            client: Client::Load,
            library: &stage.library,
            scratch: &stage.scratch,
            connections: chain.workload.connections(),
            seconds: stage.seconds,
            rate_bits_per_second: chain.workload.rate_bits_per_second(chain.workload.connections()),
            hit_share: 0.0,
            server_cpu: SERVER_CPU,
            client_cpus: client_cpus.to_vec(),
            counts_core: false,
            guess: None,
        };
        // The first turn fills the server's hot set.
        task.take(&mut server, interrupt, &mut |_| ())?;
        let round = task.take(&mut server, interrupt, &mut |_| ())?;
        outcome.add_server(chain.workload, round.figure);
    }
    Ok(())
}

/// A part's rates over the rounds: per CPU second, and by the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) per_cpu: Summary,
    pub(crate) wall: Summary,
}

impl Rates {
    pub(crate) fn of(rounds: &[Rate]) -> Option<Self> {
        let of = |rate: fn(&Rate) -> f64| rounds.iter().map(rate).collect::<Vec<_>>();
        (!rounds.is_empty()).then(|| Self {
            per_cpu: Summary::of(&of(|rate| rate.gbps_per_cpu_second)),
            wall: Summary::of(&of(|rate| rate.gbps)),
        })
    }
}
