//! The cost of a large fleet's heartbeats to a gateway: CPU, memory and writes of its store, with thousands of nodes.
//!
//! The gateway is a real one in its own process, on the servers' core. Nodes are simulated: each has a certificate from the fleet's
//! authority, a persistent connection with mutual TLS, and an inventory, and sends a heartbeat every five seconds as an agent does. The
//! gateway is measured first at rest, without a node, then with heartbeats from all of them. It must write the same to its store in both.

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

/// The number of nodes, and how long to measure.
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
    /// Where to keep the gateway's folder during the run; the system's temporary folder if unset.
    pub scratch: Option<PathBuf>,
}

/// The gateway is measured at rest for a quarter of the time, but no longer than this, in which its lease is renewed six times.
const REST_MAX: Duration = Duration::from_secs(30);

/// Creates a fleet, starts its heartbeats, and measures. `tell` gets a line on each step.
///
/// # Errors
/// If the gateway does not start or does not learn of all nodes, the limit on open files is too low, or the user interrupts.
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
    tell("waiting until it knows all nodes and their titles");
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

/// Measures the gateway for this long.
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
        // A gateway that restarted meanwhile would have begun at another number; this one did not.
        snapshots: runtime.block_on(gateway.told())?.snapshot.saturating_sub(snapshot),
    })
}
