//! With `--silo disk`, a connection moves to a worker in the silo of the disk that has the requested file, and its viewer
//! notices nothing.
//!
//! The operator's map divides this machine into two silos with a worker and a disk each. Each protocol gets 300 random
//! requests in CI; `FULLBORE_MOVE_DRAWS` sets another number (`./run nightly` draws 100,000 in all).
//! `FULLBORE_SEED` repeats a run's choices.

use crate::support::content::Content;
use crate::support::own_disk::OwnDisk;
use crate::support::served::{Served, await_that, kernel_seals};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Config;
use config::{Placement, Route, SiloPlan};
use fullbore_tests::{FailingDisk, Random};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use telemetry::{Family, Number, Numbers};
use tempfile::TempDir;

const DRAWS: u64 = 300;
const VIEWERS_AT_ONCE: u64 = 6;

/// Sizes of the films on each disk. After two of the largest, a connection may move again.
const SIZES: [u64; 6] = [1, 16_384, 40_000, 300_000, 1_000_000, 2_500_000];

/// The most bytes of one response in a pipeline under the server's limits.
const PIPELINE_MAX: u64 = 4;

/// A library on two disks: `/d0` and `/d1`, with the same films in both, of different content.
struct Library {
    /// The second disk. It goes before the folder that it is mounted in.
    _disk: OwnDisk,
    dir: TempDir,
}

impl Library {
    /// `None`, with a message, if this machine cannot have one.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let disk = match OwnDisk::mount(&dir.path().join("d1")) {
            Ok(disk) => disk,
            Err(why) => {
                fullbore_tests::tool::skip(&why);
                return None;
            }
        };
        std::fs::create_dir(dir.path().join("d0")).unwrap();
        let library = Self { _disk: disk, dir };
        if !has_two_cpus() {
            return None;
        }
        for (disk, film) in every_film() {
            let path = library.dir.path().join(path_of(disk, film));
            content_of(disk, film).write(&path).unwrap();
        }
        Some(library)
    }

    fn serve(&self, protocol: Protocol, adjust: impl FnOnce(&mut Config)) -> Served {
        serve(self.dir.path(), protocol, adjust)
    }
}

fn has_two_cpus() -> bool {
    let has = machine::Machine::probe().cpus.len() > 1;
    if !has {
        fullbore_tests::tool::skip("two silos need two CPUs");
    }
    has
}

/// Serves a library with the folders d0 and d1, each a silo with one worker.
fn serve(library: &Path, protocol: Protocol, adjust: impl FnOnce(&mut Config)) -> Served {
    let cpus = machine::Machine::probe().cpus;
    let silo = |number: usize| SiloPlan {
        cpus: cpus[number].to_string(),
        folders: vec![library.join(format!("d{number}"))],
        ..SiloPlan::default()
    };
    Served::start(library, protocol, |config| {
        config.workers = 2;
        config.silo = Placement::Disk;
        config.silos = vec![silo(0), silo(1)];
        adjust(config);
    })
}

fn every_film() -> impl Iterator<Item = (usize, usize)> {
    (0..2).flat_map(|disk| (0..SIZES.len()).map(move |film| (disk, film)))
}

fn path_of(disk: usize, film: usize) -> String {
    format!("d{disk}/{film}.mp4")
}

fn content_of(disk: usize, film: usize) -> Content {
    Content::new((disk * 100 + film) as u64, SIZES[film])
}

/// One request and its expected result.
struct Draw {
    text: String,
    is_head: bool,
    expected: Expected,
}

enum Expected {
    Whole(Content),
    Part(Content, u64, u64),
    Status(u16),
}

