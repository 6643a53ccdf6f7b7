//! Origins that misbehave: a clear answer, a counter, and everybody else is served on.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge};
use fullbore_tests::{Plain, SmallDisk, eventually};
use std::collections::BTreeMap;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

#[test]
fn whatever_an_origin_does_wrong_is_told_and_counted_and_others_are_served() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let good = origin.put("/good", 1, MIB + 1, LASTING);
    let server = edge(&origin, cache.path(), "");
    assert!(Plain::connect(server.address).fetch("/good").body == *good);
    let elsewhere = "Location: http://127.0.0.1:1/secret\r\n".to_owned();
    let table = [
        (Manner::Gone, 502, "origin_unreachable"),
        (Manner::Status(500, String::new()), 502, "origin_unreachable"),
        (Manner::Status(403, String::new()), 404, "origin_not_found"),
        (Manner::Status(404, String::new()), 404, "origin_not_found"),
        (Manner::Status(418, String::new()), 502, "origin_wrong"),
        (Manner::Status(302, elsewhere), 502, "origin_redirected"),
        (Manner::Stalls(0), 504, "origin_timed_out"),
        (Manner::Stalls(100_000), 504, "origin_timed_out"),
        (Manner::Breaks(100_000), 502, "origin_unreachable"),
        (Manner::OtherRange, 502, "origin_wrong"),
        (Manner::LongerThanSaid, 502, "origin_wrong"),
    ];
    let mut films = Vec::new();
    let mut counts = BTreeMap::new();
    for (number, (manner, status, reason)) in table.into_iter().enumerate() {
        let path = format!("/film{number}");
        let bytes = origin.put(&path, 10 + number as u64, 2 * MIB, LASTING);
        origin.behave(manner.clone());
        let answer = Plain::connect(server.address).fetch(&path);
        assert_eq!(answer.status, status, "{manner:?}: {}", answer.head);
        assert!(Plain::connect(server.address).fetch("/good").body == *good, "{manner:?}");
        *counts.entry(reason).or_insert(0) += 1;
        films.push((path, bytes));
    }
    origin.behave(Manner::Good);
    for (path, bytes) in films {
        let got = eventually(&format!("{path} to be there after all"), || {
            let answer = Plain::connect(server.address).fetch(&path);
            (answer.status == 200).then_some(answer.body)
        });
        assert!(got == *bytes, "{path}");
    }
    server.wait_for_news();
    for (reason, count) in counts {
        let counted = server.counter(&format!("edge_failures_total{{reason=\"{reason}\"}}"));
        assert!(counted >= count, "{reason}: {counted} of {count}");
    }
}

#[test]
fn an_origin_that_cannot_be_reached_is_told_at_the_start_and_what_is_cached_is_served() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 1000, LASTING);
    let server = edge(&origin, cache.path(), "");
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
    assert!(!server.said().contains("cannot be used"), "{}", server.said());
    drop(server);
    origin.behave(Manner::Gone);
    let server = edge(&origin, cache.path(), "");
    let line = server.stderr.wait_for("cannot be used");
    assert!(line.contains(&origin.url()) && line.contains("what is cached"), "{line}");
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
}

#[test]
fn while_the_origin_is_gone_what_is_stale_is_served_unless_it_may_not_be() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 1000, "Cache-Control: max-age=0\r\n");
    origin.put("/strict", 2, 1000, "Cache-Control: max-age=0, must-revalidate\r\n");
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    assert_eq!((fetch("/film").status, fetch("/strict").status), (200, 200));
    origin.behave(Manner::Gone);
    assert!(fetch("/film").body == *film);
    assert_eq!(fetch("/strict").status, 502);
    server.wait_for_news();
    assert!(server.counter("edge_lookups_total{result=\"stale\"}") > 0);
    origin.behave(Manner::Status(404, String::new()));
    eventually("the film to be gone", || (fetch("/film").status == 404).then_some(()));
}

#[test]
fn what_is_stale_is_served_no_longer_than_the_origin_allows() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.put("/film", 1, 1000, "Cache-Control: max-age=0, stale-if-error=1\r\n");
    let server = edge(&origin, cache.path(), "");
    let status = || Plain::connect(server.address).fetch("/film").status;
    assert_eq!(status(), 200);
    origin.behave(Manner::Gone);
    eventually("it to be too old", || (status() == 502).then_some(()));
    origin.behave(Manner::Good);
    eventually("it to be had again", || (status() == 200).then_some(()));
}

#[test]
fn what_was_missing_is_asked_for_again_soon() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let fetch = || Plain::connect(server.address).fetch("/segment-7.m4s");
    assert_eq!(fetch().status, 404);
    let segment = origin.put("/segment-7.m4s", 1, 1000, LASTING);
    let got = eventually("the segment", || {
        let answer = fetch();
        (answer.status == 200).then_some(answer.body)
    });
    assert!(got == *segment);
}

#[test]
fn an_origin_without_ranges_sends_each_object_once() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/film", 1, 5 * MIB, LASTING);
    origin.behave(Manner::NoRanges);
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let part = viewer.fetch_with("/film", "Range: bytes=4000000-4000009\r\n");
    assert_eq!(part.body, bytes[4_000_000..4_000_010]);
    assert!(viewer.fetch("/film").body == *bytes);
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn odd_lengths_and_ranges_are_answered_as_the_origin_would() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.put("/empty", 1, 0, LASTING);
    let short = origin.put("/short", 2, 10, LASTING);
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/empty").status, 200);
    let beyond = viewer.fetch_with("/short", "Range: bytes=5000000-\r\n");
    assert_eq!(beyond.status, 416, "{}", beyond.head);
    assert!(beyond.head.contains("Content-Range: bytes */10\r\n"), "{}", beyond.head);
    assert!(viewer.fetch("/short").body == *short);
    assert_eq!(viewer.fetch("/none").status, 404);
    let asked = origin.seen().len();
    assert_eq!(viewer.fetch("/none").status, 404, "remembered");
    assert_eq!(viewer.fetch("/../short").status, 404);
    assert_eq!(origin.seen().len(), asked);
}

#[test]
fn a_full_disk_is_told_and_what_is_cached_is_served_on() {
    let cache = tempdir().unwrap();
    // Six blocks.
    let Some(disk) = SmallDisk::mount(cache.path(), 6 << 10) else { return };
    let origin = Origin::start();
    let good = origin.put("/good", 1, 1000, LASTING);
    let server = edge(&origin, disk.path(), "--cache-gib 1");
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/good").body == *good);
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 8 * MIB]).expect_err("the disk is full");
    let film = origin.put("/film", 2, 4 * MIB, LASTING);
    assert_eq!(Plain::connect(server.address).fetch("/film").status, 503);
    server.wait_for_counter("edge_failures_total{reason=\"edge_full\"}", 1);
    std::fs::remove_file(&filler).unwrap();
    let got = eventually("the film", || {
        let answer = Plain::connect(server.address).fetch("/film");
        (answer.status == 200).then_some(answer.body)
    });
    assert!(got == *film);
    assert!(viewer.fetch("/good").body == *good);
}
