//! Responses without an end, or of which a viewer wants little: they reach their viewers, cost the origin little, and block no others.

use crate::origin::{Manner, Origin};
use crate::{MIB, PATIENT, edge, launch};
use fullbore_tests::{Plain, until};
use std::net::IpAddr;
use tempfile::tempdir;

/// Another client.
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

#[test]
fn endless_responses_reach_their_viewers_and_end_at_the_origin_when_those_leave() {
    const VIEWERS: usize = 20;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Drips("/camera", None, "no-store"));
    let ask = |number: usize| {
        // More than one client may have under way, and together more than all may.
        let from = if number < VIEWERS / 2 { IpAddr::from([127, 0, 0, 1]) } else { OTHER };
        let mut viewer = Plain::connect_from(from, server.address);
        viewer.ask(&format!("/camera{number}"));
        viewer
    };
    let mut viewers: Vec<_> = (0..VIEWERS).map(ask).collect();
    for viewer in &mut viewers {
        let (status, head, _) = viewer.head();
        assert!(status == 200 && head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
        let chunk = viewer.chunk();
        assert!(!chunk.is_empty() && chunk.iter().all(|byte| *byte == b'x'));
    }
    let page = origin.put("/page", 1, 1000, "Cache-Control: no-store\r\n");
    assert!(Plain::connect(server.address).fetch("/page").body == *page, "others are served");
    drop(viewers);
    until("the origin to be left", || origin.left() == origin.count("/camera"));
}

#[test]
fn an_endless_response_without_a_place_is_refused_and_gives_its_slot_back() {
    /// As many as may grow at the same time.
    const PLACES: usize = 64;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = "[edge]\nsilent_seconds = 1.0\n";
    let server = launch(&origin, cache.path()).config(config).arguments("--tls off").start();
    origin.behave(Manner::Drips("/camera", None, "no-store"));
    let mut viewers = Vec::new();
    for number in 0..PLACES {
        let from = if number < PLACES / 2 { IpAddr::from([127, 0, 0, 1]) } else { OTHER };
        let mut viewer = Plain::connect_from(from, server.address);
        viewer.ask(&format!("/camera{number}"));
        viewers.push(viewer);
    }
    for viewer in &mut viewers {
        assert_eq!(viewer.head().0, 200);
    }
    let refused = Plain::connect(server.address).fetch("/camera");
    assert_eq!(refused.status, 503, "{}", refused.head);
    until("the origin to be left", || origin.left() > 0);
    drop(viewers);
    until("all to be left", || origin.left() == origin.count("/camera"));
}

#[test]
fn a_long_response_that_is_for_one_viewer_ends_at_the_origin_when_that_leaves() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Drips("/film", Some(200 * MIB), "no-store"));
    let mut viewer = Plain::connect(server.address);
    viewer.ask_with("/film", "Authorization: Basic YQ==\r\n");
    let (status, head, length) = viewer.head();
    assert!(status == 200 && length == 200 * MIB, "{head}");
    drop(viewer);
    until("the origin to be left", || origin.left() == 1);
    server.wait_for_news();
    assert_eq!(server.counter("edge_failures_total{reason=\"origin_unreachable\"}"), 0);
}

#[test]
fn the_one_copy_of_a_stored_response_goes_on_when_its_viewers_have_left() {
    const VIEWERS: usize = 20;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Drips("/film", Some(24 * MIB), "max-age=3600"));
    let mut viewers: Vec<_> = (0..VIEWERS).map(|_| Plain::connect(server.address)).collect();
    viewers.iter_mut().for_each(|viewer| viewer.ask("/film"));
    for viewer in &mut viewers {
        assert_eq!(viewer.head().0, 200);
    }
    assert_eq!(origin.count("/film"), 1, "those who come while it arrives share it");
    drop(viewers);
    until("it to be stored", || {
        let cached =
            Plain::connect(server.address).fetch_with("/film", "Cache-Control: only-if-cached\r\n");
        cached.status == 200 && cached.body.len() == 24 * MIB
    });
    assert_eq!((origin.count("/film"), origin.left()), (1, 0));
}

