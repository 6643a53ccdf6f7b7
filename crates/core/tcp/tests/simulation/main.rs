//! The endpoint against itself, in virtual time, over paths that lose, reorder, duplicate, delay and queue.
//!
//! Every scenario is drawn from a seed (`scenario.rs`). Both ends are real endpoints with small applications (`host/`, `application.rs`). A model of
//! the connection that shares no code with the endpoint checks the segments on the wire (`referee.rs`). The rules: every byte is the right one,
//! nothing is sent beyond the window or beyond what was written, nothing is acknowledged that did not arrive, memory is bounded, and every connection
//! ends in bounded time.
//!
//!     cargo test -p fullbore-tcp --test simulation                                  # a thousand seeds, the table, fairness
//!     FULLBORE_SEED=4711 cargo test -p fullbore-tcp --test simulation seeds -- --nocapture     # one seed, every segment
//!     ./run simulate                                                                # 100,000 seeds; ./run simulate N for others
//!     FULLBORE_WRITE=1 cargo test -p fullbore-tcp --test simulation goodput         # write the table again, to be looked at

mod application;
mod bulk;
mod canary;
mod host;
mod ranges;
mod referee;
mod scenario;
mod stream;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use scenario::Scenario;
use world::World;

/// How many seeds the ordinary test tries: a few seconds of a lightly optimised build.
const SEEDS: u64 = 1000;
/// How many failures to collect before stopping.
const FAILURES_MAX: usize = 60;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs seeds from 0 on, on all cores, and reports which ones failed.
fn try_seeds(count: u64) {
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let steps = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count || failures.lock().expect("no holder panics").len() > FAILURES_MAX {
                return;
            }
            if seed > 0 && seed % 10_000 == 0 {
                eprintln!("{seed} of {count} seeds");
            }
            let run = || World::new(Scenario::drawn(seed), false).run();
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(outcome) => _ = steps.fetch_add(outcome.steps, Ordering::Relaxed),
                Err(_) => {
                    eprintln!("that was seed {seed}\n");
                    failures.lock().expect("no holder panics").push(seed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    eprintln!("{count} seeds, {} steps of the clock", steps.into_inner());
    let mut failures = failures.into_inner().expect("no holder panics");
    failures.sort_unstable();
    assert!(failures.is_empty(), "failed, each to be seen with FULLBORE_SEED: {failures:?}");
}

#[test]
fn all_seeds_keep_every_promise() {
    match variable("FULLBORE_SEED") {
        Some(seed) => {
            let scenario = Scenario::drawn(seed);
            eprintln!("{scenario:#?}");
            eprintln!("{:?}", World::new(scenario, true).run());
        }
        None => try_seeds(SEEDS),
    }
}

/// Every byte is checked where it is read, and every connection's end, so a run that ends has delivered the same.
#[test]
fn the_same_bytes_arrive_whether_acknowledgements_are_merged_or_not() {
    let mut merged = 0;
    for seed in 0..150 {
        let run = |merges| {
            let mut scenario = Scenario::drawn(seed);
            scenario.moderation = scenario.moderation.max(Duration::from_micros(500));
            for config in &mut scenario.configs {
                config.merges_acknowledgements = merges;
            }
            // A side that loses patience loses bytes, at another place whenever anything else changes.
            for plan in &mut scenario.plans {
                plan.reset = None;
            }
            let is_harsh = scenario.is_harsh();
            let outcome = World::new(scenario, false).run();
            (outcome, is_harsh)
        };
        let ((with, is_harsh), (without, _)) = (run(true), run(false));
        merged += with.merged;
        assert_eq!(without.merged, 0);
        let same = with.first_sent_bytes == without.first_sent_bytes;
        assert!(same || is_harsh, "seed {seed}: {with:?}, {without:?}");
    }
    // 356 at the time of writing: without any, the comparison would mean nothing.
    assert!(merged > 100, "only {merged} were merged");
}

#[test]
#[ignore = "takes a minute of CPU time, optimised: ./run simulate"]
fn a_hundred_thousand_seeds_keep_every_promise() {
    try_seeds(variable("FULLBORE_SEEDS").unwrap_or(100_000));
}