impl Draw {
    /// For a film of `disk`, most of the time.
    fn random(disk: usize, random: &mut Random) -> Self {
        let film = random.within(0..SIZES.len() as u64) as usize;
        let (path, content) = (path_of(disk, film), content_of(disk, film));
        let (is_head, size) = (random.one_in(10), content.size);
        let start = random.within(0..size);
        let end = start + 1 + random.within(0..size - start);
        let range = format!("Range: bytes={start}-{}\r\n", end - 1);
        let (path, fields, expected) = match random.within(0..12) {
            0 => (format!("{path}.gone"), String::new(), Expected::Status(404)),
            1 => (path, "If-None-Match: *\r\n".into(), Expected::Status(304)),
            2 => (path, format!("Range: bytes={size}-\r\n"), Expected::Status(416)),
            3 => (path, format!("{range}If-Range: \"else\"\r\n"), Expected::Whole(content)),
            4 => (path, "Content-Length: 5\r\n".into(), Expected::Whole(content)),
            5..8 => (path, String::new(), Expected::Whole(content)),
            _ if is_head => (path, range, Expected::Whole(content)),
            _ => (path, range, Expected::Part(content, start, end)),
        };
        let method = if is_head { "HEAD" } else { "GET" };
        let body = if fields.starts_with("Content-Length") { "body\n" } else { "" };
        // A condition on a range says nothing about HEAD (RFC 9110 section 14.2).
        let expected = match expected {
            Expected::Status(416) if is_head => Expected::Whole(content_of(disk, film)),
            expected => expected,
        };
        let text = format!("{method} /{path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}");
        Self { text, is_head, expected }
    }

    fn has_body(&self) -> bool {
        !self.is_head && !matches!(self.expected, Expected::Status(304))
    }

    fn check(&self, response: &Response) {
        let case = &self.text;
        let length = response.field("Content-Length").map(|bytes| bytes.parse().unwrap());
        let (status, content, start, end) = match &self.expected {
            Expected::Status(status) => return assert_eq!(response.status, *status, "{case}"),
            Expected::Whole(content) => (200, content, 0, content.size),
            Expected::Part(content, start, end) => (206, content, *start, *end),
        };
        assert_eq!((response.status, length), (status, Some(end - start)), "{case}");
        if !self.is_head {
            assert_eq!(response.body.len() as u64, end - start, "{case}");
            content.assert_holds(start, &response.body, case);
        }
    }
}

/// A viewer with one connection, which sends requests until `left` is used up or it has had enough.
fn view(served: &Served, left: &AtomicU64, asked: &AtomicU64, random: &mut Random) {
    let mut viewer = served.viewer();
    let mut disk = random.within(0..2) as usize;
    for _ in 0..random.within(1..40) {
        if random.one_in(4) {
            disk = 1 - disk;
        }
        let count = if random.one_in(3) { random.within(2..PIPELINE_MAX + 1) } else { 1 };
        let draws: Vec<_> = (0..count)
            .map(|_| Draw::random(if random.one_in(8) { 1 - disk } else { disk }, random))
            .collect();
        asked.fetch_add(count, Ordering::Relaxed);
        change_keys(&mut viewer, random);
        let text: String = draws.iter().map(|draw| draw.text.as_str()).collect();
        let (first, rest) = text.split_at(random.within(1..text.len() as u64 + 1) as usize);
        viewer.send(first.as_bytes()).unwrap();
        change_keys(&mut viewer, random);
        viewer.send(rest.as_bytes()).unwrap();
        for draw in &draws {
            draw.check(&viewer.response(draw.has_body()).unwrap());
        }
        let used_up = |left: u64| left.checked_sub(count);
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used_up).is_err() {
            left.store(0, Ordering::Relaxed);
            break;
        }
    }
    viewer.finish();
    assert_eq!(viewer.rest().0, b"", "nothing was asked for");
}

/// Changes the viewer's keys, and requests new ones from the server, if the version supports it.
fn change_keys(viewer: &mut Viewer, random: &mut Random) {
    let Some(tls) = viewer.tls.as_mut().filter(|_| random.one_in(5)) else { return };
    if tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
        tls.refresh_traffic_keys().unwrap();
        viewer.flush().unwrap();
    }
}

fn draws() -> u64 {
    let given = std::env::var("FULLBORE_MOVE_DRAWS").ok();
    given.map_or(DRAWS, |draws| draws.parse().expect("FULLBORE_MOVE_DRAWS is a number"))
}

