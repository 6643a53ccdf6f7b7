//! Responses that break off, or have too large a header: their viewers know at once, and everyone else is served.

use crate::origin::{Manner, Origin};
use crate::serving::helper;
use crate::{MIB, PATIENT, edge, launch};
use fullbore_tests::{Plain, Server, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use tempfile::tempdir;

/// Longer than what fits into the buffers between the edge and a viewer who does not read.
const LONG: usize = 24 * MIB;

/// A viewer who has asked for `path`, a response of [`LONG`] bytes, and has read nothing yet.
fn slow_viewer(server: &Server, path: &str) -> TcpStream {
    let mut viewer = TcpStream::connect(server.address).unwrap();
    write!(viewer, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    viewer
}

/// Reads what a viewer gets before its connection ends. Another viewer has waited for the origin since before that, and still does: so the end was
/// no time-out, which would have come to the other one first.
fn cut_off(origin: &Origin, server: &Server, mut viewer: TcpStream) -> usize {
    origin.behave(Manner::Withholds("/withheld"));
    let mut other = Plain::connect(server.address);
    other.ask("/withheld");
    until("the other viewer to wait", || origin.count("/withheld") > 0);
    let mut got = Vec::new();
    // It may end with a reset.
    let _ = viewer.read_to_end(&mut got);
    server.wait_for_news();
    let timed_out = server.counter("requests_refused_total{reason=\"origin_timed_out\"}");
    assert_eq!(timed_out, 0, "the viewer waited for its time-out");
    origin.behave(Manner::Good);
    got.len()
}

#[test]
fn a_response_that_breaks_off_ends_a_slow_viewers_connection_at_once() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/long", 1, LONG, "Cache-Control: no-store\r\n");
    origin.behave(Manner::Breaks(LONG - 3 * MIB));
    let viewer = slow_viewer(&server, "/long");
    server.wait_for_counter("edge_failures_total{reason=\"origin_unreachable\"}", 1);
    let got = cut_off(&origin, &server, viewer);
    assert!((LONG / 2..LONG - 2 * MIB).contains(&got), "{got}");
}

#[test]
fn a_response_whose_helper_dies_ends_a_slow_viewers_connection_at_once() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/long", 1, LONG, "Cache-Control: no-store\r\n");
    origin.behave(Manner::Holds);
    let viewer = slow_viewer(&server, "/long");
    server.wait_for_counter("edge_lookups_total{result=\"passed\"}", 1);
    let first = helper(&server);
    let process = rustix::process::Pid::from_raw(first as i32).unwrap();
    rustix::process::kill_process(process, fullbore_tests::Signal::KILL).unwrap();
    until("the next helper", || helper(&server) != first);
    let got = cut_off(&origin, &server, viewer);
    assert!(got < LONG, "{got}");
}

#[test]
fn headers_that_grow_with_each_answer_stay_within_bounds() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 1000, "Cache-Control: no-cache\r\n");
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/film").body == *film);
    let value = "v".repeat(480);
    // Each answer is allowed, and all of them together are more than a message to the server may have.
    for answer in 0..50 {
        let mut lines = "Cache-Control: no-cache\r\n".to_owned();
        (0..12).for_each(|line| lines += &format!("X-{answer}-{line}: {value}\r\n"));
        origin.change("/film", |object| object.lines = lines);
        let got = viewer.fetch("/film");
        assert!(got.status == 200 && got.body == *film, "{answer}: {}", got.head);
        let last = format!("X-{answer}-11: ");
        assert!(got.head.to_ascii_lowercase().contains(&last.to_ascii_lowercase()), "{}", got.head);
    }
}

/// Sends a request with a body, and returns the answer's status.
fn post(server: &Server, path: &str, lines: &str, body_bytes: usize) -> u16 {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {body_bytes}\r\n{lines}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'x'; body_bytes]).unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    status.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_fits_into_no_message_between_server_and_helper_is_refused_and_others_are_served() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}methods = [\"POST\"]\n[limits]\nhead_bytes_max = 65536\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    // The quotes take twice their length.
    let large = format!("X-Large: {}\r\n", "\"".repeat(60_000));
    assert_eq!(post(&server, "/a", &large, 64_000), 431);
    assert_eq!(origin.count("/a"), 0);
    let film = origin.put("/film", 1, 1000, "");
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
    let location = format!("Location: /{}\r\n", "a".repeat(250_000));
    origin.behave(Manner::Status(201, location));
    assert_eq!(post(&server, "/a", "", 1), 502, "a header that is too large");
    origin.behave(Manner::Good);
    let other = origin.put("/other", 2, 1000, "");
    assert!(Plain::connect(server.address).fetch("/other").body == *other);
}

#[test]
fn films_are_revalidated_in_slots_of_their_own() {
    const PAGES: usize = 12;
    const FILMS: usize = 24;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let paths: Vec<_> = (0..PAGES).map(|number| format!("/page{number}")).collect();
    let films: Vec<_> = (0..FILMS).map(|number| format!("/film{number}")).collect();
    let mut viewer = Plain::connect(server.address);
    for path in paths.iter().chain(&films) {
        origin.put(path, 1, 1000, "Cache-Control: max-age=0\r\n");
        if path.starts_with("/page") {
            // It is stored whole, not as a film.
            origin.change(path, |object| object.etag = "W/\"v1\"".into());
        }
        assert_eq!(viewer.fetch(path).status, 200);
    }
    let (pages_before, films_before) = (origin.count("/page"), origin.count("/film"));
    origin.behave(Manner::Withholds("/"));
    let ask = |path: &String| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask(path);
        viewer
    };
    let waiting: Vec<_> = paths.iter().map(ask).collect();
    until("the pages to be revalidated", || origin.count("/page") == pages_before + PAGES);
    let films: Vec<_> = films.iter().map(ask).collect();
    // As many as one client may have under way.
    until("the films to be revalidated, too", || origin.count("/film") == films_before + FILMS);
    origin.behave(Manner::Good);
    for mut viewer in waiting.into_iter().chain(films) {
        assert_eq!(viewer.answer().status, 200);
    }
}

#[test]
fn a_stored_response_that_becomes_a_film_is_one_from_the_next_request_on() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    origin.put("/film", 1, 1000, "Cache-Control: max-age=0\r\n");
    origin.change("/film", |object| object.etag = "W/\"v1\"".into());
    assert_eq!(viewer.fetch("/film").status, 200);
    let film = origin.put("/film", 2, 1000, "Cache-Control: max-age=3600\r\n");
    assert!(viewer.fetch("/film").body == *film, "passed on");
    assert!(viewer.fetch("/film").body == *film, "kept");
    let asked = origin.count("/film");
    assert!(viewer.fetch("/film").body == *film);
    assert_eq!(origin.count("/film"), asked, "the film is not known as one");
}
