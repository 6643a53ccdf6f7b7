//! Two servers do the same work in turn on the same core, and their work per CPU second is compared.
//!
//! The clients have cores of their own. Before each turn every byte of some hundred ranges is compared with the
//! library; during it, every response's status and length. After one wrong answer of either side, nothing is compared.
//! The clients are our own load or a program that others wrote (`client`).
//!
//! Read `grid` for several clients and congestion controls, `turn` for what is measured when, `carry` for how many viewers a
//! server carries, `peer` for how servers are run, `peers/` for their configurations.

mod carry;
pub(crate) mod client;
mod clients;
mod dashboards;
mod film;
mod grid;
mod network;
mod outcome;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod side;
mod table;
pub(crate) mod turn;
mod window;
pub(crate) mod workload;

pub use client::Client;
pub use grid::Grid;
pub use network::Wire;
pub use outcome::Outcome;
pub use peer::Peer;
pub use workload::Workload;

pub(crate) use network::Network;
pub(crate) use peer::{OURS, fullbore};

use crate::library::Library;
use crate::namespace;
use load::interrupt::Interrupt;
use outcome::{Part, SideOutcome};
use peer::Recipe;
use side::{Given, Side};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use turn::Task;
use workload::FILES;

/// The core that servers run on; the clients have the others.
pub(crate) const SERVER_CPU: u32 = 0;

/// How many cores the clients get at most: with more, one server core is never the bottleneck.
const CLIENT_CPUS_MAX: usize = 3;

/// Default size of the library: much more than caches and a turn's read-ahead hold, but quick to create.
const LIBRARY_BYTES: u64 = 2 << 30;

/// Size of the library if next to nothing of it is sent.
const SMALL_LIBRARY_BYTES: u64 = 64 << 20;

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The other side.
    pub peer: Peer,
    /// The work.
    pub workload: Workload,
    /// The clients that request the files, each in a comparison of its own.
    pub clients: Vec<Client>,
    /// Congestion controls, each of which every client is compared under. This process must be in a namespace of its own
    /// ([`crate::namespace`]). If there are none, connections have the one that the system gives them.
    pub congestion_controls: Vec<String>,
    /// Turns per side.
    pub rounds: usize,
    /// Measured seconds per turn.
    pub seconds: f64,
    /// Connections at once, of the swarm the most viewers that are tried; `None` leaves it to the workload.
    pub connections: Option<usize>,
    /// The rate of each viewer in bits per second; `None` leaves it to the workload.
    pub rate_bits_per_second: Option<u64>,
    /// Hit ratios of the mixed workload, percent.
    pub hit_percents: Vec<u32>,
    /// Bytes of the library; `None` makes it 2 GiB, or a quarter of the memory, or little if little is sent.
    pub library_bytes: Option<u64>,
    /// Where to create the library; else the system's temporary directory.
    pub scratch: Option<PathBuf>,
    /// What connects clients and servers.
    pub wire: Wire,
    /// How many dashboards are open on the other side while it is measured; it must be this program.
    pub dashboards: usize,
    /// Further arguments for our own server.
    pub serve_arguments: Vec<String>,
}

impl Options {
    /// The number of comparisons.
    fn cells(&self) -> usize {
        self.clients.len() * self.congestion_controls.len().max(1)
    }
}

