//! An origin that fails now and then, each time in another way: viewers get every byte right in the end, and the origin doesn't get many more
//! requests than if it had not failed.

use crate::origin::{Manner, Origin};
use crate::{IMPATIENT, MIB, launch};
use fullbore_tests::Plain;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tempfile::tempdir;

/// How much of it, and how bad.
struct Evening {
    films: usize,
    blocks: usize,
    viewers_per_film: usize,
    delay: Duration,
    /// One request in this many fails.
    one_in: usize,
}

/// Fetches once, and returns whether all of it came. The bytes are right, or it is an error that names the side at fault.
fn fetch(address: SocketAddr, path: &str, film: &[u8]) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "no answer after {head:?}");
    }
    let status = head.split(' ').nth(1).unwrap();
    if status != "200" {
        assert!(["302", "500", "502", "503", "504"].contains(&status), "{head}");
        return false;
    }
    let mut body = Vec::new();
    // A reset ends it as well.
    let _ = reader.read_to_end(&mut body);
    assert!(film.starts_with(&body), "{path}: wrong bytes");
    body.len() == film.len()
}

/// All viewers watch until they have seen all of it. Returns how often one had to start again.
fn watch(address: SocketAddr, films: &[(String, Arc<Vec<u8>>)], viewers_per_film: usize) -> usize {
    let total = AtomicUsize::new(0);
    let again = &total;
    std::thread::scope(|scope| {
        for (path, film) in films.iter().flat_map(|film| vec![film; viewers_per_film]) {
            scope.spawn(move || {
                let mut tries = 0;
                while !fetch(address, path, film) {
                    tries += 1;
                    assert!(tries < 50, "{path} does not come");
                    // As players do.
                    std::thread::sleep(Duration::from_millis(200));
                }
                again.fetch_add(tries, Relaxed);
            });
        }
    });
    total.into_inner()
}

fn bad_evening(evening: &Evening) -> usize {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let length = evening.blocks * MIB - 7;
    let put = |number: usize| {
        let path = format!("/film{number}");
        let film = origin.put(&path, number as u64, length, "Cache-Control: max-age=3600\r\n");
        (path, film)
    };
    let films: Vec<_> = (0..evening.films).map(put).collect();
    origin.delay(evening.delay);
    origin.behave(Manner::Flaky(evening.one_in));
    let launch = launch(&origin, cache.path()).config(IMPATIENT);
    let server = launch.arguments("--tls off --workers 2").start();
    let again = watch(server.address, &films, evening.viewers_per_film);
    let (asked, failed) = (origin.seen().len(), origin.failed());
    assert!(failed > 0, "the origin never failed");
    // The edge requests each object once by name, and each block at most once, separately. Each failure costs one more request.
    let needed = evening.films * (1 + evening.blocks);
    assert!(asked <= needed + failed, "{asked} requests, of which {failed} failed");
    server.wait_for_news();
    let retries = server.sum("edge_retries_total");
    assert!((1..=failed as u64).contains(&retries), "{retries} of {failed}");
    // From here on the origin is no longer needed.
    origin.behave(Manner::Gone);
    assert!(Plain::connect(server.address).fetch(&films[0].0).body == *films[0].1);
    again
}

#[test]
fn an_origin_that_fails_now_and_then_is_asked_again_and_viewers_get_all() {
    bad_evening(&Evening {
        films: 8,
        blocks: 6,
        viewers_per_film: 3,
        delay: Duration::from_millis(20),
        one_in: 5,
    });
}

#[test]
#[ignore = "a gigabyte at 100 ms per request takes a minute: ./run nightly"]
fn an_origin_at_100_ms_that_fails_one_request_in_a_hundred_is_hardly_noticed() {
    let evening = Evening {
        films: 40,
        blocks: 24,
        viewers_per_film: 5,
        delay: Duration::from_millis(100),
        one_in: 100,
    };
    let again = bad_evening(&evening);
    let viewers = evening.films * evening.viewers_per_film;
    assert!(again * 20 <= viewers, "{again} of {viewers} had to begin again");
}
