//! Responses that are no objects: passed through, each to its viewer, or stored whole as the origin allows.

use crate::origin::{Manner, Origin};
use crate::{MIB, PATIENT, edge, launch};
use fullbore_tests::{Plain, eventually, until};
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;

/// The files of passed or cached objects left in a cache.
fn kept(cache: &Path) -> usize {
    std::fs::read_dir(cache.join("objects")).unwrap().count()
}

#[test]
fn what_must_not_be_kept_is_passed_to_each_viewer_alone() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (number, lines) in [
        "Cache-Control: no-store\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Set-Cookie: session=of-one-viewer\r\n",
        "Vary: *\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/a{number}");
        let bytes = origin.put(&path, number as u64, 100_000, lines);
        let asked = origin.seen().len();
        let mut viewer = Plain::connect(server.address);
        for _ in 0..3 {
            let answer = viewer.fetch_with(&path, "Cookie: mine=1\r\n");
            assert!(answer.status == 200 && answer.body == *bytes, "{lines}: {}", answer.head);
            assert!(answer.head.contains(lines), "{}", answer.head);
        }
        let part = viewer.fetch_with(&path, "Range: bytes=50000-50009\r\n");
        assert_eq!((part.status, &part.body[..]), (206, &bytes[50_000..50_010]));
        let news = &origin.seen()[asked..];
        assert_eq!(news.len(), 4, "one for each answer: {news:?}");
        assert!(news.iter().all(|seen| !seen.head.contains("mine=1")), "{news:?}");
    }
    assert_eq!(kept(cache.path()), 0, "something was kept");
    server.wait_for_counter("edge_lookups_total{result=\"passed\"}", 16);
}

#[test]
fn a_password_travels_and_its_answer_is_for_its_viewer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/mine", 1, 1000, "Cache-Control: max-age=3600\r\n");
    origin.behave(Manner::Counted);
    let mut viewer = Plain::connect(server.address);
    let mut bodies: Vec<_> = ["Authorization: Basic YQ==\r\n", "Authorization: Basic Yg==\r\n", ""]
        .map(|line| viewer.fetch_with("/mine", line).body)
        .into();
    let seen = origin.seen();
    assert!(seen[0].head.contains("YQ==") && seen[1].head.contains("Yg=="), "{seen:?}");
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 3, "one viewer's answer went to another");
}

#[test]
fn where_cookies_travel_an_answer_to_one_is_for_its_viewer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}cookies = true\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    origin.put("/mine", 1, 1000, "Cache-Control: max-age=3600\r\n");
    origin.behave(Manner::Counted);
    let mut viewer = Plain::connect(server.address);
    let mut bodies: Vec<_> = ["Cookie: session=a\r\n", "Cookie: session=b\r\n", ""]
        .map(|line| viewer.fetch_with("/mine", line).body)
        .into();
    let seen = origin.seen();
    assert!(seen[0].head.contains("session=a") && seen[1].head.contains("session=b"), "{seen:?}");
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 3, "one viewer's answer went to another");
}

#[test]
fn two_viewers_at_once_never_get_the_same_answer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 2");
    origin.put("/list", 1, 1000, "Cache-Control: no-store\r\n");
    origin.behave(Manner::Counted);
    origin.delay(Duration::from_millis(50));
    let mut viewers: Vec<_> = (0..40).map(|_| Plain::connect(server.address)).collect();
    viewers.iter_mut().for_each(|viewer| viewer.ask("/list"));
    let answers = viewers.iter_mut().map(|viewer| viewer.answer().body);
    let mut answers: Vec<_> = answers.collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 40, "two viewers got the same answer");
}

#[test]
fn objects_without_a_version_or_a_length_and_large_ones_are_passed_too() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let weak = origin.put("/weak", 1, 2000, "");
    origin.change("/weak", |object| object.etag = "W/\"v1\"".into());
    assert!(viewer.fetch("/weak").body == *weak);
    let coded = origin.put("/coded", 3, 1000, "Content-Encoding: gzip\r\n");
    let answer = viewer.fetch("/coded");
    assert!(answer.body == *coded && answer.head.contains("Content-Encoding: gzip\r\n"));
    let huge = origin.put("/huge", 4, (17 << 20) + 1, "Cache-Control: no-store\r\n");
    for _ in 0..2 {
        let answer = viewer.fetch("/huge");
        assert!(answer.status == 200 && answer.body == *huge, "{}", answer.head);
    }
    let part = viewer.fetch_with("/huge", "Range: bytes=17000000-17000009\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &huge[17_000_000..17_000_010]));
    let live = origin.put("/live", 5, 3 << 20, "Cache-Control: no-store\r\n");
    origin.behave(Manner::Chunked);
    assert!(viewer.fetch("/live").body == *live);
    origin.put("/list", 6, 3000, "Cache-Control: no-store\r\n");
    origin.behave(Manner::Breaks(100));
    assert_eq!(viewer.fetch("/list").status, 502, "half of it is not passed");
}

