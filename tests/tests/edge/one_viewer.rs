//! What the origin makes for one viewer does not reach another, and does not stay when its viewer leaves.

use crate::edge;
use crate::origin::{Manner, Origin};
use fullbore_tests::{Plain, until};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tempfile::tempdir;

const WEAK: &str = "W/\"v1\"";

/// Puts a response there that is stored whole, and has to be revalidated before each use.
fn put_stale(origin: &Origin, viewer: &mut Plain, path: &str) -> Vec<u8> {
    let bytes = origin.put(path, 1, 1000, "Cache-Control: max-age=0\r\nVary: X-Who\r\n");
    origin.change(path, |object| object.etag = WEAK.into());
    assert!(viewer.fetch(path).body == *bytes);
    bytes.to_vec()
}

/// From now on, answers about `path` have these lines.
fn set_lines(origin: &Origin, path: &str, lines: &str) {
    origin.change(path, |object| object.lines = lines.into());
}

#[test]
fn a_cookie_that_a_confirmation_sets_is_for_the_viewer_who_asked() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for (number, is_head) in [(0, false), (1, true)] {
        let path = format!("/list{number}");
        let bytes = put_stale(&origin, &mut viewer, &path);
        let lines = "Cache-Control: max-age=3600\r\nSet-Cookie: id={number}\r\nX-New: 1\r\n";
        set_lines(&origin, &path, lines);
        let mut asker = Plain::connect(server.address);
        let head = match is_head {
            true => {
                asker.ask_by("HEAD", &path, "");
                asker.head().1
            }
            false => {
                let answer = asker.fetch(&path);
                assert!(answer.body == bytes, "{}", answer.head);
                answer.head
            }
        };
        assert!(head.contains("Set-Cookie: id="), "it is this viewer's: {head}");
        let asked = origin.count(&path);
        for _ in 0..2 {
            let answer = Plain::connect(server.address).fetch(&path);
            assert!(
                answer.body == bytes && answer.head.contains("X-New: 1\r\n"),
                "{}",
                answer.head
            );
            assert!(!answer.head.contains("Set-Cookie"), "another viewer's: {}", answer.head);
        }
        assert_eq!(origin.count(&path), asked, "what was confirmed is fresh");
    }
}

#[test]
fn what_a_confirmation_forbids_to_store_is_not_stored_any_more() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for (number, lines) in [
        "Cache-Control: private, max-age=3600\r\n",
        "Cache-Control: private; max-age=3600\r\n",
        "Cache-Control: no-store, max-age=3600\r\n",
        "Cache-Control: max-age=3600\r\nVary: *\r\n",
        "Cache-Control: max-age=3600\r\nVary: X-Other\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/list{number}");
        let bytes = put_stale(&origin, &mut viewer, &path);
        set_lines(&origin, &path, lines);
        assert!(viewer.fetch(&path).body == bytes, "{lines}");
        let conditional = "if-none-match: ";
        assert!(origin.seen().last().unwrap().head.contains(conditional), "{lines}");
        let other = Plain::connect(server.address).fetch_with(&path, "X-Other: 1\r\n");
        assert!(other.body == bytes, "{lines}");
        let last = origin.seen().last().unwrap().head.clone();
        assert!(!last.contains(conditional) && last.contains("x-other: 1"), "{lines}: {last}");
    }
}

/// Viewers who leave while their passes wait for a turn, behind 12 that the origin holds, which are as many as one client may have.
fn hold_turns(origin: &Origin, address: SocketAddr) -> Vec<Plain> {
    origin.behave(Manner::Withholds("/held"));
    let hold = |number: usize| {
        let mut viewer = Plain::connect(address);
        viewer.ask_with(&format!("/held{number}"), "Authorization: Basic YQ==\r\n");
        viewer
    };
    let held: Vec<_> = (0..12).map(hold).collect();
    until("the origin to hold them", || origin.count("/held") == held.len());
    held
}

#[test]
fn responses_whose_viewers_left_do_not_hold_the_origins_slots() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let _held = hold_turns(&origin, server.address);
    // In all, more than the origin has slots. Each is more than a block, so it holds its slot until it is claimed.
    for batch in 0..4 {
        let ask = |number: usize| {
            let path = format!("/new{}", 20 * batch + number);
            origin.put(&path, 1, 2 << 20, "Cache-Control: no-store\r\nAccept-Ranges: none\r\n");
            let mut viewer = Plain::connect(server.address);
            viewer.ask(&path);
            viewer
        };
        let viewers: Vec<_> = (0..20).map(ask).collect();
        until("the origin to be asked", || origin.count("/new") == 20 * (batch + 1));
        drop(viewers);
    }
    let film = origin.put("/film", 1, 1000, "Cache-Control: max-age=3600\r\n");
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let answer = Plain::connect_from(other, server.address).fetch("/film");
    assert!(answer.status == 200 && answer.body == *film, "{}", answer.head);
    origin.behave(Manner::Good);
}

/// As if it had left a moment later: it is stored, and has an end.
#[test]
fn what_will_be_stored_is_there_for_others_if_its_viewer_leaves_before_it_arrives() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let _held = hold_turns(&origin, server.address);
    let lines = "Cache-Control: max-age=3600\r\nAccept-Ranges: none\r\n";
    let bytes = origin.put("/new", 1, 2 << 20, lines);
    origin.change("/new", |object| object.etag = WEAK.into());
    let mut viewer = Plain::connect(server.address);
    viewer.ask("/new");
    until("the origin to be asked", || origin.count("/new") == 1);
    drop(viewer);
    until("its viewer to be missed", || {
        server.wait_for_news();
        server.counter("requests_refused_total{reason=\"edge_viewer_left\"}") == 1
    });
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let answer = Plain::connect_from(other, server.address).fetch("/new");
    assert!(answer.status == 200 && answer.body == *bytes, "{}", answer.head);
    assert_eq!(origin.count("/new"), 1, "{}", answer.head);
    origin.behave(Manner::Good);
}
