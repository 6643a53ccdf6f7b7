//! `fullbore edge why` and `fullbore edge ls`: what is kept, until when, and why not.

use crate::origin::{Manner, Origin};
use crate::purging::{purge, run_edge};
use crate::{MIB, edge};
use fullbore_tests::{Plain, Server, program, tool, until};
use serde_json::Value;
use std::process::Command;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

fn fetch(server: &Server, path: &str, lines: &str) -> fullbore_tests::Response {
    Plain::connect(server.address).fetch_with(path, lines)
}

fn document(server: &Server, words: &str) -> Value {
    let ran = run_edge(server, &format!("{words} --json"));
    assert!(ran.success, "{words}: {}", ran.stderr);
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The latest reason why nothing is kept.
fn reason(server: &Server, url: &str) -> String {
    let document = document(server, &format!("why {url}"));
    assert_eq!(document["paths"], serde_json::json!([]), "{url}: {document}");
    document["last_reason"]["why"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn what_is_kept_is_shown_with_its_part_its_time_its_tags_and_its_variants() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/films/a", 1, 3 * MIB, &format!("{LASTING}Surrogate-Key: film-7 all\r\n"));
    let varied = "Cache-Control: max-age=60, stale-if-error=30\r\nVary: Accept-Language\r\n";
    origin.put("/films/page?x=1", 2, 1000, varied);
    assert_eq!(fetch(&server, "/films/a", "Range: bytes=0-9\r\n").status, 206);
    for language in ["de", "en"] {
        fetch(&server, "/films/page?x=1", &format!("Accept-Language: {language}\r\n"));
    }
    let film = document(&server, &format!("why {}", server.url_of("films/a?CMCD=x")));
    let film = &film["paths"][0]["copies"][0];
    assert_eq!((&film["kind"], &film["version"]), (&"film".into(), &"\"v1\"".into()), "{film}");
    assert_eq!((&film["bytes"], &film["present_bytes"]), (&(3 * MIB).into(), &MIB.into()));
    assert_eq!(film["tags"], serde_json::json!(["all", "film-7"]));
    let fresh = film["fresh_seconds"].as_u64().unwrap();
    assert!((3000..=3600).contains(&fresh) && film["usable_seconds"].as_u64().unwrap() > fresh);
    until("its use to be reported", || {
        let film = document(&server, "why /films/a");
        film["paths"][0]["copies"][0]["used_seconds_ago"].is_u64()
    });
    let page = document(&server, "why /films/page?x=1");
    let page = &page["paths"][0]["copies"];
    let languages: Vec<_> =
        (0..2).map(|one| page[one]["selected_by"]["accept-language"].clone()).collect();
    assert_eq!(languages, ["de", "en"], "{page}");
    assert_eq!((&page[0]["kind"], &page[0]["status"]), (&"response".into(), &200.into()));
    assert!((1..=90).contains(&page[0]["usable_seconds"].as_u64().unwrap()), "{page}");
    let text = String::from_utf8(run_edge(&server, "why /films/a").stdout).unwrap();
    assert!(text.contains("film: 1.0 MiB of 3.0 MiB present, version \"v1\""), "{text}");
    assert!(text.contains("fresh for ") && text.contains("tags: all film-7"), "{text}");
}

#[test]
fn why_nothing_is_kept_is_said() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    // 16 MiB.
    let server = edge(&origin, cache.path(), "--cache-gib 0.015625");
    assert_eq!(reason(&server, "/never"), "none");
    let text = String::from_utf8(run_edge(&server, "why /never").stdout).unwrap();
    assert!(text.contains("no viewer has requested it"), "{text}");
    for (path, lines, request, said) in [
        ("/no-store", "Cache-Control: no-store\r\n", "", "no-store"),
        ("/private", "Cache-Control: private\r\n", "", "private"),
        ("/any", "Vary: *\r\n", "", "Vary: *"),
        ("/cookie", "Set-Cookie: a=b\r\n", "", "it sets a cookie"),
        ("/mine", LASTING, "Authorization: Basic YQ==\r\n", "Authorization"),
    ] {
        origin.put(path, 1, 1000, lines);
        origin.change(path, |object| object.etag = "W/\"v1\"".into());
        assert_eq!(fetch(&server, path, request).status, 200);
        let why = reason(&server, path);
        assert!(why.contains(said) && why.contains("status 200"), "{path}: {why}");
    }
    origin.put("/large", 2, 9 * MIB, LASTING);
    origin.change("/large", |object| object.etag = "W/\"v2\"".into());
    assert_eq!(fetch(&server, "/large", "").status, 200);
    assert!(reason(&server, "/large").contains("half of the cache"));
    origin.put("/huge", 3, 17 * MIB, LASTING);
    // It is passed on.
    assert_eq!(fetch(&server, "/huge", "").status, 200);
    let why = reason(&server, "/huge");
    assert!(why.contains("more than the cache has"), "{why}");
    origin.put("/purged", 4, 1000, LASTING);
    assert_eq!(fetch(&server, "/purged", "").status, 200);
    assert_eq!(purge(&server, "/purged"), (1, 0));
    assert_eq!(reason(&server, "/purged"), "it was purged");
    origin.behave(Manner::Status(500, String::new()));
    assert_eq!(fetch(&server, "/error", "").status, 500);
    assert!(reason(&server, "/error").contains("status 500"), "{}", reason(&server, "/error"));
}

#[test]
fn what_was_evicted_says_so() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--cache-gib 0.015625");
    for path in ["/first", "/second", "/third"] {
        origin.put(path, 1, 7 * MIB, LASTING);
        // Blocks that viewers had a moment ago stay for three seconds. Until then there is no room.
        until("room in the cache", || fetch(&server, path, "").status == 200);
    }
    let gone = ["/first", "/second"]
        .into_iter()
        .find(|path| document(&server, &format!("why {path}"))["paths"] == serde_json::json!([]));
    let why = reason(&server, gone.expect("one of the two had to go"));
    assert!(why.contains("evicted"), "{why}");
}

