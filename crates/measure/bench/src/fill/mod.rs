//! Viewers during a fill: how much slower a box answers its viewers while it copies titles at its full rate.
//!
//! A real agent with its real server runs on the first core. Viewers request ranges of cached titles from it, each at its rate, with and
//! without a fill in turn. The fill is a title that arrives over TLS from a second real server, which shares the other cores with the
//! viewers. The bench compares times to the first byte, round by round.

mod outcome;
pub(crate) mod source;

pub use outcome::Outcome;

use crate::library::{Library, file_name};
use crate::limit::pin;
use crate::versus::side::{Given, Side};
use crate::versus::workload::{FILES, client_options};
use crate::versus::{Network, OURS, SERVER_CPU, Workload, client_cpus, fullbore};
use fleet_protocol::{Condition, PublishedTitle};
use load::interrupt::Interrupt;
use load::{Pace, Pattern, Running, Url};
use node::{Agent, AgentOptions};
use outcome::{Round, Waits};
use source::{Source, TARGET, unwant, want};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::client::Trust;

/// Bytes that a viewer requests at once: some seconds of film, as players do.
const RANGE_BYTES: u64 = 1 << 20;

/// The film outlasts the viewers by this much, to cover the time until they have connected and the agent has started.
const FILM_MARGIN: Duration = Duration::from_secs(10);

/// Time limit for anything the agent does.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to check whether it is done.
const GLANCE: Duration = Duration::from_millis(20);

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns with a fill, and as many without.
    pub rounds: usize,
    /// Seconds of each turn, after all viewers have connected.
    pub seconds: f64,
    /// How many viewers.
    pub viewers: usize,
    /// The rate at which each viewer plays.
    pub viewer_bits_per_second: u64,
    /// The rate that the fill window allows.
    pub fill_bits_per_second: u64,
    /// Bytes of the titles that viewers watch.
    pub library_bytes: u64,
    /// Where to create the libraries; the system's temporary directory if unset.
    pub scratch: Option<PathBuf>,
}

/// The measured box. Dropping it ends it and its server.
struct WatchedBox {
    agent: Arc<Agent>,
    url: String,
}

impl Drop for WatchedBox {
    fn drop(&mut self) {
        self.agent.stop();
    }
}

impl WatchedBox {
    /// Starts it on the server's core, which its threads and its server inherit.
    fn start(root: &Path, fill_bits_per_second: u64, interrupt: &Interrupt) -> io::Result<Self> {
        let flags = "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 1";
        let options = AgentOptions {
            node: TARGET.parse().map_err(|_| io::Error::other("a name"))?,
            state: root.join("state"),
            libraries: vec![root.join("library")],
            copy_bytes_per_second: fill_bits_per_second / 8,
            windows: Vec::new(),
            fill_bytes_max: 0,
            fill_wait: Duration::ZERO,
            scrub: Duration::from_secs(7 * 86_400),
            evict_after: Duration::ZERO,
            report: Duration::from_secs(60),
            ceiling_bits_per_second: 0,
            snapshot_keys: Vec::new(),
            viewer_keys: String::new(),
            origins: Vec::new(),
            // The other server has only just made its certificate, so there is no authority to check it against.
            trust: Trust::AnyCertificate,
            host: "127.0.0.1".to_owned(),
            edge: None,
            program: std::env::current_exe()?,
            serve_flags: flags.split(' ').map(str::to_owned).collect(),
        };
        let started = std::thread::scope(|scope| {
            let start = scope.spawn(|| {
                pin(SERVER_CPU)?;
                Agent::start(options).map_err(|error| io::Error::other(error.to_string()))
            });
            start.join().expect("an agent does not panic")
        });
        let mut own = Self { agent: started?, url: String::new() };
        await_that("the box to be ready", interrupt, || own.agent.condition() == Condition::Ready)?;
        own.url = own.agent.found().url.unwrap_or_default();
        Ok(own)
    }

    fn brought_bytes(&self) -> u64 {
        self.agent.replicator().status().fill.counts.cluster_bytes
    }
}

fn await_that(what: &str, interrupt: &Interrupt, holds: impl Fn() -> bool) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        interrupt.check()?;
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("waited {PATIENCE:?} in vain for {what}")));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

