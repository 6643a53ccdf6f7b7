//! What it costs a gateway to hear a large fleet: CPU, memory and writes of its store, while thousands of nodes beat.
//!
//! The gateway is a real one in a process of its own, on the servers' core. Nodes are simulated: each has a certificate of the fleet's authority, a
//! connection with mutual TLS that stays open, and an inventory, and beats every five seconds as an agent does. First the gateway is measured
//! at rest, without a node; then while all beat. What is written to the store must be the same in both.

mod outcome;

pub use outcome::Outcome;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use load::interrupt::Interrupt;
use tokio::runtime::Runtime;

use crate::populated::{
    Crowd, CrowdOptions, FleetSize, Populated, Scratch, check_open_files, runtime_on, sleep_for,
};
use crate::versus::client_cpus;
use outcome::Stretch;

/// How many nodes, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u32,
    /// Titles on each node.
    pub titles: u32,
    /// Time between the heartbeats of a node.
    pub interval: Duration,
    /// How long to measure.
    pub duration: Duration,
    /// How often a node fetches the snapshot; `None`: never.
    pub snapshots: Option<Duration>,
    /// Where to keep the gateway's folder meanwhile; else the system's temporary folder.
    pub scratch: Option<PathBuf>,
}

/// The gateway is measured at rest for a quarter of the time, but no longer than this: its lease is renewed six times.
const REST_MAX: Duration = Duration::from_secs(30);

/// Makes a fleet, has it beat, and measures. `tell` gets a line on each step.
///
/// # Errors
/// If the gateway does not start, or does not get to know all nodes; there are too few open files; or the user ends it.
pub fn run(options: &Options, interrupt: &Interrupt, tell: impl Fn(&str)) -> io::Result<Outcome> {
    check_open_files(options.nodes)?;
    let scratch = Scratch::make(options.scratch.as_ref())?;
    let runtime = runtime_on(&client_cpus()?)?;
    let size = FleetSize { nodes: options.nodes, titles: options.titles };
    tell(&format!("making a fleet of {} nodes and {} titles", size.nodes, size.titles));
    let mut gateway = Populated::start(scratch.path(), size, &[], &runtime)?;
    let rest = (options.duration / 4).min(REST_MAX);
    tell(&format!("measuring the gateway at rest for {} s", rest.as_secs()));
    let at_rest = measure(&mut gateway, None, rest, &runtime, interrupt)?;
    tell("waiting until it knows all nodes and what they hold");
    let (began, before) = (Instant::now(), gateway.read()?);
    let crowd = CrowdOptions {
        nodes: options.nodes,
        interval: options.interval,
        varies: true,
        snapshots: options.snapshots,
    };
    let mut crowd = Crowd::start(&gateway, crowd, &runtime)?;
    crowd.wait_until_known(interrupt).map_err(|error| {
        io::Error::new(error.kind(), format!("{error}{}", gateway.last_words()))
    })?;
    let known_seconds = began.elapsed().as_secs_f64();
    let known_cpu_seconds = gateway.read()?.cpu_seconds - before.cpu_seconds;
    tell(&format!("all are known after {known_seconds:.0} s; measuring"));
    let beating = measure(&mut gateway, Some(&crowd), options.duration, &runtime, interrupt)?;
    let told = runtime.block_on(gateway.told())?;
    Ok(Outcome {
        options: options.clone(),
        at_rest,
        known_seconds,
        known_cpu_seconds,
        beating,
        serving: told.serving,
        refused: told.refused,
        rss_bytes_max: gateway.peaks()?.0,
        first_trouble: crowd.tally().first_trouble(),
    })
}

/// Measures the gateway for this time.
fn measure(
    gateway: &mut Populated,
    crowd: Option<&Crowd>,
    time: Duration,
    runtime: &Runtime,
    interrupt: &Interrupt,
) -> io::Result<Stretch> {
    let store = runtime.block_on(gateway.store().written())?;
    let snapshot = runtime.block_on(gateway.told())?.snapshot;
    let tallied = crowd.map(|crowd| crowd.tally().read()).unwrap_or_default();
    if let Some(crowd) = crowd {
        crowd.tally().begin_latencies();
    }
    let (began, before, (_, disk_bytes)) = (Instant::now(), gateway.read()?, gateway.peaks()?);
    sleep_for(time, interrupt)?;
    let (after, seconds) = (gateway.read()?, began.elapsed().as_secs_f64());
    Ok(Stretch {
        seconds,
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        rss_bytes: after.rss_bytes,
        disk_bytes: gateway.peaks()?.1 - disk_bytes,
        latencies_us: crowd.map(|crowd| crowd.tally().end_latencies()).unwrap_or_default(),
        tallied: crowd.map(|crowd| crowd.tally().read().since(tallied)).unwrap_or_default(),
        store: runtime.block_on(gateway.store().written())?.since(store),
        // A gateway that started meanwhile would begin at another number; this one did not.
        snapshots: runtime.block_on(gateway.told())?.snapshot.saturating_sub(snapshot),
    })
}