/// Whether a worker took too long to answer an offer. On a busy machine it may get no CPU for that long; then the connection stays where it is, as it
/// should, and that shows nothing about moves.
fn was_unanswered(served: &Served) -> bool {
    served.count(Family::MovesRefused, "unanswered") > 0
}

/// How often connections stayed although another silo has the disk.
fn stayed(served: &Served) -> u64 {
    served.total(Family::MovesRefused)
}

fn view_random_films(protocol: Protocol, route: Route) {
    let Some(library) = Library::new() else { return };
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    let served = library.serve(protocol, |config| config.route = route);
    let (left, asked, viewers) = (AtomicU64::new(draws()), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..VIEWERS_AT_ONCE {
            let mut random = Random::new(random.number());
            let (served, left, asked, viewers) = (&served, &left, &asked, &viewers);
            scope.spawn(move || {
                while left.load(Ordering::Relaxed) > 0 {
                    viewers.fetch_add(1, Ordering::Relaxed);
                    view(served, left, asked, &mut random);
                }
            });
        }
    });
    served.await_buffers_back();
    served.stop();
    let (asked, viewers) = (asked.into_inner(), viewers.into_inner());
    let moved = served.number(|n| &n.connections_moved_total);
    println!("{protocol:?} {route:?}: {asked} requests, {moved} moves, {} stays", stayed(&served));
    assert!(asked >= draws() && moved > viewers / 8, "{moved} moves of {viewers} viewers");
    // Each request, response, connection and end is counted once, wherever it was.
    assert_eq!(served.number(|n| &n.requests_total), asked);
    assert_eq!(served.total(Family::Responses), asked);
    assert_eq!(served.number(|n| &n.connections_accepted_total), viewers);
    assert_eq!(served.total(Family::Ends), viewers);
    assert_eq!(served.count(Family::Ends, "peer_closed"), viewers);
    assert_eq!(served.number(|n| &n.connections), 0);
    let changes = served.number(|n| &n.key_updates_received_total);
    assert_eq!(changes > 0, protocol == Protocol::Tls13, "{changes} key changes");
}

#[test]
fn random_requests_get_their_bytes_across_moves_without_tls() {
    view_random_films(Protocol::Plain, Route::Userspace);
}

#[test]
fn random_requests_get_their_bytes_across_moves_when_the_kernel_sends() {
    view_random_films(Protocol::Plain, Route::Kernel);
}

#[test]
fn random_requests_get_their_bytes_across_moves_with_tls12() {
    view_random_films(Protocol::Tls12, Route::Userspace);
}

#[test]
fn random_requests_get_their_bytes_across_moves_with_tls13() {
    view_random_films(Protocol::Tls13, Route::Userspace);
}

#[test]
fn random_requests_get_their_bytes_across_moves_when_the_kernel_seals() {
    if kernel_seals() {
        view_random_films(Protocol::Tls12, Route::Kernel);
        if delivery::KernelOffload::can_change_keys() {
            view_random_films(Protocol::Tls13, Route::Kernel);
        }
    }
}

/// Requests a film of `disk` 24 times, and checks which silo sends it. False if that shows nothing: a worker took too long to answer.
fn comes_from_its_silo(library: &Library, protocol: Protocol, disk: usize) -> bool {
    let served = library.serve(protocol, |config| config.route = Route::Userspace);
    for _ in 0..24 {
        let mut viewer = served.viewer();
        let film = SIZES.len() - 1;
        let response = viewer.ask(&format!("/{}", path_of(disk, film)));
        content_of(disk, film).assert_holds(0, &response.body, "a film");
    }
    served.stop();
    if was_unanswered(&served) {
        return false;
    }
    let sent = |worker: usize| served.of_worker(worker, |n| &n.response_sent_bytes_total);
    assert_eq!(sent(1 - disk), 0, "{protocol:?}: of the other silo");
    assert!(sent(disk) >= 24 * SIZES[SIZES.len() - 1]);
    // The kernel spreads connections by a hash: of 24, one silo got all once in 8 million runs.
    let moved = served.of_worker(disk, |n| &n.connections_moved_total);
    let came = served.of_worker(1 - disk, |n| &n.connections_accepted_total);
    assert_eq!(moved, came);
    assert!(moved > 0 && stayed(&served) == 0, "{protocol:?}");
    true
}