/// Compares this program with a peer, with each client under each congestion control. Reports each round to `progress` and
/// each comparison to `finished`.
///
/// # Errors
/// If a side does not start, answers wrongly or fails: then nothing is compared. An interrupt is not an error: the
/// outcome then has the rounds so far.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
    mut finished: impl FnMut(&Outcome),
) -> io::Result<Grid> {
    if options.dashboards > 0 && !matches!(options.peer, Peer::Fullbore) {
        return Err(io::Error::other(
            "only fullbore has a dashboard: compare it with itself (versus fullbore --dashboards 2)",
        ));
    }
    for client in &options.clients {
        check_client(*client, options)?;
    }
    // A name that the kernel does not know is found before anything is measured.
    options.congestion_controls.iter().try_for_each(|name| namespace::switch_to(name))?;
    let scratch = crate::scratch::folder(options.scratch.as_ref())?;
    let library_bytes = library_bytes(options)?;
    progress(format!("creating a library of {} MiB", library_bytes >> 20));
    let library = Library::make(&scratch.path().join("library"), FILES, library_bytes, interrupt)?;
    let library = Arc::new(library);
    let client_cpus = client_cpus()?;
    let mut grid = Grid { planned: options.cells(), ..Grid::default() };
    for name in controls(options) {
        if let Some(name) = name {
            match namespace::switch_to(name) {
                Err(_) if interrupt.is_asked() && !grid.outcomes.is_empty() => {
                    grid.interrupted = true;
                    return Ok(grid);
                }
                switched => switched?,
            }
        }
        let network = Network::lay(options.wire, SERVER_CPU, &client_cpus)?;
        let given = Given {
            library: &library.root,
            scratch: scratch.path(),
            cpu: Some(SERVER_CPU),
            network: &network,
            interrupt,
        };
        for client in &options.clients {
            if options.cells() > 1 {
                progress(format!("{} under {}", client.name(), namespace::congestion_control()));
            }
            match compare(*client, &library, given, &client_cpus, options, &mut progress) {
                Err(_) if interrupt.is_asked() && !grid.outcomes.is_empty() => {
                    grid.interrupted = true;
                }
                outcome => {
                    let outcome = outcome?;
                    finished(&outcome);
                    grid.interrupted = outcome.interrupted;
                    grid.outcomes.push(outcome);
                }
            }
            if grid.interrupted {
                return Ok(grid);
            }
        }
    }
    Ok(grid)
}

/// The congestion controls to switch to; `None` keeps the present one.
fn controls(options: &Options) -> Vec<Option<&str>> {
    match options.congestion_controls.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    }
}

/// All rounds with one client, between two servers that are started for them.
fn compare(
    client: Client,
    library: &Arc<Library>,
    given: Given<'_>,
    client_cpus: &[u32],
    options: &Options,
    progress: &mut impl FnMut(String),
) -> io::Result<Outcome> {
    let interrupt = given.interrupt;
    let mut match_up = Match::new(recipes(options)?, given, options.dashboards)?;
    let mut outcome = Outcome::new(
        options,
        client,
        match_up
            .sides
            .each_ref()
            .map(|side| SideOutcome::of(side.as_ref().expect("both were started"))),
    );
    let hit_percents: Vec<_> = if options.workload.has_hit_ratio() {
        options.hit_percents.iter().copied().map(Some).collect()
    } else {
        vec![None]
    };
    let task = Task {
        workload: options.workload,
        client,
        library,
        scratch: given.scratch,
        connections: outcome.connections,
        seconds: options.seconds,
        rate_bits_per_second: outcome.rate_bits_per_second.unwrap_or(1),
        hit_share: 0.0,
        server_cpu: SERVER_CPU,
        client_cpus: client_cpus.to_vec(),
        counts_core: options.wire.counts_core(),
        guess: None,
    };
    if options.workload == Workload::Swarm {
        let playing = carry::film_time(task.connections, task.seconds);
        film::write(library, task.rate_bits_per_second, playing)?;
    }
    for hit_percent in hit_percents {
        let hit_share = f64::from(hit_percent.unwrap_or(0)) / 100.0;
        let mut part = outcome.begin(hit_percent);
        let task = Task { hit_share, ..task.clone() };
        let played = match_up.play(&task, options.rounds, &mut part, interrupt, progress);
        outcome.parts.push(part);
        match played {
            Err(_) if interrupt.is_asked() => {
                progress("interrupted: the figures cover the rounds so far".to_owned());
                outcome.interrupted = true;
                break;
            }
            played => played?,
        }
    }
    Ok(outcome)
}

/// How to start our server and the other one.
///
/// # Errors
/// If one of them is not to be had, or does not go with the wire.
fn recipes(options: &Options) -> io::Result<[Recipe; 2]> {
    // The other servers don't resume sessions either.
    let untold =
        if options.workload == Workload::Handshakes { &["--off", "tickets"][..] } else { &[] };
    let untold: Vec<_> = untold.iter().map(|word| (*word).to_owned()).collect();
    let told = [&options.serve_arguments[..], &untold].concat();
    let recipes =
        [fullbore(options.workload, &told, OURS)?, options.peer.recipe(options.workload, &untold)?];
    if options.wire == Wire::Loopback && recipes.iter().any(|recipe| recipe.has_own_tcp) {
        return Err(io::Error::other(
            "serve --route bypass has a wire of its own: choose --wire ethernet, or --wire xdp",
        ));
    }
    Ok(recipes)
}

