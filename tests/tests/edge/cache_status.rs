//! `Cache-Status` (RFC 9211) and `Via`: what an edge says became of a request, for films and for responses that are stored whole.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge};
use fullbore_tests::{Plain, Server, until};
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// The edge's own words, which come last.
fn status(head: &str) -> &str {
    let mut lines = head.lines().filter_map(|line| line.strip_prefix("Cache-Status: "));
    let last = lines.next_back().unwrap_or_else(|| panic!("no Cache-Status: {head}"));
    assert_eq!(head.matches("Via: 1.1 fullbore\r\n").count(), 1, "{head}");
    last
}

fn fetch(server: &Server, path: &str, lines: &str) -> String {
    let answer = Plain::connect(server.address).fetch_with(path, lines);
    status(&answer.head).to_owned()
}

/// The seconds for which a hit is fresh.
fn ttl(status: &str) -> i64 {
    let ttl = status.strip_prefix("fullbore; hit; ttl=");
    ttl.and_then(|ttl| ttl.parse().ok()).unwrap_or_else(|| panic!("no hit: {status}"))
}

#[test]
fn a_film_says_whether_it_was_in_the_cache() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let lines = format!("{LASTING}Via: 1.0 shield\r\nCache-Status: shield; hit; ttl=7\r\n");
    origin.put("/film", 1, 3 * MIB, &lines);
    let part = |first: usize| format!("Range: bytes={first}-{}\r\n", first + 9);
    let first = fetch(&server, "/film", &part(0));
    assert_eq!(first, "fullbore; fwd=uri-miss; fwd-status=206; stored");
    let answer = Plain::connect(server.address).fetch_with("/film", &part(0));
    assert!((3000..=3600).contains(&ttl(status(&answer.head))), "{}", answer.head);
    let of_shield = "Via: 1.0 shield\r\n";
    assert!(answer.head.contains(of_shield), "each cache adds its own: {}", answer.head);
    assert!(answer.head.contains("Cache-Status: shield; hit; ttl=7\r\n"), "{}", answer.head);
    assert_eq!(fetch(&server, "/film", &part(2 * MIB)), "fullbore; fwd=partial");
    ttl(&fetch(&server, "/film", &part(2 * MIB)));
    assert_eq!(fetch(&server, "/film", ""), "fullbore; fwd=partial", "its second block is missing");
    ttl(&fetch(&server, "/film", ""));
    for lines in ["If-None-Match: \"v1\"\r\n", "Range: bytes=99999999-\r\n", "If-Match: \"v2\"\r\n"]
    {
        ttl(&fetch(&server, "/film", lines));
    }
    let mut viewer = Plain::connect(server.address);
    viewer.ask_by("HEAD", "/film", "");
    ttl(status(&viewer.head().1));
    assert_eq!(origin.count("/film"), 3);
}

#[test]
fn a_film_that_was_revalidated_says_so_and_so_does_a_page() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (path, tag) in [("/film", "\"v1\""), ("/page", "W/\"v1\"")] {
        origin.put(path, 1, 1000, "Cache-Control: max-age=0\r\n");
        origin.change(path, |object| object.etag = tag.into());
        assert!(fetch(&server, path, "").starts_with("fullbore; fwd=uri-miss; fwd-status=20"));
        for _ in 0..2 {
            assert_eq!(fetch(&server, path, ""), "fullbore; fwd=stale; fwd-status=304", "{path}");
        }
    }
    // An origin that ignores conditions sends it again, and nothing new is stored.
    origin.behave(Manner::Unconditional);
    assert_eq!(fetch(&server, "/film", ""), "fullbore; fwd=stale; fwd-status=206");
    origin.behave(Manner::Good);
    origin.put("/film", 2, 1000, "Cache-Control: max-age=0\r\n");
    assert_eq!(fetch(&server, "/film", ""), "fullbore; fwd=stale; fwd-status=206; stored");
    origin.behave(Manner::Gone);
    for path in ["/film", "/page"] {
        let stale = ttl(&fetch(&server, path, ""));
        assert!(stale <= 0, "{path}: {stale}");
    }
    until("the film to have been stale for a second", || ttl(&fetch(&server, "/film", "")) < 0);
}

/// How many of 20 viewers who ask for `path` at once had it fetched, and for how many it was fetched by another one. The rest came later.
fn stampede(origin: &Origin, server: &Server, path: &str, tag: &str) -> (usize, usize) {
    origin.put(path, 1, 1000, LASTING);
    origin.change(path, |object| object.etag = tag.into());
    origin.behave(Manner::Withholds("/new"));
    let ask = |_| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask(path);
        viewer
    };
    let viewers: Vec<_> = (0..20).map(ask).collect();
    until("the film to be asked for", || origin.count(path) == 1);
    origin.behave(Manner::Good);
    let (mut first, mut others) = (0, 0);
    for mut viewer in viewers {
        let answer = viewer.answer();
        let status = status(&answer.head);
        match status.strip_prefix("fullbore; fwd=uri-miss; fwd-status=20") {
            Some("0; stored" | "6; stored") => first += 1,
            Some("0; stored; collapsed" | "6; stored; collapsed") => others += 1,
            _ => drop(ttl(status)),
        }
    }
    (first, others)
}

#[test]
fn of_all_who_ask_for_a_new_film_or_page_at_once_one_has_it_fetched() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 2");
    let mut paths = 0;
    for tag in ["\"v1\"", "W/\"v1\""] {
        until("viewers to come before the answer", || {
            paths += 1;
            let (first, others) = stampede(&origin, &server, &format!("/new{paths}"), tag);
            assert_eq!(first, 1, "{tag}");
            others > 0
        });
    }
}

#[test]
fn a_server_of_a_library_is_no_cache_and_says_nothing() {
    let library = tempdir().unwrap();
    std::fs::write(library.path().join("film"), b"film").unwrap();
    let server = Server::start(library.path(), "--tls off");
    let answer = Plain::connect(server.address).fetch("/film");
    assert!(answer.status == 200 && !answer.head.contains("Cache-Status"), "{}", answer.head);
    assert!(!answer.head.contains("Via"), "{}", answer.head);
}
