//! Answers that must not be kept: fetched for each viewer separately, and passed through.

use crate::origin::{Manner, Origin};
use crate::{edge, launch};
use fullbore_tests::{Plain, eventually};
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
        "Vary: Cookie\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/a{number}");
        let bytes = origin.put(&path, number as u64, 100_000, lines);
        let asked = origin.seen().len();
        let mut viewer = Plain::connect(server.address);
        for _ in 0..3 {
            let answer =
                viewer.fetch_with(&path, "Cookie: mine=1\r\nAuthorization: Basic eA==\r\n");
            assert!(answer.status == 200 && answer.body == *bytes, "{lines}: {}", answer.head);
            assert!(answer.head.contains("Cache-Control: no-store\r\n"), "{}", answer.head);
            assert!(!answer.head.contains("Set-Cookie"), "{}", answer.head);
        }
        let part = viewer.fetch_with(&path, "Range: bytes=50000-50009\r\n");
        assert_eq!((part.status, &part.body[..]), (206, &bytes[50_000..50_010]));
        let news = &origin.seen()[asked..];
        assert_eq!(news.len(), 5, "one to learn that, and one for each answer: {news:?}");
        assert!(news.iter().all(|seen| !seen.head.contains("mine=1")), "{news:?}");
        assert!(news.iter().all(|seen| !seen.head.contains("eA==")), "{news:?}");
    }
    assert_eq!(kept(cache.path()), 0, "something was kept");
    server.wait_for_counter("edge_lookups_total{result=\"passed\"}", 16);
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
fn objects_without_a_version_or_a_length_are_passed_too_unless_they_are_large() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let weak = origin.put("/weak", 1, 2000, "");
    origin.change("/weak", |object| object.etag = "W/\"v1\"".into());
    assert!(viewer.fetch("/weak").body == *weak);
    let coded = "Content-Encoding: gzip\r\n";
    origin.put("/coded", 3, 1000, coded);
    assert_eq!(viewer.fetch("/coded").status, 502, "it would be taken for something else");
    origin.put("/huge", 4, (16 << 20) + 1, "Cache-Control: no-store\r\n");
    assert_eq!(viewer.fetch("/huge").status, 502);
    // The edge remembers that for ten seconds, and the origin doesn't send it again in vain.
    let asked = origin.seen().len();
    for _ in 0..3 {
        assert_eq!(viewer.fetch("/huge").status, 502);
    }
    assert_eq!(origin.seen().len(), asked, "{:?}", &origin.seen()[asked..]);
    let live = origin.put("/live", 5, 3000, "");
    origin.behave(Manner::Chunked);
    assert!(viewer.fetch("/live").body == *live);
    origin.behave(Manner::Breaks(100));
    assert_eq!(viewer.fetch("/live").status, 502, "half of it is not passed");
    assert_eq!(kept(cache.path()), 0, "something was kept");
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
    // The edge remembers for ten seconds that it must not be kept.
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
        ("/private.mp4", "Cache-Control: private\r\n", "no-store"),
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