/// Checks that the client can do the work and is installed.
///
/// # Errors
/// The reason, with what to do.
fn check_client(client: Client, options: &Options) -> io::Result<()> {
    let Options { workload, connections, .. } = *options;
    client
        .check(workload, connections.unwrap_or(workload.connections()))
        .map_err(io::Error::other)?;
    if client.is_own() {
        return Ok(());
    }
    let name = client.name();
    process::find(name).map_err(|error| {
        let advice = format!("apt install {name}, or use ./run bench, which installs it");
        io::Error::new(error.kind(), format!("--client {name}: {error}; {advice}"))
    })
}

/// The size of the library.
///
/// # Errors
/// If the workload serves it from memory, and it does not fit.
fn library_bytes(options: &Options) -> io::Result<u64> {
    let machine = machine::Machine::probe();
    let memory_bytes = machine.memory_limit_bytes.or(machine.memory_bytes).unwrap_or(u64::MAX);
    let room_bytes = memory_bytes / 4;
    let usual_bytes = match options.workload {
        Workload::Idle | Workload::Handshakes => SMALL_LIBRARY_BYTES,
        _ => LIBRARY_BYTES.min(room_bytes),
    };
    let library_bytes = options.library_bytes.unwrap_or(usual_bytes);
    if options.workload.hot_files() > 0 && library_bytes > 2 * room_bytes {
        return Err(io::Error::other(format!(
            "a library of {} MiB does not stay in memory here ({} MiB): choose a smaller one with --library, or a cold workload",
            library_bytes >> 20,
            memory_bytes >> 20
        )));
    }
    Ok(library_bytes)
}

/// Two sides, and how to start them again.
struct Match<'a> {
    recipes: [Recipe; 2],
    given: Given<'a>,
    /// `None` only while one is restarted.
    sides: [Option<Side>; 2],
    /// How many are open on the other side while it is measured.
    dashboards: usize,
}

impl<'a> Match<'a> {
    /// Starts both. Ours comes first, because it makes the certificate that both use.
    fn new(recipes: [Recipe; 2], given: Given<'a>, dashboards: usize) -> io::Result<Self> {
        let ours = Side::start(&recipes[0], &given)?;
        let theirs = Side::start(&recipes[1], &given)?;
        Ok(Self { recipes, given, sides: [Some(ours), Some(theirs)], dashboards })
    }

    /// All rounds: A B, B A, A B and so on, so that neither side always follows the other.
    fn play(
        &mut self,
        task: &Task<'_>,
        rounds: usize,
        part: &mut Part,
        interrupt: &Interrupt,
        progress: &mut impl FnMut(String),
    ) -> io::Result<()> {
        for number in 1..=rounds {
            let order = if number % 2 == 1 { [0, 1] } else { [1, 0] };
            for index in order {
                if task.workload.wants_fresh_servers() {
                    // The previous one ends first, because the next one may need its resources.
                    self.sides[index] = None;
                    self.sides[index] = Some(Side::start(&self.recipes[index], &self.given)?);
                }
                let side = self.sides[index].as_mut().expect("each is started before it is used");
                let dashboards = if index == 1 { self.dashboards } else { 0 };
                let last = part.sides[index].rounds.last().and_then(|round| round.carried.as_ref());
                let task = Task { guess: last.map(|last| last.viewers), ..task.clone() };
                let round = task.take_beside(side, dashboards, interrupt, progress);
                let round = round.map_err(|error| {
                    let (name, last_words) = (&side.name, side.last_words());
                    let what = format!("{name} failed, nothing is compared: {error}{last_words}");
                    io::Error::new(error.kind(), what)
                })?;
                progress(part.describe_round(number, index, &round));
                part.sides[index].rounds.push(round);
            }
        }
        Ok(())
    }
}

/// The clients' cores.
///
/// # Errors
/// If there is only one core.
pub(crate) fn client_cpus() -> io::Result<Vec<u32>> {
    let all = machine::Machine::probe().cpus;
    let cpus: Vec<_> =
        all.iter().copied().filter(|cpu| *cpu != SERVER_CPU).take(CLIENT_CPUS_MAX).collect();
    if cpus.is_empty() || cpus.len() == all.len() {
        return Err(io::Error::other(
            "a comparison needs CPU 0 for the server and another one for the clients",
        ));
    }
    Ok(cpus)
}
