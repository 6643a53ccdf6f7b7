//! Compares caching edges: this program, nginx with `proxy_cache` and `slice`, Varnish and Traffic Server, in front of the same origin and with
//! the same clients. This program also serves the library itself, which is the most that an edge can reach.
//!
//! Cold turns begin with an empty cache and end when nine tenths of the library have been sent, so hardly anything is sent twice. They are
//! compared by the CPU seconds of all the server's processes, including its helper's. Then every cache is filled, and warm turns work like
//! those of `versus`. The origin is a `fullbore serve` on one of the clients' cores.
//!
//! More parts show what edges request from a slow origin, and from one that sometimes fails, and what their viewers get: see `trial`.

mod origin;
mod outcome;
mod peers;
mod trial;
mod turns;

pub use outcome::Outcome;
pub use peers::EdgePeer;

use crate::library::Library;
use crate::unknown_name::UnknownName;
use crate::versus::peer::{Recipe, own_program, words};
use crate::versus::side::{Given, Side};
use crate::versus::turn::Task;
use crate::versus::workload::FILES;
use crate::versus::{Client, Network, SERVER_CPU, Workload, client_cpus};
use load::interrupt::Interrupt;
use peers::caches;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use trial::Ground;
use turns::Runner;

/// Default size of the library: many times the read-ahead, and quick to create and to fetch.
const LIBRARY_BYTES: u64 = 1 << 30;

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Work per CPU second, from empty caches.
    Cold,
    /// The same, from full caches.
    Warm,
    /// One viewer of titles that no viewer has requested before: the time to the first byte.
    Miss,
    /// Many concurrent viewers of one title: counts requests to the origin.
    Stampede,
    /// An origin that sometimes fails: counts what viewers get.
    Flaky,
}

impl Part {
    /// All parts in order, with their names.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Cold, "cold"),
        (Self::Warm, "warm"),
        (Self::Miss, "miss"),
        (Self::Stampede, "stampede"),
        (Self::Flaky, "flaky"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(part, _)| *part == self).map_or("", |(_, name)| name)
    }
}

impl std::str::FromStr for Part {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        let unknown = || UnknownName::new("part", name, Self::ALL.map(|(_, name)| name));
        known.map(|(part, _)| *part).ok_or_else(unknown)
    }
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parts to run.
    pub parts: Vec<Part>,
    /// Servers to compare with.
    pub peers: Vec<EdgePeer>,
    /// Viewers in a stampede.
    pub viewers: usize,
    /// Viewers connect over TLS if set.
    pub has_tls: bool,
    /// Concurrent connections of viewers.
    pub connections: usize,
    /// Turns per server, cold and warm.
    pub rounds: usize,
    /// Measured seconds per warm turn.
    pub seconds: f64,
    /// Bytes of the library; `None` makes it 1 GiB, or an eighth of the memory.
    pub library_bytes: Option<u64>,
    /// Where to create the library and the caches; the system's temporary directory if unset.
    pub scratch: Option<PathBuf>,
}

/// Compares the edges, and reports each turn to `progress`.
///
/// # Errors
/// If a server does not start, answers wrongly or fails; then nothing is compared. An interrupt is not an error: the outcome then has the
/// turns so far.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
) -> io::Result<Outcome> {
    let scratch = crate::scratch::folder(options.scratch.as_ref())?;
    let bytes = library_bytes(options)?;
    progress(format!("creating a library of {} MiB", bytes >> 20));
    let library = Library::make(&scratch.path().join("library"), FILES, bytes, interrupt)?;
    let library = Arc::new(library);
    let client_cpus = client_cpus()?;
    let given = Given {
        library: &library.root,
        scratch: scratch.path(),
        cpu: Some(SERVER_CPU),
        network: &Network::Loopback,
        interrupt,
    };
    let origin = Side::start(&origin()?, &Given { cpu: client_cpus.last().copied(), ..given })?;
    let caches = caches(options, origin.address, scratch.path(), bytes)?;
    let task = Task {
        workload: if options.has_tls { Workload::TlsWarm } else { Workload::HttpWarm },
        client: Client::default(),
        library: &library,
        scratch: scratch.path(),
        connections: options.connections,
        seconds: options.seconds,
        rate_bits_per_second: 1,
        hit_share: 0.0,
        server_cpu: SERVER_CPU,
        client_cpus,
        counts_core: false,
        guess: None,
    };
    let ground =
        Ground { options, given, library: &library, client_cpus: &task.client_cpus.clone() };
    let mut runner = Runner::start(caches, given, task)?;
    let mut outcome = Outcome::new(options, bytes, runner.sides());
    let played = runner.play(options, &mut outcome, &mut progress).and_then(|()| {
        drop(runner);
        for part in trial::PARTS {
            if options.parts.contains(&part) {
                ground.play(part, &mut outcome.tried, &mut progress)?;
            }
        }
        Ok(())
    });
    outcome.interrupted = played.is_err() && interrupt.is_asked();
    match played {
        Err(error) if !outcome.interrupted => Err(error),
        _ => Ok(outcome),
    }
}

/// The size of the library.
///
/// # Errors
/// If the copies of it do not fit in memory: those of the origin, the edge and its peers.
fn library_bytes(options: &Options) -> io::Result<u64> {
    let machine = machine::Machine::probe();
    let memory_bytes = machine.memory_limit_bytes.or(machine.memory_bytes).unwrap_or(u64::MAX);
    let copies = 2 + options.peers.len() as u64;
    let bytes = options.library_bytes.unwrap_or(LIBRARY_BYTES.min(memory_bytes / 2 / copies));
    if copies * bytes > memory_bytes / 2 {
        return Err(io::Error::other(format!(
            "{copies} copies of a library of {} MiB do not stay in memory here ({} MiB): choose a smaller one with --library",
            bytes >> 20,
            memory_bytes >> 20
        )));
    }
    Ok(bytes)
}

/// This program as an edge.
fn edge(has_tls: bool, origin: SocketAddr) -> io::Result<Recipe> {
    let tls = if has_tls { "on" } else { "off" };
    let line = format!(
        "serve --origin http://{origin} --cache @SCRATCH@/edge-cache --state @SCRATCH@/state \
         --listen @ADDRESS@:0 --admin 127.0.0.1:0 --workers 1 --tls {tls}"
    );
    own_program("fullbore edge", words(&line))
}

/// The origin behind all edges. It lets them cache for longer than the bench runs.
fn origin() -> io::Result<Recipe> {
    let line = "serve @LIBRARY@ --state @SCRATCH@/origin --listen @ADDRESS@:0 --admin 127.0.0.1:0 \
                --workers 1 --tls off --config @CONFIG@";
    let config = "[http]\ncache_control = \"max-age=86400\"\n";
    Ok(Recipe { config: Some(config.to_owned()), ..own_program("origin", words(line))? })
}
