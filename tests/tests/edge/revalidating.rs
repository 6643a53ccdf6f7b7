//! What is stored is confirmed, replaced or withdrawn by the origin, and not by what one viewer happens to send.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge, launch_at};
use fullbore_tests::{Plain, until};
use std::sync::Arc;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// Puts a response there that is stored whole.
fn put_page(origin: &Origin, path: &str, version: u64, lines: &str) -> Arc<Vec<u8>> {
    let bytes = origin.put(path, version, 1000, lines);
    origin.change(path, |object| object.etag = format!("W/\"v{version}\""));
    bytes
}

#[test]
fn one_viewers_header_fields_do_not_decide_about_a_film_for_all() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 3 * MIB, "Cache-Control: max-age=0\r\n");
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/film").body == *film);
    for (manner, line) in [
        (Manner::VariesByOrigin, "Origin: https://page.example\r\n"),
        (Manner::Refuses("user-agent: sqlmap"), "User-Agent: sqlmap\r\n"),
    ] {
        origin.behave(manner);
        let asked = origin.seen().len();
        let answer = Plain::connect(server.address).fetch_with("/film", line);
        assert!(answer.status == 200 && answer.body == *film, "{line}: {}", answer.head);
        assert!(viewer.fetch("/film").body == *film, "{line}");
        let news = &origin.seen()[asked..];
        assert!(news.iter().all(|seen| seen.head.contains("if-none-match: ")), "{news:?}");
        assert_eq!(news.len(), 2, "a question each: {news:?}");
    }
}

#[test]
fn a_refusal_of_one_viewer_is_not_remembered_for_others() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 1000, LASTING);
    origin.behave(Manner::Refuses("user-agent: sqlmap"));
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch_with("/film", "User-Agent: sqlmap\r\n").status, 403);
    assert!(viewer.fetch("/film").body == *film);
    let asked = origin.count("/film");
    assert!(viewer.fetch("/film").body == *film);
    assert_eq!(origin.count("/film"), asked, "it was not kept");
}

#[test]
fn who_shares_the_question_of_a_refused_viewer_asks_again() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 1");
    let film = origin.put("/film", 1, 3 * MIB, LASTING);
    origin.behave(Manner::Withholds("/film"));
    let mut refused = Plain::connect(server.address);
    refused.ask_with("/film", "User-Agent: sqlmap\r\n");
    until("the origin to be asked", || origin.count("/film") == 1);
    let mut others: Vec<_> = (0..5).map(|_| Plain::connect(server.address)).collect();
    others.iter_mut().for_each(|viewer| viewer.ask("/film"));
    // The worker has their requests once it has answered a later one.
    assert_eq!(Plain::connect(server.address).fetch("/nothing").status, 404);
    origin.behave(Manner::Refuses("user-agent: sqlmap"));
    assert_eq!(refused.answer().status, 403);
    for mut viewer in others {
        let answer = viewer.answer();
        assert!(answer.status == 200 && answer.body == *film, "{}", answer.head);
    }
    // One question was refused, one found the film, and its other blocks were fetched once.
    let asked: Vec<_> = origin.seen().into_iter().filter(|seen| seen.path == "/film").collect();
    let first = asked.iter().filter(|seen| seen.range == Some((0, MIB as u64 - 1))).count();
    assert!(first == 2 && asked.iter().all(|seen| seen.range.is_some()), "{asked:?}");
}

#[test]
fn a_refusal_of_one_viewer_leaves_a_stored_page_to_be_confirmed() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let page = put_page(&origin, "/page", 1, "Cache-Control: max-age=0\r\n");
    let fetch = |line: &str| Plain::connect(server.address).fetch_with("/page", line);
    assert!(fetch("").body == *page);
    origin.behave(Manner::Refuses("user-agent: sqlmap"));
    assert_eq!(fetch("User-Agent: sqlmap\r\n").status, 403);
    origin.behave(Manner::Gone);
    assert_eq!(fetch("").status, 502, "the origin's last word on it is a refusal");
    origin.behave(Manner::Good);
    assert!(fetch("").body == *page);
    let last = origin.seen().pop().unwrap().head;
    assert!(last.contains("if-none-match: "), "all of it was fetched again: {last}");
    origin.behave(Manner::Gone);
    assert!(fetch("").body == *page, "it is as good as before");
}

#[test]
fn a_confirmation_that_nobody_asked_for_is_no_answer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Status(304, "ETag: \"v1\"\r\n".into()));
    for line in ["", "Authorization: Basic YQ==\r\n"] {
        let answer = Plain::connect(server.address).fetch_with("/page", line);
        assert_eq!(answer.status, 502, "{line}: {}", answer.head);
    }
}

