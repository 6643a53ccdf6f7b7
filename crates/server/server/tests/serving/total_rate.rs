//! A rate for all viewers together: the sum stays within it, each viewer gets a fair share, and every byte is right.

use crate::support::content::Content;
use crate::support::served::Served;
use crate::support::viewer::Protocol;
use config::{Route, Switch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const VIEWERS: usize = 6;
const FILM_BYTES: u64 = 1_000_000;

/// Six films take more than a second.
const BYTES_PER_SECOND: u64 = 5_000_000;

/// The catch-up allowance, and one turn.
const AHEAD_BYTES: u64 = BYTES_PER_SECOND / 100 + (16 << 10);

/// When a viewer had received how many bytes of its body.
type Seen = Vec<(Instant, u64)>;

/// Viewers who all send requests at the same time, and read as fast as they can.
fn watch_together(served: &Served, film: &Content) -> (Instant, Vec<Seen>) {
    let waiting: Vec<_> = (0..VIEWERS).map(|_| served.viewer()).collect();
    let all = Mutex::new(Vec::new());
    let begun = Instant::now();
    thread::scope(|scope| {
        for mut viewer in waiting {
            let all = &all;
            scope.spawn(move || {
                viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                assert_eq!(viewer.head().unwrap().status, 200);
                let (mut got, mut seen) = (0, Vec::new());
                while got < FILM_BYTES {
                    let (part, result) = viewer.body((FILM_BYTES - got).min(16 << 10) as usize);
                    result.unwrap();
                    film.assert_holds(got, &part, "film.mp4");
                    got += part.len() as u64;
                    seen.push((Instant::now(), got));
                }
                all.lock().unwrap().push(seen);
            });
        }
    });
    (begun, all.into_inner().unwrap())
}

/// The fewest bytes that a viewer had when the first one had everything.
fn least_when_first_has_all(all: &[Seen]) -> u64 {
    let first = all.iter().map(|seen| seen.last().unwrap().0).min().unwrap();
    let had = |seen: &Seen| {
        let last = seen.iter().take_while(|(at, _)| *at <= first).last();
        last.map_or(0, |(_, got)| *got)
    };
    all.iter().map(had).min().unwrap()
}

fn holds(protocol: Protocol, route: Route, off: &[Switch]) {
    let library = tempfile::tempdir().unwrap();
    let film = Content::new(1, FILM_BYTES);
    film.write(&library.path().join("film.mp4")).unwrap();
    let served = Served::start(library.path(), protocol, |config| {
        config.route = route;
        config.workers = 2;
        config.off = off.to_vec();
        config.net.total_bits_per_second = 8 * BYTES_PER_SECOND;
    });
    let (begun, all) = watch_together(&served, &film);
    let what = format!("{protocol:?} {route:?} {off:?}");
    let mut steps: Vec<(Instant, u64)> = Vec::new();
    for seen in &all {
        let mut before = 0;
        for (at, got) in seen {
            steps.push((*at, got - before));
            before = *got;
        }
    }
    steps.sort();
    let mut total = 0;
    for (at, bytes) in &steps {
        total += bytes;
        // In whole microseconds, so that nothing is rounded down.
        let micros = u64::try_from((*at - begun).as_micros()).unwrap() + 1;
        let may_have = BYTES_PER_SECOND * micros / 1_000_000 + AHEAD_BYTES;
        assert!(total <= may_have, "{what}: {total} bytes after {micros} us, {may_have} allowed");
    }
    assert_eq!(total, VIEWERS as u64 * FILM_BYTES);
    // Each viewer has a part: if they were served one after the other, the last ones would have nothing, time after time. The size of the part also
    // depends on when a busy machine lets each of these threads read, so there is a second and a third try.
    let mut had = vec![least_when_first_has_all(&all)];
    while had.len() < 3 && had.iter().all(|bytes| *bytes <= FILM_BYTES / 10) {
        had.push(least_when_first_has_all(&watch_together(&served, &film).1));
    }
    let is_shared = had.iter().any(|bytes| *bytes > FILM_BYTES / 10);
    assert!(is_shared, "{what}: one viewer had {had:?} bytes when another had all");
    let waits = served.number(|numbers| &numbers.total_rate_waits_total);
    assert!(waits > 0, "{what}: no viewer waited");
    served.stop();
}

#[test]
fn all_viewers_together_stay_within_the_rate_and_share_it() {
    holds(Protocol::Tls13, Route::Userspace, &[]);
    holds(Protocol::Tls13, Route::Userspace, &[Switch::Handout]);
    holds(Protocol::Plain, Route::Userspace, &[]);
    // By sendfile, if a lease on the file is granted.
    holds(Protocol::Plain, Route::Kernel, &[]);
}

/// A waiting viewer has no claim on others: one who leaves in the middle takes nothing from them.
#[test]
fn without_a_rate_nobody_waits_and_who_leaves_is_no_loss() {
    let library = tempfile::tempdir().unwrap();
    let film = Content::new(1, FILM_BYTES);
    film.write(&library.path().join("film.mp4")).unwrap();
    for bits in [0, 8 * BYTES_PER_SECOND] {
        let served = Served::start(library.path(), Protocol::Tls13, |config| {
            config.net.total_bits_per_second = bits;
        });
        let left = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut viewer = served.viewer();
                    viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                    viewer.head().unwrap();
                    viewer.reset();
                    left.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(left.into_inner(), 3);
        let response = served.viewer().ask("/film.mp4");
        film.assert_holds(0, &response.body, "film.mp4");
        let waits = served.number(|numbers| &numbers.total_rate_waits_total);
        assert_eq!(waits > 0, bits > 0, "{waits} waits");
        served.stop();
    }
}