#[test]
fn what_has_no_strong_tag_is_kept_as_the_origin_allows_and_asked_for_once() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 3 << 20, "Cache-Control: max-age=3600\r\nX-Own: 1\r\n");
    origin.change("/film", |object| object.etag = "W/\"v1\"".into());
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/film").body == *film);
    let cached = eventually("it to be stored", || {
        let answer = viewer.fetch("/film");
        assert!(answer.body == *film && answer.head.contains("X-Own: 1\r\n"), "{}", answer.head);
        answer.head.contains("Cache-Status: fullbore; hit").then_some(answer.head)
    });
    assert!(cached.contains("Age: "), "{cached}");
    let asked = origin.count("/film");
    let part = viewer.fetch_with("/film", "Range: bytes=-5\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &film[film.len() - 5..]));
    let condition = "If-None-Match: W/\"v1\"\r\n";
    assert_eq!(viewer.fetch_with("/film", condition).status, 304);
    assert_eq!(origin.count("/film"), asked, "the origin was asked again");
}

#[test]
fn what_may_be_kept_again_is_kept_again() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let first = origin.put("/film", 1, 1000, "Cache-Control: max-age=0\r\n");
    assert!(viewer.fetch("/film").body == *first);
    let second = origin.put("/film", 2, 1000, "Cache-Control: no-store\r\n");
    assert!(viewer.fetch("/film").body == *second, "not what was kept before");
    assert_eq!(kept(cache.path()), 0, "the older version is gone");
    let third = origin.put("/film", 3, 1000, "Cache-Control: max-age=3600\r\n");
    eventually("the film to be kept again", || {
        let answer = viewer.fetch("/film");
        assert!(answer.body == *third, "{}", answer.head);
        answer.head.contains("max-age=3600").then_some(())
    });
}

#[test]
fn the_operators_headers_are_added_and_what_the_origin_says_of_copies_stays() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = "[edge]\nsilent_seconds = 300.0\n[[http.headers]]\npath = \"*.mp4\"\n\
        cache_control = \"max-age=9\"\ncontent_type = \"video/x-own\"\nfields = { X-From = \"the edge\" }\n";
    let server = launch(&origin, cache.path()).config(config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    for (path, said, expected) in [
        ("/private.mp4", "Cache-Control: private\r\n", "private"),
        ("/long.mp4", "Cache-Control: max-age=3600\r\n", "max-age=3600"),
        ("/silent.mp4", "", "max-age=9"),
    ] {
        let bytes = origin.put(path, 1, 1000, said);
        let answer = viewer.fetch(path);
        assert!(answer.status == 200 && answer.body == *bytes, "{path}: {}", answer.head);
        let expected = format!("Cache-Control: {expected}\r\n");
        assert!(answer.head.contains(&expected), "{path}: {}", answer.head);
        assert!(answer.head.contains("X-From: the edge\r\n"), "{path}: {}", answer.head);
        assert!(answer.head.contains("Content-Type: video/x-own\r\n"), "{path}: {}", answer.head);
    }
}

#[test]
fn a_cookie_is_for_the_first_viewer_of_what_is_public() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (number, said) in ["public, max-age=3600", "s-maxage=3600"].into_iter().enumerate() {
        let path = format!("/list{number}");
        let lines = format!("Cache-Control: {said}\r\nSet-Cookie: session={{number}}\r\n");
        let list = origin.put(&path, 1, 1000, &lines);
        let first = Plain::connect(server.address).fetch(&path);
        assert!(first.body == *list && first.head.contains("Set-Cookie: session="), "{said}");
        let asked = origin.count(&path);
        let second = Plain::connect(server.address).fetch(&path);
        assert!(second.body == *list && !second.head.contains("Set-Cookie"), "{}", second.head);
        assert_eq!(origin.count(&path), asked, "{said}: it was not stored");
    }
}

#[test]
fn a_film_whose_blocks_only_some_viewers_may_have_is_passed_on() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 3 * MIB, "Cache-Control: max-age=3600\r\n");
    origin.behave(Manner::Requires("referer: https://page.example/"));
    let lines = "Referer: https://page.example/\r\nConnection: close\r\n";
    // The first answer brings one block, and the origin refuses the others.
    until("all of it to arrive", || {
        let mut viewer = Plain::connect(server.address);
        viewer.ask_with("/film", lines);
        viewer.rest().ends_with(&film)
    });
    assert_eq!(Plain::connect(server.address).fetch("/film").status, 403);
}

#[test]
fn a_request_that_only_the_cache_may_answer_does_not_reach_the_origin() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 1000, "Cache-Control: max-age=3600\r\n");
    let mut viewer = Plain::connect(server.address);
    let cached = "Cache-Control: only-if-cached\r\n";
    assert_eq!(viewer.fetch_with("/film", cached).status, 504);
    assert_eq!(origin.count("/film"), 0);
    assert!(viewer.fetch("/film").body == *film);
    assert!(viewer.fetch_with("/film", cached).body == *film);
}

#[test]
fn requests_in_a_loop_are_refused_and_all_of_them_name_this_cache() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 3 * MIB, "Cache-Control: max-age=3600\r\n");
    let mut viewer = Plain::connect(server.address);
    let loops = "CDN-Loop: fullbore\r\n".repeat(8);
    assert_eq!(viewer.fetch_with("/film", &loops).status, 502);
    assert_eq!(origin.count("/film"), 0);
    assert!(viewer.fetch("/film").body == *film, "that was one viewer's");
    let names_it = |head: &str| head.contains("via: 1.1 fullbore") && head.contains("cdn-loop: ");
    let seen = origin.seen();
    assert!(seen.len() > 1 && seen.iter().all(|seen| names_it(&seen.head)), "{seen:?}");
}