#[test]
fn every_byte_of_a_film_comes_from_the_silo_of_its_disk() {
    let Some(library) = Library::new() else { return };
    for protocol in Protocol::ALL {
        for disk in 0..2 {
            let is_shown = (0..5).any(|_| comes_from_its_silo(&library, protocol, disk));
            assert!(is_shown, "{protocol:?}: a worker never answers in time");
        }
    }
}

#[test]
fn a_viewer_that_alternates_between_disks_does_not_move_back_and_forth() {
    let Some(library) = Library::new() else { return };
    let served = library.serve(Protocol::Tls13, |config| config.route = Route::Userspace);
    let mut viewer = served.viewer();
    for at in 0..200 {
        let response = viewer.ask(&format!("/{}", path_of(at % 2, 1)));
        content_of(at % 2, 1).assert_holds(0, &response.body, "a small film");
    }
    // 3.2 MB in all: less than a connection has to be sent between two moves.
    let moved = || served.number(|n| &n.connections_moved_total);
    assert!(moved() <= 1, "{} moves", moved());
    // After more than that, it moves to the silo of its next request.
    let film = SIZES.len() - 1;
    (0..2).for_each(|_| drop(viewer.ask(&format!("/{}", path_of(1, film)))));
    let before = moved();
    // Again if the other worker did not answer in time: it is asked again seconds later.
    let is_over = || {
        (0..4).for_each(|at| drop(viewer.ask(&format!("/{}", path_of(at / 2, film)))));
        moved() > before || !was_unanswered(&served)
    };
    await_that(is_over, || "the other worker never answers in time".into());
    assert!(moved() > before);
    served.stop();
}

#[test]
fn a_connection_that_finds_the_other_silo_full_is_served_where_it_is() {
    let Some(library) = Library::new() else { return };
    let served = library.serve(Protocol::Tls13, |config| {
        config.route = Route::Userspace;
        config.limits.connections_max = 6;
    });
    // The first silo fills up with viewers, wherever they arrive; more arrive at the second one.
    let (film, mut held) = (2, Vec::new());
    let path = format!("/{}", path_of(0, film));
    for _ in 0..200 {
        if served.count(Family::MovesRefused, "worker_full") > 2 {
            break;
        }
        let before = served.count(Family::ConnectionsRefused, "worker_full");
        let Ok(mut viewer) = served.try_viewer() else {
            // It arrived at the full worker, and was refused there.
            served.await_count(Family::ConnectionsRefused, "worker_full", before + 1);
            continue;
        };
        content_of(0, film).assert_holds(0, &viewer.ask(&path).body, "a film");
        held.push(viewer);
    }
    assert!(served.count(Family::MovesRefused, "worker_full") > 2, "no worker found it full");
    held.iter_mut().for_each(|viewer| {
        content_of(0, film).assert_holds(0, &viewer.ask(&path).body, "the film again");
    });
    served.stop();
}

/// Requests film after film until the server ends the connection. Returns how many it got.
fn view_to_the_end(served: &Served, random: &mut Random, stop: &AtomicBool) -> u64 {
    let mut got = 0;
    // The server may be ending.
    let Ok(mut viewer) = served.try_viewer() else { return got };
    loop {
        let (disk, film) = (random.within(0..2) as usize, random.within(1..4) as usize);
        let text = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", path_of(disk, film));
        if viewer.send(text.as_bytes()).is_err() {
            return got;
        }
        let head = match viewer.head() {
            Ok(head) => head,
            // The server had ended the connection before it got the request.
            Err(error) => {
                use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
                let is_over = matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe);
                assert!(is_over && stop.load(Ordering::Relaxed), "{error:?}");
                return got;
            }
        };
        assert_eq!(head.status, 200);
        let (body, result) = viewer.body(SIZES[film] as usize);
        result.expect("a response that has begun is completed");
        content_of(disk, film).assert_holds(0, &body, "a film");
        got += 1;
        if head.field("Connection") == Some("close") || random.one_in(3) {
            return got;
        }
    }
}

