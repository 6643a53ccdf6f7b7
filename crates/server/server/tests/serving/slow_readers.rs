//! Slow viewers. They hold no copies of responses that are sent from memory, and the memory that they hold is bounded. As long as they read
//! some bytes, they stay.

use crate::support::content::Content;
use crate::support::library::Library;
use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Route;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use telemetry::Family;
use tempfile::TempDir;

/// The maximum number of titles in a list.
const TITLES: usize = 1000;

const TITLES_JSON: &str = "GET /-/titles.json HTTP/1.1\r\nHost: h\r\n\r\n";

/// A library whose list of titles is long, and one film.
fn library() -> (TempDir, Content) {
    let (dir, film) = (tempfile::tempdir().unwrap(), Content::new(3, 2 << 20));
    film.write(&dir.path().join("film.mp4")).unwrap();
    for index in 1..TITLES {
        let name = format!("{}-{index}.mp4", "\u{fc}".repeat(60));
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    (dir, film)
}

/// The kernel buffers little for a viewer here, so that the server has to.
fn serve(library: &Path, protocol: Protocol, response_bytes_max: u64) -> Served {
    Served::start(library, protocol, |config| {
        config.net.unsent_bytes_max = Some(4 << 10);
        config.net.window_bytes_max = 16 << 10;
        config.limits.response_bytes_max = response_bytes_max;
    })
}

/// The whole list, once it is made.
fn list(served: &Served) -> Response {
    let mut list = None;
    await_that(
        || {
            let response = served.viewer().ask("/-/titles.json");
            let is_complete =
                String::from_utf8_lossy(&response.body).contains("\"is_complete\":true");
            list = Some(response).filter(|_| is_complete);
            list.is_some()
        },
        || "the titles are never listed".into(),
    );
    list.unwrap()
}

/// A viewer that sends a request and reads nothing yet.
fn slow_viewer(served: &Served, request: &str) -> Viewer {
    let mut viewer = served.narrow_viewer(4096);
    viewer.send(request.as_bytes()).unwrap();
    viewer
}

/// Requests as many ranges of the film as one response may have: the heads of its parts are made for it alone.
fn many_ranges() -> String {
    let range = |index: u64| format!("{}-{}", index * 32_768, index * 32_768 + 16_383);
    let ranges: Vec<_> = (0..64).map(range).collect();
    format!("GET /film.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes={}\r\n\r\n", ranges.join(","))
}

#[test]
fn a_list_is_in_memory_once_however_many_take_it_slowly() {
    let (library, _) = library();
    for protocol in Protocol::ALL {
        let served = serve(library.path(), protocol, 64 << 20);
        let whole = list(&served);
        let bytes = whole.body.len() as u64;
        assert!(bytes > 500_000, "the list is short: {bytes} bytes");
        let mut viewers: Vec<_> = (0..100).map(|_| slow_viewer(&served, TITLES_JSON)).collect();
        await_that(
            || {
                served.number(|n| &n.sending) == 100
                    && served.number(|n| &n.response_memory_bytes) > 0
            },
            || "the viewers are not answered".into(),
        );
        let held = served.number(|n| &n.response_memory_bytes);
        assert_eq!(held, bytes, "{protocol:?}: shared by all");
        for viewer in viewers.iter_mut().step_by(10) {
            assert!(viewer.response(true).unwrap().body == whole.body, "{protocol:?}");
        }
        drop(viewers);
        await_that(
            || served.number(|n| &n.response_memory_bytes) == 0,
            || "memory is never given back".into(),
        );
        served.stop();
    }
}

#[test]
fn what_does_not_fit_is_refused_for_now_and_films_are_served_on() {
    let (library, film) = library();
    let served = serve(library.path(), Protocol::Plain, 64 << 10);
    let refused = await_refused(&served, TITLES_JSON);
    assert_eq!(refused.field("Retry-After"), Some("5"));
    let whole = served.viewer().ask("/film.mp4");
    film.assert_holds(0, &whole.body, "a film needs no memory");
    assert_eq!((whole.status, whole.body.len() as u64), (200, film.size));
    assert_eq!(served.viewer().ask("/-/").status, 200, "nor does a page");
    assert_eq!(served.viewer().ask("/none").status, 404, "nor does a refusal");
    // The gauge is set once a second, and an early list may have been short enough to fit.
    await_that(|| served.number(|n| &n.response_memory_bytes) == 0, || "memory is kept".into());
    served.stop();
}

/// Sends requests until one is refused.
fn await_refused(served: &Served, request: &str) -> Response {
    let mut last = None;
    await_that(
        || {
            let mut viewer = served.viewer();
            viewer.send(request.as_bytes()).unwrap();
            let response = viewer.response(true).unwrap();
            let is_refused = response.status == 503;
            last = Some(response);
            is_refused
        },
        || "it is never refused".into(),
    );
    assert!(served.count(Family::Refusals, "response_memory") >= 1);
    last.unwrap()
}

#[test]
fn the_heads_of_parts_count_while_a_viewer_keeps_them_and_no_longer() {
    let (library, film) = library();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        // Unread data stays in the server: with sendfile the kernel would take all of it from the page cache.
        config.route = Route::Userspace;
        config.net.unsent_bytes_max = Some(4 << 10);
        config.net.window_bytes_max = 16 << 10;
        config.limits.response_bytes_max = 64 << 10;
    });
    let request = many_ranges();
    let mut slow: Vec<Viewer> = Vec::new();
    await_that(
        || {
            slow.push(slow_viewer(&served, &request));
            served.count(Family::Refusals, "response_memory") > 0
        },
        || "they may hold any amount".into(),
    );
    assert!(slow.len() > 2, "some fit");
    let mut first = slow.swap_remove(0);
    let answer = first.response(true).unwrap();
    assert_eq!(answer.status, 206);
    assert!(answer.body.len() as u64 > 64 * 16_384);
    drop((first, slow));
    await_that(|| served.number(|n| &n.response_memory_bytes) == 0, || "memory is kept".into());
    let mut viewer = served.viewer();
    viewer.send(request.as_bytes()).unwrap();
    assert_eq!(viewer.response(true).unwrap().status, 206, "there is room again");
    film.assert_holds(0, &served.viewer().ask("/film.mp4").body, "the film");
    served.stop();
}