#[test]
fn a_film_is_one_for_browsers_too() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 1000, LASTING);
    origin.behave(Manner::VariesByOrigin);
    for page in ["https://a.example", "https://b.example"] {
        let line = format!("Origin: {page}\r\n");
        let answer = Plain::connect(server.address).fetch_with("/film", &line);
        assert!(answer.status == 200 && answer.body == *film, "{}", answer.head);
        assert!(answer.head.contains("Access-Control-Allow-Origin: *\r\n"), "{}", answer.head);
    }
    assert_eq!(origin.count("/film"), 1, "the second page got what the first one had asked for");
}

#[test]
fn a_head_request_confirms_nothing_that_has_no_validator() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    origin.behave(Manner::Chunked);
    let first = origin.put("/list", 1, 1000, "Cache-Control: max-age=0\r\n");
    assert!(viewer.fetch("/list").body == *first);
    let second = origin.put("/list", 2, 1000, LASTING);
    viewer.ask_by("HEAD", "/list", "");
    assert_eq!(viewer.head().0, 200);
    assert!(viewer.fetch("/list").body == *second, "the old one is fresh again");
}

#[test]
fn what_the_origin_no_longer_gives_to_all_is_not_served_while_it_is_revalidated() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for (number, lines) in
        ["Cache-Control: private\r\n", "Cache-Control: no-store\r\n"].into_iter().enumerate()
    {
        let path = format!("/page{number}");
        let lax = "Cache-Control: max-age=0, stale-while-revalidate=86400\r\n";
        let first = put_page(&origin, &path, 1, lax);
        assert!(viewer.fetch(&path).body == *first);
        let second = put_page(&origin, &path, 2, lines);
        until("the old one to be gone", || viewer.fetch(&path).body == *second);
    }
    let lax = "Cache-Control: max-age=0, stale-while-revalidate=86400\r\n";
    put_page(&origin, "/withdrawn", 1, lax);
    assert_eq!(viewer.fetch("/withdrawn").status, 200);
    origin.behave(Manner::Status(403, String::new()));
    until("the old one to be gone", || viewer.fetch("/withdrawn").status == 403);
}

#[test]
fn a_film_is_served_while_it_is_revalidated_if_the_origin_allows_it() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let lines = "Cache-Control: max-age=0, stale-while-revalidate=3600\r\n";
    let first = origin.put("/film", 1, MIB, lines);
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/film").body == *first);
    let asked = origin.count("/film");
    origin.behave(Manner::Withholds("/film"));
    // Its origin doesn't answer, so a viewer who waits for it gets an error.
    for _ in 0..3 {
        assert!(viewer.fetch("/film").body == *first);
    }
    until("the origin to be asked", || origin.count("/film") > asked);
    let second = origin.put("/film", 2, MIB, lines);
    origin.behave(Manner::Good);
    until("the next version", || viewer.fetch("/film").body == *second);
}

#[test]
fn an_error_of_the_origin_is_passed_on_unless_the_origin_allows_a_stale_page() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let status = |path: &str| Plain::connect(server.address).fetch(path).status;
    put_page(&origin, "/plain", 1, "Cache-Control: max-age=0\r\n");
    put_page(&origin, "/lax", 1, "Cache-Control: max-age=0, stale-if-error=600\r\n");
    assert_eq!((status("/plain"), status("/lax")), (200, 200));
    for (error, lax) in [(500, 200), (503, 200), (429, 429)] {
        origin.behave(Manner::Status(error, String::new()));
        assert_eq!((status("/plain"), status("/lax")), (error, lax));
    }
    origin.behave(Manner::Status(404, "Cache-Control: max-age=0\r\n".into()));
    assert_eq!(status("/segment"), 404);
    origin.behave(Manner::Gone);
    assert_eq!(status("/plain"), 200, "the origin gives no answer");
    assert_eq!(status("/segment"), 502, "players give up on a 404");
}

#[test]
fn what_is_deleted_from_a_bucket_is_not_served_any_more() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bucket = format!("s3://films?endpoint={}", origin.url());
    let server = launch_at(&bucket, cache.path()).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let page = put_page(&origin, "/films/page", 1, "Cache-Control: max-age=0\r\n");
    assert!(viewer.fetch("/page").body == *page);
    assert!(viewer.fetch("/page").body == *page);
    let seen = origin.seen();
    let last = seen.iter().rfind(|seen| seen.path == "/films/page").unwrap();
    assert!(last.head.contains("if-none-match: "), "all of it was fetched again: {last:?}");
    origin.behave(Manner::Status(404, String::new()));
    assert_eq!(viewer.fetch("/page").status, 404);
    origin.behave(Manner::Gone);
    assert_eq!(viewer.fetch("/page").status, 502, "it is gone for good");
}
