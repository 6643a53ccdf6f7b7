//! Origins that misbehave: a clear answer, a counter, and all other viewers are still served.

use crate::origin::{Manner, Origin};
use crate::{IMPATIENT, MIB, PATIENT, edge, launch};
use fullbore_tests::{Plain, SmallDisk, eventually, may_open, until};
use std::collections::BTreeMap;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

#[test]
fn whatever_an_origin_does_wrong_is_told_and_counted_and_others_are_served() {
    let elsewhere = "Location: http://127.0.0.1:1/secret\r\n".to_owned();
    let wrong = [
        (Manner::Gone, 502, "origin_unreachable"),
        (Manner::Status(500, String::new()), 500, "origin_unreachable"),
        (Manner::Status(403, String::new()), 403, "origin_not_found"),
        (Manner::Status(404, String::new()), 404, "origin_not_found"),
        (Manner::Status(418, String::new()), 418, "origin_wrong"),
        (Manner::Status(302, elsewhere), 302, "origin_redirected"),
        (Manner::Breaks(100_000), 502, "origin_unreachable"),
        (Manner::OtherRange, 502, "origin_wrong"),
        (Manner::LongerThanSaid, 502, "origin_wrong"),
    ];
    are_told_and_counted(PATIENT, &wrong);
    let silent = [0, 100_000].map(|sent| (Manner::Stalls(sent), 504, "origin_timed_out"));
    are_told_and_counted(IMPATIENT, &silent);
}

