//! Measures the cost of a gateway's answers to viewers, compared with the least that a server of its kind can do: a plain axum "hello".
//!
//! Each is its own process on the servers' core, with the one thread that Tokio gives it there. wrk sends requests to one at a time from
//! the clients' cores, over plain HTTP and persistent connections, and the bench compares answers per CPU second of the server's process.
//! The gateway has a fleet whose nodes send heartbeats meanwhile, and it logs every decision, so its CPU seconds include all of a gateway's
//! work for its answers.

mod asked;
mod hello;
mod outcome;
mod wrk;

pub use hello::serve as serve_hello;
pub use outcome::Outcome;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use load::interrupt::Interrupt;

use crate::populated::{
    Crowd, CrowdOptions, FleetSize, Populated, Scratch, check_open_files, runtime_on, sleep_for,
};
use crate::versus::client_cpus;
use hello::Hello;

/// The size of the fleet, and how long to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u32,
    /// Titles on each node.
    pub titles: u32,
    /// Whether viewers' URLs are signed. If so, the gateway signs each manifest and each route.
    pub signed: bool,
    /// Connections of wrk.
    pub connections: u32,
    /// Turns of each side.
    pub rounds: usize,
    /// Seconds per turn.
    pub seconds: f64,
    /// Where to keep the gateway's folder during the run; the system's temporary folder if unset.
    pub scratch: Option<PathBuf>,
}

/// The heartbeat interval of agents.
const INTERVAL: Duration = Duration::from_secs(5);

/// Creates a fleet, checks the answers, and measures. `tell` gets a line on each step.
///
/// # Errors
/// If a server does not start, or an answer is wrong; then nothing is compared.
pub fn run(options: &Options, interrupt: &Interrupt, tell: impl Fn(&str)) -> io::Result<Outcome> {
    wrk::find()?;
    check_open_files(options.nodes)?;
    let scratch = Scratch::make(options.scratch.as_ref())?;
    let cpus = client_cpus()?;
    let runtime = runtime_on(&cpus)?;
    let size = FleetSize { nodes: options.nodes, titles: options.titles };
    tell(&format!("making a fleet of {} nodes and {} titles", size.nodes, size.titles));
    let plain = ["--node-scheme", "http", "--node-port", "8443"];
    let signed = if options.signed { &["--signed"][..] } else { &[] };
    let arguments = [&plain[..], signed].concat();
    let mut gateway = Populated::start(scratch.path(), size, &arguments, &runtime)?;
    tell("waiting until the gateway knows all nodes and what they hold");
    let crowd =
        CrowdOptions { nodes: options.nodes, interval: INTERVAL, varies: false, snapshots: None };
    let mut crowd = Crowd::start(&gateway, crowd, &runtime)?;
    crowd.wait_until_known(interrupt).map_err(|error| {
        io::Error::new(error.kind(), format!("{error}{}", gateway.last_words()))
    })?;
    let mut hello = Hello::start(scratch.path())?;
    let asked = runtime.block_on(asked::check(&gateway, hello.address))?;
    let mut outcome = Outcome::new(options, &asked);
    let (before, began) = (gateway.read()?, Instant::now());
    sleep_for(Duration::from_secs_f64(options.seconds), interrupt)?;
    outcome.at_rest_cpu_percent =
        100.0 * (gateway.read()?.cpu_seconds - before.cpu_seconds) / began.elapsed().as_secs_f64();
    let turn = wrk::Turn {
        cpus: &cpus,
        connections: options.connections,
        seconds: options.seconds,
        scratch: scratch.path(),
        interrupt,
    };
    for number in 1..=options.rounds {
        // Forwards, backwards and so on, so that no side always follows the same one.
        let forwards: Vec<_> = (0..asked.len()).collect();
        let order = if number % 2 == 1 { forwards } else { forwards.into_iter().rev().collect() };
        for index in order {
            let asked = &asked[index];
            let account = if asked.is_hello() { &mut hello.account } else { gateway.account() };
            let round = turn.take(asked, account);
            let round = round.map_err(|error| {
                let what = format!("{}: {error}; nothing is compared", asked.name);
                io::Error::new(error.kind(), what)
            })?;
            tell(&outcome.describe_round(number, asked, &round));
            outcome.sides[index].rounds.push(round);
        }
    }
    let told = runtime.block_on(gateway.told())?;
    outcome.decisions_dropped = told.decisions_dropped;
    outcome.beats_lost = crowd.tally().read().lost;
    Ok(outcome)
}
