//! The hot set serves popular parts of films from memory: its bytes are right, and those of a changed file are never sent.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::{Route, Switch};
use fullbore_tests::{Random, settle};
use std::path::PathBuf;
use tempfile::TempDir;

/// Three blocks and a half, and a little.
const FILM_BYTES: u64 = (7 << 20) + 12_345;

struct Library {
    folder: TempDir,
    film: Content,
}

impl Library {
    fn new() -> Self {
        let library =
            Self { folder: tempfile::tempdir().unwrap(), film: Content::new(5, FILM_BYTES) };
        library.film.write(&library.film_path()).unwrap();
        settle(library.folder.path());
        library
    }

    fn film_path(&self) -> PathBuf {
        self.folder.path().join("film.mp4")
    }

    fn serve(&self, protocol: Protocol, off: &[Switch]) -> Served {
        Served::start(self.folder.path(), protocol, |config| {
            config.route = Route::Userspace;
            config.off = off.to_vec();
            config.memory.hot_bytes = Some(64 << 20);
        })
    }
}

/// Requests the film until all of it is in the hot set.
fn warm(served: &Served) {
    let mut viewer = served.viewer();
    await_that(
        || {
            assert_eq!(viewer.ask("/film.mp4").body.len() as u64, FILM_BYTES);
            served.number(|n| &n.hot_filled_bytes_total) == FILM_BYTES
        },
        || format!("{} bytes are hot", served.number(|n| &n.hot_filled_bytes_total)),
    );
}

fn ask_range(viewer: &mut Viewer, start: u64, end: u64) -> std::io::Result<Response> {
    let last = end - 1;
    let head = format!("GET /film.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes={start}-{last}\r\n\r\n");
    viewer.send(head.as_bytes())?;
    viewer.response(true)
}

fn serve_ranges(protocol: Protocol, off: &[Switch]) {
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    let library = Library::new();
    let served = library.serve(protocol, off);
    warm(&served);
    let from_disk = || {
        served.number(|n| &n.read_direct_bytes_total)
            + served.number(|n| &n.read_cached_bytes_total)
    };
    // The counters of reads are published once a second.
    served.await_news();
    let (hot, disk) = (served.number(|n| &n.read_hot_bytes_total), from_disk());
    let mut asked = 0;
    for case in 0..60 {
        let start = random.within(0..FILM_BYTES);
        let end = random.within(start + 1..FILM_BYTES.min(start + (3 << 20)) + 1);
        // Some viewers are slow, so the server makes their records again, from the same memory.
        let mut viewer =
            if random.one_in(4) { served.narrow_viewer(8 << 10) } else { served.viewer() };
        let response = ask_range(&mut viewer, start, end).unwrap();
        assert_eq!((response.status, response.body.len() as u64), (206, end - start));
        library.film.assert_holds(start, &response.body, &format!("case {case}"));
        asked += end - start;
    }
    served.await_buffers_back();
    served.stop();
    assert!(served.number(|n| &n.read_hot_bytes_total) - hot >= asked, "all came from the hot set");
    assert_eq!(from_disk(), disk, "nothing had to be read");
    assert!(served.number(|n| &n.hot_bytes) >= FILM_BYTES);
}

#[test]
fn ranges_come_from_memory_and_are_right_with_tls13() {
    serve_ranges(Protocol::Tls13, &[]);
}

#[test]
fn ranges_come_from_memory_and_are_right_with_tls12() {
    serve_ranges(Protocol::Tls12, &[Switch::Hugepages]);
}

#[test]
fn ranges_come_from_memory_and_are_right_without_tls_and_where_the_library_seals() {
    serve_ranges(Protocol::Plain, &[]);
    serve_ranges(Protocol::Tls13, &[Switch::Handout]);
}

#[test]
fn without_a_hot_set_nothing_is_kept() {
    let library = Library::new();
    for (off, hot_bytes) in [(vec![Switch::Hot], Some(64 << 20)), (vec![], Some(0))] {
        let served = Served::start(library.folder.path(), Protocol::Tls13, |config| {
            config.off = off;
            config.memory.hot_bytes = hot_bytes;
        });
        for _ in 0..4 {
            let whole = served.viewer().ask("/film.mp4");
            library.film.assert_holds(0, &whole.body, "from the page cache");
        }
        served.stop();
        assert_eq!(served.number(|n| &n.hot_bytes_max), 0);
        assert_eq!(served.number(|n| &n.read_hot_bytes_total), 0);
    }
}

#[test]
fn a_set_that_is_wanted_larger_than_memory_is_cut_and_serves() {
    let library = Library::new();
    let served = Served::start(library.folder.path(), Protocol::Tls13, |config| {
        config.memory.hot_bytes = Some(u64::MAX >> 1);
    });
    let lines = served.describe();
    let told = lines.lines().find(|line| line.starts_with("hot set   memory.hot_bytes is "));
    assert!(told.is_some_and(|line| line.contains("so that is the limit")), "{lines}");
    let whole = served.viewer().ask("/film.mp4");
    library.film.assert_holds(0, &whole.body, "with a set as large as memory");
    served.stop();
}

#[test]
fn a_film_that_is_overwritten_is_never_sent_from_memory() {
    let library = Library::new();
    for protocol in [Protocol::Tls13, Protocol::Plain] {
        let served = library.serve(protocol, &[]);
        warm(&served);
        let mut viewer = served.narrow_viewer(8 << 10);
        viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(viewer.head().unwrap().status, 200);
        let file = std::fs::OpenOptions::new().write(true).open(library.film_path()).unwrap();
        let newer = Content::new(6, FILM_BYTES);
        newer.write_into(&file).unwrap();
        // Everything that still arrives is of the old version, and the response breaks off.
        let (body, ended) = viewer.body(FILM_BYTES as usize);
        library.film.assert_holds(0, &body, "the version that was promised");
        assert!(ended.is_err(), "a changed film cannot be sent to its end");
        let whole = served.viewer().ask("/film.mp4");
        newer.assert_holds(0, &whole.body, "the new version");
        served.stop();
        library.film.write(&library.film_path()).unwrap();
        settle(library.folder.path());
    }
}