/// Measures, and reports each round to `progress`.
///
/// # Errors
/// If a server cannot run, a viewer gets an error, or the fill ends before the viewers do. An interrupt is not an error: the outcome then
/// has the rounds so far.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
) -> io::Result<Outcome> {
    let scratch = crate::scratch::folder(options.scratch.as_ref())?;
    let root = scratch.path().join("box");
    let watched = options.library_bytes;
    let seconds = options.seconds + FILM_MARGIN.as_secs_f64();
    let film_bytes = (seconds * options.fill_bits_per_second as f64 / 8.0) as u64;
    progress(format!("creating {} MiB, and a film of {} MiB", watched >> 20, film_bytes >> 20));
    let library = Library::make(&root.join("library"), FILES, watched, interrupt)?;
    let source = Source::make(&scratch.path().join("source"), film_bytes, interrupt)?;
    let client_cpus = client_cpus()?;
    let given = Given {
        library: &source.root,
        scratch: scratch.path(),
        cpu: Some(client_cpus[0]),
        network: &Network::Loopback,
        interrupt,
    };
    let sender = sender(&given)?;
    let one = WatchedBox::start(&root, options.fill_bits_per_second, interrupt)?;
    let bench =
        Bench { options, library, source, sender: sender.address, one, client_cpus, interrupt };
    let mut outcome = Outcome::new(options);
    for number in 1..=options.rounds {
        match bench.round(number) {
            Err(error) if interrupt.is_asked() => {
                progress(format!("interrupted ({error}): the figures cover the rounds so far"));
                outcome.interrupted = true;
                break;
            }
            round => outcome.add(round?),
        }
        progress(format!("round {number} of {}", options.rounds));
    }
    Ok(outcome)
}

/// Starts the server that the box copies from. In a fleet it has its own machine. Here it shares the viewers' cores at idle priority, or the
/// viewers would measure how long it keeps them from looking at their sockets. It gets that priority once it listens: on a busy machine it would
/// take minutes to start with it.
fn sender(given: &Given<'_>) -> io::Result<Side> {
    let sender = Side::start(&fullbore(Workload::TlsWarm, &[], OURS)?, given)?;
    let mut chrt = Command::new("chrt");
    chrt.args(["--all-tasks", "--idle", "--pid", "0", &sender.process().to_string()]);
    // It fails if a thread ends meanwhile, as the kernel's own for a ring do.
    for _ in 0..10 {
        let status = chrt.status().map_err(|error| {
            io::Error::new(error.kind(), format!("chrt of util-linux: {error}"))
        })?;
        if status.success() {
            return Ok(sender);
        }
    }
    Err(io::Error::other("chrt cannot lower the priority of the source's server"))
}

/// State that every round needs.
struct Bench<'a> {
    options: &'a Options,
    library: Library,
    source: Source,
    sender: SocketAddr,
    one: WatchedBox,
    client_cpus: Vec<u32>,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Runs both sides, alternating which comes first.
    fn round(&self, number: usize) -> io::Result<Round> {
        let title = self.source.title(number)?;
        if number % 2 == 1 {
            let without = self.watch()?;
            let (with, fill_gbps, share) = self.watch_beside(&title)?;
            return Ok(Round { without, with, fill_gbps, share });
        }
        let (with, fill_gbps, share) = self.watch_beside(&title)?;
        Ok(Round { without: self.watch()?, with, fill_gbps, share })
    }

    /// Measures how long viewers wait.
    fn watch(&self) -> io::Result<Waits> {
        self.library.prepare(self.library.files)?;
        let url = |file| format!("{}{}", self.one.url, file_name(file)).parse::<Url>();
        let targets = (0..self.library.files).map(url).collect::<Result<_, _>>();
        let running = Running::start(load::Options {
            targets: targets.map_err(|error| io::Error::other(error.to_string()))?,
            pattern: Pattern::Ranges { bytes: RANGE_BYTES },
            pace: Pace::Viewers { bits_per_second: self.options.viewer_bits_per_second },
            connections: self.options.viewers,
            cpus: self.client_cpus.clone(),
            duration: Duration::from_secs_f64(self.options.seconds),
            tls: client_options(),
            ..load::Options::default()
        })?;
        while !running.is_over() {
            self.interrupt.check()?;
            std::thread::sleep(GLANCE);
        }
        let outcome = running.join()?;
        if !outcome.is_clean() {
            return Err(io::Error::other(format!("viewers got errors: {}", outcome.describe())));
        }
        Waits::of(&outcome).ok_or_else(|| {
            io::Error::other("no response began in the measured time: is the machine idle?")
        })
    }

    /// The same during a fill. Also returns the fill's rate, and the share of its allowed rate that it had at the end.
    fn watch_beside(&self, title: &PublishedTitle) -> io::Result<(Waits, f64, f64)> {
        let replicator = self.one.agent.replicator();
        let at_first = self.one.brought_bytes();
        want(replicator, title, self.sender)?;
        await_that("the fill to begin", self.interrupt, || self.one.brought_bytes() > at_first)?;
        let (before, began) = (self.one.brought_bytes(), Instant::now());
        let waits = self.watch()?;
        let bits = (self.one.brought_bytes() - before) as f64 * 8.0;
        let gbps = bits * 1e-9 / began.elapsed().as_secs_f64();
        let fill = replicator.status().fill;
        if replicator.folder_of(title).is_some() || !fill.counts.refused.is_empty() {
            return Err(io::Error::other(format!("the fill ended too early: {fill:?}")));
        }
        unwant(replicator, title)?;
        let is_gone = || !replicator.receipts().is_empty();
        await_that("the title to be removed", self.interrupt, is_gone)?;
        Ok((waits, gbps, fill.share))
    }
}
