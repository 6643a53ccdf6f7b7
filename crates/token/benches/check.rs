//! What a token costs: nanoseconds to check one, as a request does, and to make one. One thread; pin it with taskset.
//!
//! Prints the median and the median absolute deviation of the rounds. `--rounds N` (default 9).

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fullbore_token::{Grant, KeyRing, make_key_file};

const ROUND: Duration = Duration::from_millis(60);
const NOW: u64 = 1_790_000_000;
const PATH: &[u8] = b"films/big-buck-bunny/video/1080p.mp4";

fn main() {
    let rounds = argument("--rounds", 9);
    let file = std::env::temp_dir().join(format!("token-bench-{}.key", std::process::id()));
    make_key_file(&file).expect("a key can be made");
    let keys = KeyRing::read(&[&file]).expect("just made");
    let _ = std::fs::remove_file(&file);
    let client = IpAddr::from([192, 0, 2, 1]);
    for bound in [None, Some(client)] {
        let prefix = b"films/big-buck-bunny";
        let grant = Grant { prefix, expires_unix_seconds: NOW + 1, client: bound };
        let token = keys.sign(&grant);
        let check = || keys.check(black_box(token.as_bytes()), black_box(PATH), client, NOW);
        assert_eq!(check(), Ok(()));
        let name = if bound.is_some() { "for one address" } else { "for anybody" };
        print(&format!("check, {name}"), rounds, || {
            let _ = black_box(check());
        });
        print(&format!("sign, {name}"), rounds, || {
            black_box(keys.sign(black_box(&grant)));
        });
    }
}

/// The number behind `--name`, or `default`.
fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn print(name: &str, rounds: usize, mut work: impl FnMut()) {
    let mut nanoseconds: Vec<f64> = (0..rounds.max(1)).map(|_| round(&mut work)).collect();
    let middle = median(&mut nanoseconds);
    let mut distances: Vec<f64> = nanoseconds.iter().map(|one| (one - middle).abs()).collect();
    println!("{name:24} {middle:8.0} ns +- {:.0}", median(&mut distances));
}

fn round(work: &mut impl FnMut()) -> f64 {
    let (started, mut times) = (Instant::now(), 0u32);
    while started.elapsed() < ROUND {
        for _ in 0..100 {
            work();
        }
        times += 100;
    }
    started.elapsed().as_nanos() as f64 / f64::from(times)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