#[test]
fn a_response_without_a_length_is_refreshed_while_its_stale_version_is_served() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let lines = "Cache-Control: max-age=0, stale-while-revalidate=3600\r\n";
    let first = origin.put("/guide", 1, 2 * MIB, lines);
    origin.behave(Manner::Chunked);
    let fetch = || Plain::connect(server.address).fetch("/guide");
    assert!(fetch().body == *first);
    until("it to be stored", || fetch().head.contains("fullbore; hit"));
    let second = origin.put("/guide", 2, 2 * MIB, lines);
    until("the second version", || fetch().body == *second);
}

#[test]
fn a_response_without_a_length_is_complete_in_chunks_and_is_stored() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let list = origin.put("/list", 1, 3 * MIB, "Cache-Control: max-age=3600\r\n");
    origin.behave(Manner::Chunked);
    let mut viewer = Plain::connect(server.address);
    let answer = viewer.fetch("/list");
    assert!(answer.status == 200 && answer.body == *list, "{}", answer.head);
    assert!(answer.head.contains("Transfer-Encoding: chunked\r\n"), "{}", answer.head);
    until("it to be stored", || {
        let answer = viewer.fetch("/list");
        assert!(answer.body == *list, "{}", answer.head);
        answer.head.contains("Cache-Status: fullbore; hit")
    });
}

#[test]
fn a_range_for_a_viewer_whom_the_origin_knows_costs_the_origin_that_range() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}cookies = true\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let film = origin.put("/film", 1, 8 * MIB, "Cache-Control: max-age=3600\r\n");
    let long = origin.put("/long", 2, 20 * MIB, "Cache-Control: max-age=3600\r\n");
    let mut viewer = Plain::connect(server.address);
    for personal in ["Authorization: Basic YQ==\r\n", "Cookie: id=1\r\n"] {
        let lines = format!("{personal}Range: bytes=5000000-5000009\r\nIf-Range: \"v1\"\r\n");
        let part = viewer.fetch_with("/film", &lines);
        assert_eq!((part.status, &part.body[..]), (206, &film[5_000_000..5_000_010]));
        assert!(
            part.head.contains("Content-Range: bytes 5000000-5000009/8388608\r\n"),
            "{}",
            part.head
        );
        let seen = origin.seen().pop().unwrap();
        assert_eq!(seen.range, Some((5_000_000, 5_000_009)), "{}", seen.head);
        assert!(seen.head.contains("if-range: \"v1\""), "{}", seen.head);
        let beyond = format!("{personal}Range: bytes=9000000-9000009\r\n");
        let refused = viewer.fetch_with("/film", &beyond);
        assert_eq!(refused.status, 416, "{}", refused.head);
        assert!(refused.head.contains("Content-Range: bytes */8388608\r\n"), "{}", refused.head);
        let lines = format!("{personal}Sec-Fetch-Dest: video\r\nRange: bytes=5-\r\n");
        let open = viewer.fetch_with("/long", &lines);
        assert!(open.status == 206 && open.body == long[5..5 + 8 * MIB], "{}", open.head);
        assert!(open.head.contains("Content-Range: bytes 5-8388612/20971520\r\n"), "{}", open.head);
        let seen = origin.seen().pop().unwrap();
        assert_eq!(seen.range, Some((5, 8_388_612)), "it would have sent the rest: {}", seen.head);
        let download = viewer.fetch_with("/long", &format!("{personal}Range: bytes=5-\r\n"));
        assert!(download.status == 206 && download.body == long[5..], "{}", download.head);
        // A condition is about all of it, and is evaluated here.
        let condition = format!("{personal}Range: bytes=0-9\r\nIf-None-Match: \"v1\"\r\n");
        assert_eq!(viewer.fetch_with("/film", &condition).status, 304);
    }
}
