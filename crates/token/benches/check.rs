//! What a token costs: nanoseconds to check one, as a request does, and to make one. One thread; pin it with taskset.
//!
//! Prints the median and the median absolute deviation of the rounds. `--rounds N` (default 9).

use std::hint::black_box;
use std::net::IpAddr;

use fullbore_tests::stopwatch::{argument, print};
use fullbore_token::{Grant, KeyRing, make_key_file};

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