/// What the origin does, the status that viewers get, and the reason in the counter.
type Fault = (Manner, u16, &'static str);

fn are_told_and_counted(config: &str, table: &[Fault]) {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let good = origin.put("/good", 1, MIB + 1, LASTING);
    let server = launch(&origin, cache.path()).config(config).arguments("--tls off").start();
    assert!(Plain::connect(server.address).fetch("/good").body == *good);
    let mut films = Vec::new();
    let mut counts = BTreeMap::new();
    for (number, (manner, status, reason)) in table.iter().enumerate() {
        let path = format!("/film{number}");
        let bytes = origin.put(&path, 10 + number as u64, 2 * MIB, LASTING);
        origin.behave(manner.clone());
        let answer = Plain::connect(server.address).fetch(&path);
        assert_eq!(answer.status, *status, "{manner:?}: {}", answer.head);
        assert!(Plain::connect(server.address).fetch("/good").body == *good, "{manner:?}");
        *counts.entry(*reason).or_insert(0) += 1;
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
fn what_must_be_asked_about_is_not_served_stale_whatever_stands_beside_that() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let status = |path: &str| Plain::connect(server.address).fetch(path).status;
    let strict = ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=0"];
    let paths = ["/must", "/proxy", "/no", "/shared"];
    for (path, directive) in paths.into_iter().zip(strict) {
        let lines = format!("Cache-Control: max-age=0, {directive}, stale-if-error=600\r\n");
        origin.put(path, 1, 1000, &lines);
        assert_eq!(status(path), 200, "{directive}");
    }
    origin.behave(Manner::Status(500, String::new()));
    for path in paths {
        assert_eq!(status(path), 500, "{path}");
    }
}

#[test]
fn an_answer_that_is_no_word_on_the_film_costs_the_cache_nothing() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    let elsewhere = "Location: http://127.0.0.1:1/maintenance\r\n".to_owned();
    let wrong = [
        (Manner::Status(302, elsewhere), 302),
        (Manner::Status(400, String::new()), 400),
        (Manner::Status(418, String::new()), 418),
        (Manner::Status(304, "ETag: \"another\"\r\n".into()), 502),
    ];
    let mut films = Vec::new();
    for (number, (manner, status)) in wrong.into_iter().enumerate() {
        let (lax, strict) = (format!("/lax{number}"), format!("/strict{number}"));
        let film = origin.put(&lax, 1, 2 * MIB, "Cache-Control: max-age=0\r\n");
        origin.put(&strict, 1, 2 * MIB, "Cache-Control: no-cache\r\n");
        origin.behave(Manner::Good);
        assert!(fetch(&lax).body == *film && fetch(&strict).body == *film);
        origin.behave(manner.clone());
        assert!(fetch(&lax).body == *film, "{manner:?}");
        assert_eq!(fetch(&strict).status, status, "{manner:?}");
        films.push((lax, strict, film));
    }
    origin.behave(Manner::Good);
    for (lax, strict, film) in &films {
        let got = eventually("the strict one", || {
            let answer = fetch(strict);
            (answer.status == 200).then_some(answer.body)
        });
        assert!(got == **film && fetch(lax).body == **film);
    }
    server.wait_for_news();
    let bytes = films.len() as u64 * 4 * MIB as u64;
    assert_eq!(server.sum("edge_fetched_bytes_total"), bytes, "nothing came twice");
    origin.behave(Manner::Status(410, String::new()));
    eventually("a film to be gone", || (fetch(&films[0].0).status == 410).then_some(()));
}

#[test]
fn an_origin_has_sixty_four_requests_at_once_however_slow_their_bodies_are() {
    const FILMS: usize = 100;
    if !may_open(3 * FILMS) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let good = origin.put("/good", 1, 1000, LASTING);
    let asked = origin.put("/asked", 1, 1000, "Cache-Control: no-cache\r\n");
    let films: Vec<_> = (0..FILMS)
        .map(|number| {
            let path = format!("/film{number}");
            let film = origin.put(&path, 2 + number as u64, 2000, LASTING);
            (path, film)
        })
        .collect();
    let server = edge(&origin, cache.path(), "");
    assert!(Plain::connect(server.address).fetch("/good").body == *good);
    assert!(Plain::connect(server.address).fetch("/asked").body == *asked);
    origin.behave(Manner::Holds);
    let ask = |(path, film): &(String, _)| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask_with(path, "");
        (viewer, std::sync::Arc::clone(film))
    };
    let viewers: Vec<_> = films.iter().map(ask).collect();
    until("as many as may", || origin.count("/film") >= 64);
    // Six wait in the server: 30 questions of one client are under way, and 64 have been answered.
    until("the others to be asked for", || {
        server.wait_for_news();
        server.counter("edge_waiting") == FILMS as u64 - 64 - 30
    });
    assert!(
        Plain::connect(server.address).fetch("/good").body == *good,
        "a hit waits for no other request"
    );
    // The helper has checked the others, found no place, and continues: it answers questions that came after them.
    for _ in 0..20 {
        assert!(Plain::connect(server.address).fetch("/asked").body == *asked);
    }
    assert_eq!(origin.count("/film"), 64);
    origin.behave(Manner::Good);
    for (mut viewer, film) in viewers {
        assert!(viewer.answer().body == *film);
    }
    assert_eq!(origin.count("/film"), FILMS);
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
    // For a second, which may pass in between on a busy machine.
    until("it to be remembered", || {
        assert_eq!(viewer.fetch("/none").status, 404);
        let asked = origin.seen().len();
        assert_eq!(viewer.fetch("/none").status, 404);
        origin.seen().len() == asked
    });
    let asked = origin.seen().len();
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

#[test]
fn a_disk_that_another_program_fills_costs_a_few_cold_objects_and_not_all() {
    let cache = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(cache.path(), 24 << 10) else { return };
    let origin = Origin::start();
    let server = edge(&origin, disk.path(), "--cache-gib 1");
    for number in 0..12 {
        let path = format!("/film{number}");
        let bytes = origin.put(&path, number, MIB, LASTING);
        assert!(Plain::connect(server.address).fetch(&path).body == *bytes);
    }
    std::fs::write(disk.path().join("filler"), vec![0; 32 * MIB]).expect_err("the disk is full");
    let list = origin.put("/list", 50, 1000, "Cache-Control: no-store\r\n");
    let new = origin.put("/new", 51, MIB, LASTING);
    for (path, bytes) in [("/list", list), ("/new", new)] {
        // Blocks that viewers had a moment ago stay for three seconds. Until then there is no room.
        let got = eventually("room on the disk", || {
            let answer = Plain::connect(server.address).fetch(path);
            (answer.status == 200).then_some(answer.body)
        });
        assert!(got == *bytes, "{path}");
    }
    let files = std::fs::read_dir(disk.path().join("objects")).unwrap().flatten();
    let left = files.filter(|file| file.path().extension().is_none()).count();
    assert!(left >= 7, "{left} of 13 are left");
    let said = server.finish();
    assert!(!said.contains("os error"), "{said}");
}
