//! An edge crashes while it fills its cache: killed, or its power fails, at random moments. It starts again without help, and no viewer gets a
//! wrong byte. After a kill its cache is complete; after a power failure it may ask its origin again.
//!
//! `FULLBORE_SEED` repeats a run's random numbers, `FULLBORE_CRASHES` sets the number of crashes of the long tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use fullbore_tests::{FailingDisk, Plain, Server, tool};
use tempfile::tempdir;

use crate::edge;
use crate::origin::{Manner, Origin};

const LASTING: &str = "Cache-Control: max-age=36000\r\n";
const FILM_BYTES: usize = 3_500_000;
const DISK_BYTES: u64 = 256 << 20;
const VIEWERS: usize = 3;

/// The longest time from viewers' start to a crash.
const MILLIS_MAX: u64 = 300;

/// A viewer requests a part of a film. The bytes that arrive have to be right.
fn ask(address: SocketAddr, path: &str, film: &[u8], (first, last): (usize, usize)) -> Option<()> {
    let mut socket = TcpStream::connect(address).ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: edge\r\nRange: bytes={first}-{last}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let (head, body) = answer.split_at(end);
    let head = String::from_utf8_lossy(head);
    // Once the disk has failed, it may report that.
    if head.starts_with("HTTP/1.1 5") {
        return None;
    }
    assert!(head.starts_with("HTTP/1.1 206 "), "{path}: {head}");
    assert!(film[first..=last].starts_with(body), "{path}: wrong bytes in {first}-{last}");
    read.ok().filter(|_| body.len() == last + 1 - first).map(drop)
}

fn seed() -> u64 {
    let seed = std::env::var("FULLBORE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("FULLBORE_SEED={seed}");
    seed
}

fn long() -> usize {
    let crashes = std::env::var("FULLBORE_CRASHES").ok();
    crashes.map_or(250, |count| count.parse().expect("FULLBORE_CRASHES is a number"))
}

/// Crashes an edge this often; with `disk`, its power fails.
fn crash(cache: &Path, disk: Option<&FailingDisk>, times: usize) {
    let mut draws = fastrand::Rng::with_seed(seed());
    let origin = Origin::start();
    let kept = origin.put("/kept", 1, FILM_BYTES, LASTING);
    let mut server: Server = edge(&origin, cache, "");
    assert!(Plain::connect(server.address).fetch("/kept").body == *kept);
    for number in 0..times {
        let path = format!("/film{}", number / 3);
        let film = origin.put(&path, 10 + number as u64 / 3, FILM_BYTES, LASTING);
        let address = server.address;
        std::thread::scope(|scope| {
            for _ in 0..VIEWERS {
                let (mut draws, path, film) = (draws.fork(), &path, &film);
                scope.spawn(move || {
                    let mut part = || {
                        let first = draws.usize(..FILM_BYTES);
                        ask(address, path, film, (first, draws.usize(first..FILM_BYTES)))
                    };
                    while part().is_some() {}
                });
            }
            // sleeps: the moment of the crash is random, whatever is under way then
            std::thread::sleep(Duration::from_millis(draws.u64(..MILLIS_MAX)));
            if let Some(disk) = disk {
                disk.fail();
            }
            server.kill();
        });
        if let Some(disk) = disk {
            disk.recover().unwrap();
        }
        server = edge(&origin, cache, "");
        assert!(Plain::connect(server.address).fetch(&path).body == *film, "crash {number}");
        if disk.is_none() {
            origin.behave(Manner::Gone);
        }
        let answer = Plain::connect(server.address).fetch("/kept");
        assert!(answer.body == *kept, "crash {number}: {}", answer.head);
        origin.behave(Manner::Good);
        assert!(!server.said().contains("panicked"), "{}", server.said());
    }
}

fn crash_with_power(times: usize) {
    let cache = tempdir().unwrap();
    match FailingDisk::mount_forgetful(cache.path(), DISK_BYTES) {
        Ok(disk) => crash(cache.path(), Some(&disk), times),
        Err(why) => tool::skip(&why),
    }
}

#[test]
fn an_edge_that_is_killed_serves_what_it_had_and_no_wrong_byte() {
    crash(tempdir().unwrap().path(), None, 6);
}

#[test]
fn an_edge_whose_power_fails_serves_no_wrong_byte() {
    crash_with_power(6);
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn an_edge_that_is_killed_serves_what_it_had_and_no_wrong_byte_at_length() {
    crash(tempdir().unwrap().path(), None, long());
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn an_edge_whose_power_fails_serves_no_wrong_byte_at_length() {
    crash_with_power(long());
}