/// Reads the responses to two viewers, a few bytes of each at a time, until the connection of the first ends in order. Returns how many bytes that
/// one read, TLS included.
fn take_slowly(first: &mut Viewer, other: &mut Viewer) -> usize {
    let (mut taken, mut chunk) = (0, [0; 1500]);
    loop {
        let of_other = other.stream.read(&mut chunk).unwrap();
        assert!(of_other > 0, "the other one was cut off");
        match first.stream.read(&mut chunk).unwrap() {
            0 => return taken,
            bytes => taken += bytes,
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn those_who_take_a_little_all_the_time_do_not_time_out() {
    const GET_LONG: &str = "GET /long.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";
    const GET_A_AND_CLOSE: &str = "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let library = Library::new();
    let watch = |protocol| {
        let served = Served::start(library.path(), protocol, |config| {
            // Much longer than a pause of these viewers, even on a machine that holds them up for seconds.
            config.timeouts.send_seconds = 5.0;
            // The kernel holds as much as such a viewer reads in a minute, and asks for more when a third of that is gone.
            config.net.unsent_bytes_max = Some(1 << 20);
        });
        let stalled = slow_viewer(&served, GET_LONG);
        let mut in_the_middle = slow_viewer(&served, GET_LONG);
        let mut near_the_end = slow_viewer(&served, GET_A_AND_CLOSE);
        // At least 67 pauses, so longer than three times the limit for reading nothing.
        let taken = take_slowly(&mut near_the_end, &mut in_the_middle);
        assert!(taken as u64 > library.a.size, "{protocol:?}: {taken} bytes of a.mp4");
        served.await_count(Family::Ends, "send_timeout", 1);
        assert_eq!(served.count(Family::Ends, "send_timeout"), 1, "{protocol:?}: the stalled one");
        drop((stalled, in_the_middle));
        served.stop();
    };
    // All at once, because they mostly wait.
    std::thread::scope(|scope| {
        for protocol in Protocol::ALL {
            scope.spawn(move || watch(protocol));
        }
    });
}
