//! How fast viewers are assigned to nodes: decisions per second of a core, the time for one, and the index's size in memory.
//!
//! The fleet is random (draw.rs), and so are the requests: titles by Zipf's law, addresses from announced prefixes, half of them from
//! viewers that already play. Every answer is checked once before anything is measured. Throughput is per CPU second of the only deciding
//! thread, so other load on the machine does not count; latencies are by the wall clock.

mod draw;
mod outcome;

pub use outcome::Outcome;

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ::fleet_protocol::FleetSnapshot;
use ::steering::{Decision, Fleet, Logged, Playing, Question, decide, replay};
use rustix::time::{ClockId, clock_gettime};

/// The fleet's size, and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u32,
    /// Titles on each node.
    pub held: u32,
    /// Total titles.
    pub titles: u32,
    /// Sites.
    pub sites: u32,
    /// Announced prefixes, each by three sites.
    pub prefixes: u32,
    /// Turns.
    pub rounds: usize,
    /// Seconds per turn.
    pub seconds: f64,
}

/// Requests to repeat. With the parts of the index that they touch, they far exceed a processor's caches.
const QUESTIONS: usize = 200_000;

/// One decision in this many is logged and replayed.
const REPLAY_EVERY: usize = 100;

/// A request that owns its fields.
#[derive(Clone, Debug)]
struct Asked {
    address: IpAddr,
    title: u32,
    viewer: u64,
    /// The node that the viewer plays from.
    playing: Option<u32>,
}

impl Asked {
    fn question<'f>(&self, snapshot: &'f FleetSnapshot) -> Question<'f> {
        let pathway = self.playing.map(|node| snapshot.nodes[node as usize].name.as_str());
        Question {
            address: self.address,
            title: &snapshot.titles[self.title as usize].path,
            viewer: self.viewer,
            region: None,
            playing: pathway.map(Playing::from),
        }
    }
}

/// Generates a fleet, sends requests, checks and measures. `tell` gets a line on each step.
///
/// # Errors
/// If an answer breaks a promise, or the kernel does not report memory.
pub fn run(options: &Options, tell: impl Fn(&str)) -> io::Result<Outcome> {
    let mut outcome = Outcome { options: Some(*options), ..Outcome::default() };
    tell("drawing a fleet");
    let snapshot = draw::snapshot(options);
    tell("building its index");
    let (fleet, build_seconds) = built(snapshot, None)?;
    let mut asked = draw::questions(options, &fleet, QUESTIONS);
    outcome.build_seconds = build_seconds;
    outcome.resident_bytes = status_bytes("VmRSS:")?;
    tell("checking answers");
    check(&fleet, &asked, &mut outcome)?;
    settle(&fleet, &mut asked);
    tell("measuring");
    for _ in 0..options.rounds {
        outcome.per_cpu_second.push(throughput(&fleet, &asked, options.seconds));
    }
    outcome.latencies_ns = latencies(&fleet, &asked, options.seconds);
    outcome.rebuild_seconds = built(draw::next(fleet.snapshot()), Some(&fleet))?.1;
    outcome.resident_bytes_max = status_bytes("VmHWM:")?;
    Ok(outcome)
}

fn built(snapshot: FleetSnapshot, before: Option<&Fleet>) -> io::Result<(Fleet, f64)> {
    let started = Instant::now();
    let fleet =
        Fleet::new(snapshot, before).map_err(|error| io::Error::other(error.to_string()))?;
    Ok((fleet, started.elapsed().as_secs_f64()))
}

/// Makes half of the viewers playing ones, on the node that they were assigned.
fn settle(fleet: &Fleet, asked: &mut [Asked]) {
    for asked in asked.iter_mut().step_by(2) {
        let decision = decide(fleet, &asked.question(fleet.snapshot()));
        asked.playing = decision.ranked.first().map(|ranked| ranked.node as u32);
    }
}

fn check(fleet: &Fleet, asked: &[Asked], outcome: &mut Outcome) -> io::Result<()> {
    for (place, asked) in asked.iter().enumerate() {
        let question = asked.question(fleet.snapshot());
        let decision = decide(fleet, &question);
        let fault = fault(fleet, asked.title, &decision).or_else(|| {
            let again = || replay(fleet, &Logged::new(fleet, &question, &decision, 0));
            let is_due = place % REPLAY_EVERY == 0;
            (is_due && again().as_ref() != Ok(&decision)).then_some("is not the same when replayed")
        });
        if let Some(fault) = fault {
            return Err(io::Error::other(format!("an answer {fault}: {asked:?}: {decision:?}")));
        }
        outcome.count(&decision);
    }
    Ok(())
}

/// The fault of an answer, if it has one. At least three sites hold each drawn title, so each answer must name three.
fn fault(fleet: &Fleet, title: u32, decision: &Decision) -> Option<&'static str> {
    let nodes = &fleet.snapshot().nodes;
    let ranked: Vec<_> = decision.ranked.iter().map(|ranked| &nodes[ranked.node]).collect();
    let mut sites: Vec<_> = ranked.iter().map(|node| &node.place.site).collect();
    sites.sort();
    sites.dedup();
    if sites.len() != 3 {
        Some("does not name three sites")
    } else if ranked.iter().any(|node| node.holds.binary_search(&title).is_err()) {
        Some("names a node that lacks the title")
    } else {
        None
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's time is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn throughput(fleet: &Fleet, asked: &[Asked], seconds: f64) -> f64 {
    let (started, cpu, mut count) = (Instant::now(), cpu_time(), 0u64);
    // Read the clocks once for many decisions: reading them would cost as much as a tenth of one.
    for batch in asked.chunks(1000).cycle() {
        for asked in batch {
            std::hint::black_box(decide(fleet, &asked.question(fleet.snapshot())));
        }
        count += batch.len() as u64;
        if started.elapsed().as_secs_f64() >= seconds {
            break;
        }
    }
    count as f64 / (cpu_time() - cpu).as_secs_f64()
}

/// Latencies of decisions in nanoseconds, in ascending order.
fn latencies(fleet: &Fleet, asked: &[Asked], seconds: f64) -> Vec<u32> {
    let started = Instant::now();
    let mut latencies = Vec::with_capacity(asked.len());
    for asked in asked.iter().cycle() {
        let question = asked.question(fleet.snapshot());
        let before = Instant::now();
        std::hint::black_box(decide(fleet, &question));
        latencies.push(before.elapsed().as_nanos().try_into().unwrap_or(u32::MAX));
        if before.duration_since(started).as_secs_f64() >= seconds {
            break;
        }
    }
    latencies.sort_unstable();
    latencies
}

/// A size from `/proc/self/status`, which is in KiB there.
fn status_bytes(name: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| io::Error::other(format!("/proc/self/status has no {name}")))
}