#[test]
fn a_list_comes_in_pages_and_is_bounded() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for number in 0..130 {
        let path = format!("/films/{number:03}");
        origin.put(&path, number, 10, LASTING);
        if number % 2 == 0 {
            origin.change(&path, |object| object.etag = "W/\"v\"".into());
        }
        assert_eq!(viewer.fetch(&path).status, 200);
    }
    origin.put("/other", 1, 10, LASTING);
    viewer.fetch("/other");
    let paths = |words: &str| {
        let list = document(&server, words);
        let paths = list["paths"].as_array().unwrap().iter();
        let paths: Vec<_> = paths.map(|one| one["path"].as_str().unwrap().to_owned()).collect();
        (paths, list["has_more"].as_bool().unwrap())
    };
    let all: Vec<String> = (0..130).map(|number| format!("/films/{number:03}")).collect();
    let is_whole = || document(&server, "ls")["is_incomplete"] == false;
    until("all of it to be found", is_whole);
    assert_eq!(paths("ls /films/"), (all.clone(), false));
    assert_eq!(paths("ls").0.len(), 131);
    assert_eq!(paths("ls /films/ --limit 120"), (all[..120].to_vec(), true));
    assert_eq!(paths("ls /films/ --after /films/119"), (all[120..].to_vec(), false));
    assert_eq!(paths("ls /none"), (vec![], false));
    let ran = run_edge(&server, "ls /films/00 --limit 3");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(ran.stderr.contains("--after '/films/002'"), "{}", ran.stderr);
}

#[test]
fn a_question_that_cannot_be_answered_says_why() {
    let (origin, cache, library) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for words in ["why", "why /a /b", "ls --limit 0"] {
        assert_eq!(run_edge(&server, words).code, Some(2), "{words}");
    }
    let ran = run_edge(&server, "why films/a.mp4");
    assert!(ran.code == Some(1) && ran.stderr.contains("write a URL such as"), "{}", ran.stderr);
    let plain = Server::start(library.path(), "--tls off");
    for words in ["why /a", "ls"] {
        let ran = run_edge(&plain, words);
        assert!(ran.code == Some(1) && ran.stderr.contains("no caching edge"), "{}", ran.stderr);
    }
    let mut none = Command::new(program());
    let ran = tool::run(none.args(["edge", "ls", "--state"]).arg(library.path()));
    assert!(ran.code == Some(1) && ran.stderr.contains("--config"), "{}", ran.stderr);
}