#[test]
fn connections_that_move_while_the_server_drains_are_served_or_closed_in_order() {
    let Some(library) = Library::new() else { return };
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    for protocol in Protocol::ALL {
        for round in 0..5 {
            let served = library.serve(protocol, |config| config.route = Route::Userspace);
            let (stop, got) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let (served, stop, got) = (&served, &stop, &got);
                for _ in 0..VIEWERS_AT_ONCE {
                    let mut random = Random::new(random.number());
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let films = view_to_the_end(served, &mut random, stop);
                            got.fetch_add(films, Ordering::Relaxed);
                        }
                    });
                }
                await_that(|| got.load(Ordering::Relaxed) > 20, || "no viewer is served".into());
                // sleeps: the server ends at another moment in each round
                std::thread::sleep(Duration::from_millis(3 * round));
                stop.store(true, Ordering::Relaxed);
                served.stop();
            });
            assert!(served.number(|n| &n.connections_moved_total) > 0, "{protocol:?}: none moved");
            let accepted = served.number(|n| &n.connections_accepted_total);
            assert_eq!(served.total(Family::Ends), accepted, "{protocol:?}: one is lost");
            assert_eq!(served.number(|n| &n.connections), 0);
        }
    }
}

#[test]
fn a_silo_whose_disk_fails_does_not_disturb_the_others() {
    if !has_two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let failing = dir.path().join("d1");
    [dir.path().join("d0"), failing.clone()].iter().for_each(|d| std::fs::create_dir(d).unwrap());
    let disk = match FailingDisk::mount(&failing) {
        Ok(disk) => disk,
        Err(why) => return fullbore_tests::tool::skip(&why),
    };
    let film = SIZES.len() - 1;
    for disk in 0..2 {
        content_of(disk, film).write(&dir.path().join(path_of(disk, film))).unwrap();
    }
    let served = serve(dir.path(), Protocol::Tls13, |config| {
        config.route = Route::Userspace;
        config.disk = config::Disk::Direct;
        config.net.window_bytes_max = 64 << 10;
    });
    let begin = |disk: usize| {
        let mut viewer = served.narrow_viewer(16 << 10);
        let text = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", path_of(disk, film));
        viewer.send(text.as_bytes()).unwrap();
        assert_eq!(viewer.head().unwrap().status, 200);
        let (first, result) = viewer.body(100_000);
        result.unwrap();
        content_of(disk, film).assert_holds(0, &first, "the beginning");
        viewer
    };
    let (mut healthy, mut sick) = (vec![begin(0), begin(0)], vec![begin(1), begin(1)]);
    disk.fail();
    for viewer in &mut sick {
        let (rest, end) = viewer.rest();
        assert!(end.is_err() && 100_000 + (rest.len() as u64) < SIZES[film], "{end:?}");
    }
    served.await_count(Family::Ends, "file_io", sick.len() as u64);
    for viewer in &mut healthy {
        let (rest, result) = viewer.body(SIZES[film] as usize - 100_000);
        result.unwrap();
        content_of(0, film).assert_holds(100_000, &rest, "the rest");
    }
    // Within a second the open files are dropped, and then opening them fails. The other disk's files are served.
    let status = || {
        let mut viewer = served.viewer();
        let text = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", path_of(1, film));
        viewer.send(text.as_bytes()).unwrap();
        viewer.response(true).map_or(0, |response| response.status)
    };
    await_that(|| status() == 500, || format!("status {}", status()));
    let response = served.viewer().ask(&format!("/{}", path_of(0, film)));
    content_of(0, film).assert_holds(0, &response.body, "the other disk's");
    served.stop();
}

/// A number of one worker.
impl Served {
    fn of_worker(&self, worker: usize, pick: impl Fn(&Numbers) -> &Number) -> u64 {
        pick(&self.workers()[worker]).value()
    }
}
