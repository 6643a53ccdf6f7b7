//! A request that changes something makes what is cached invalid, also what the origin was asked for before.

use crate::origin::{Manner, Origin};
use crate::{PATIENT, launch};
use fullbore_tests::{Plain, until};
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// The origin gets a request, then carries out a change, and then answers that request with what was there before: for films and whole
/// responses, with all of it and with a confirmation.
#[test]
fn an_answer_from_before_a_change_does_not_undo_it() {
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    for (number, (is_film, is_known)) in
        [(true, false), (true, true), (false, false), (false, true)].into_iter().enumerate()
    {
        let path = format!("/film{number}");
        let case = format!("a film: {is_film}, known: {is_known}");
        let put = |version: u64, lines: &str| {
            let bytes = origin.put(&path, version, 1000, lines);
            if !is_film {
                origin.change(&path, |object| object.etag = format!("W/\"v{version}\""));
            }
            bytes
        };
        let before = put(1, "Cache-Control: max-age=0\r\n");
        if is_known {
            assert!(viewer.fetch(&path).body == *before, "{case}");
        }
        put(1, LASTING);
        origin.behave(Manner::Withholds("/film"));
        let asked = origin.count(&path);
        let mut early = Plain::connect(server.address);
        early.ask(&path);
        until("the origin to have the request", || origin.count(&path) > asked);
        let after = put(2, LASTING);
        origin.put("/change", 3, 10, &format!("Content-Location: {path}\r\n"));
        viewer.ask_by("POST", "/change", "Content-Length: 0\r\n");
        assert_eq!(viewer.answer().status, 200, "{case}");
        // This one comes after the change, and finds the question about the path under way.
        let mut late = Plain::connect(server.address);
        late.ask(&path);
        origin.behave(Manner::Good);
        let early = early.answer();
        assert!(early.body == *before || early.body == *after, "{case}: {}", early.head);
        assert!(late.answer().body == *after, "{case}: it came after the change");
        assert!(viewer.fetch(&path).body == *after, "{case}: the change is undone");
    }
}

#[test]
fn the_response_to_a_change_is_kept_if_it_says_what_is_there_now() {
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let lines = "Cache-Control: max-age=3600\r\nContent-Location: /list\r\n";
    let list = origin.put("/list", 1, 1000, lines);
    origin.change("/list", |object| object.etag = "W/\"v1\"".into());
    viewer.ask_by("POST", "/list", "Content-Length: 0\r\n");
    assert!(viewer.answer().body == *list);
    assert!(viewer.fetch("/list").body == *list);
    assert_eq!(origin.count("/list"), 1, "the change made its own response invalid");
}

#[test]
fn the_response_to_a_change_that_made_something_is_not_what_is_there() {
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let lines = "Cache-Control: max-age=3600\r\nContent-Location: /list\r\n";
    origin.behave(Manner::Status(201, lines.into()));
    viewer.ask_by("POST", "/list", "Content-Length: 0\r\n");
    assert_eq!(viewer.answer().status, 201);
    let head = origin.seen().last().unwrap().head.clone();
    assert!(head.contains("content-length: 0\r\n"), "some servers say 411: {head}");
    origin.behave(Manner::Good);
    let list = origin.put("/list", 1, 1000, LASTING);
    let answer = viewer.fetch("/list");
    assert!(answer.status == 200 && answer.body == *list, "{}", answer.head);
}
