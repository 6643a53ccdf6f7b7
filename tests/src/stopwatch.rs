//! Measures the cost of a piece of work, for benches of a few hundred nanoseconds to a few milliseconds.

use std::time::{Duration, Instant};

/// Long enough for the clock not to matter, short enough for many rounds.
const ROUND: Duration = Duration::from_millis(60);

/// The number after `--name` among this program's arguments, or `default`.
pub fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Prints the cost of `work`: the median of `rounds` rounds, at least one, and the median absolute deviation from it,
/// in nanoseconds.
pub fn print(name: &str, rounds: usize, mut work: impl FnMut()) {
    let mut nanoseconds: Vec<f64> = (0..rounds.max(1)).map(|_| round(&mut work)).collect();
    let middle = median(&mut nanoseconds);
    let mut distances: Vec<f64> = nanoseconds.iter().map(|one| (one - middle).abs()).collect();
    println!("{name:34} {middle:12.0} ns +- {:.0}", median(&mut distances));
}

fn round(work: &mut impl FnMut()) -> f64 {
    let (started, mut times) = (Instant::now(), 0u32);
    while started.elapsed() < ROUND {
        for _ in 0..10 {
            work();
        }
        times += 10;
    }
    started.elapsed().as_nanos() as f64 / f64::from(times)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
