//! Names that the origin spells in another of Unicode's forms than viewers do. `serving` has the first request for each.

use crate::origin::{Manner, Origin};
use crate::{PATIENT, edge, launch};
use fullbore_tests::{Plain, Response, Server, eventually, tool, until};
use serde_json::Value;
use std::process::Command;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// "é", composed and decomposed.
const COMPOSED: &str = "%C3%A9";
const DECOMPOSED: &str = "e%CC%81";

fn fetch(server: &Server, path: &str) -> Response {
    Plain::connect(server.address).fetch(path)
}

/// Puts a film and a page at an origin that knows them decomposed, and fetches them by both spellings.
fn cached(origin: &Origin, server: &Server) -> [Vec<u8>; 2] {
    let contents = [("film", 1), ("page", 2)].map(|(name, version)| {
        let path = format!("/{name}-{DECOMPOSED}");
        let bytes = origin.put(&path, version, 1000, LASTING);
        if name == "page" {
            origin.change(&path, |object| object.etag = "W/\"weak\"".into());
        }
        bytes.to_vec()
    });
    assert_are(server, &contents);
    contents
}

#[track_caller]
fn assert_are(server: &Server, contents: &[Vec<u8>; 2]) {
    for spelling in [COMPOSED, DECOMPOSED] {
        for (name, bytes) in ["film", "page"].into_iter().zip(contents) {
            let answer = fetch(server, &format!("/{name}-{spelling}"));
            assert_eq!(answer.status, 200, "{name}-{spelling}: {}", answer.head);
            assert!(answer.body == *bytes, "{name}-{spelling}");
        }
    }
}

/// Waits until the edge asks the origin again about what wasn't there.
fn outlast_a_404(origin: &Origin, server: &Server) {
    fetch(server, "/none");
    let asked = origin.count("/none");
    until("the 404 to be over", || {
        fetch(server, "/none");
        origin.count("/none") > asked
    });
}

#[test]
fn what_is_cached_under_another_spelling_needs_no_origin() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 2");
    let contents = cached(&origin, &server);
    outlast_a_404(&origin, &server);
    let asked = || origin.count("/film-") + origin.count("/page-");
    let before = asked();
    for _ in 0..50 {
        assert_are(&server, &contents);
    }
    assert_eq!(asked(), before, "a flood of both stays here");
    origin.behave(Manner::Gone);
    outlast_a_404(&origin, &server);
    assert_are(&server, &contents);
    assert_eq!(asked(), before);
}

#[test]
fn a_film_under_another_spelling_is_found_after_a_restart_without_the_origin() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let [film, _] = cached(&origin, &server);
    server.kill();
    origin.behave(Manner::Gone);
    let server = edge(&origin, cache.path(), "");
    for spelling in [COMPOSED, DECOMPOSED] {
        let answer = fetch(&server, &format!("/film-{spelling}"));
        assert!(answer.status == 200 && answer.body == film, "{spelling}: {}", answer.head);
    }
    assert_eq!(fetch(&server, &format!("/other-{COMPOSED}")).status, 502);
}

#[test]
fn names_that_compose_to_ascii_are_fetched_as_they_are_written() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    // The sign for kelvin, Greek's question mark, its varia.
    for (version, name) in (1..).zip(["%E2%84%AA", "%CD%BE", "%E1%BF%AF"]) {
        let bytes = origin.put(&format!("/{name}"), version, 1000, LASTING);
        for _ in 0..2 {
            let answer = fetch(&server, &format!("/{name}"));
            assert!(answer.status == 200 && answer.body == *bytes, "{name}: {}", answer.head);
        }
    }
}

#[test]
fn rules_and_figures_are_of_the_composed_path() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!(
        "{PATIENT}[[http.headers]]\npath = \"/films/\u{e9}/*\"\nfields = {{ X-From = \"the edge\" }}\n"
    );
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    for (name, version) in [("film.mp4", 1), ("page.m3u8", 2)] {
        let path = format!("/films/{DECOMPOSED}/{name}");
        origin.put(&path, version, 1000, LASTING);
        if name == "page.m3u8" {
            origin.change(&path, |object| object.etag = "W/\"weak\"".into());
        }
        for spelling in [COMPOSED, DECOMPOSED] {
            let path = format!("/films/{spelling}/{name}?CMCD=ot%3Dv%2Csid%3D%22a%22%2Cd%3D2000");
            let answer = fetch(&server, &path);
            assert_eq!(answer.status, 200, "{path}");
            assert!(answer.head.contains("X-From: the edge\r\n"), "{path}: {}", answer.head);
        }
    }
    let status = eventually("four reports", || {
        let (_, text) = server.admin_page("/status.json");
        let status: Value = serde_json::from_str(&text).unwrap();
        (status["qoe"]["all"]["reports_total"] == 4).then_some(status)
    });
    let titles = status["qoe"]["titles"].as_array().unwrap();
    let names: Vec<_> = titles.iter().map(|title| title["title"].as_str().unwrap()).collect();
    assert_eq!(names, ["films/\u{e9}"], "as the bytes are counted");
}

#[test]
fn a_purge_by_any_spelling_finds_what_is_stored_under_another() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    // The origin's 404 for the composed name may be stored, too.
    let purge = |words: &str, films: u64, pages: u64| {
        let mut command = Command::new(fullbore_tests::program());
        command.args(["edge", "purge", "--json", "--socket"]);
        command.arg(server.state.join("upgrade-127.0.0.1:0.sock")).args(words.split_whitespace());
        let ran = tool::run(&mut command);
        assert!(ran.success, "{words}: {}", ran.stderr);
        let done: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(done["films"].as_u64(), Some(films), "{words}");
        assert!(done["responses"].as_u64().unwrap() >= pages, "{words}: {done}");
    };
    let varying = format!("{LASTING}Vary: Accept-Language\r\n");
    let store = || {
        origin.put(&format!("/f/{DECOMPOSED}/film"), 1, 1000, LASTING);
        let page = format!("/f/{DECOMPOSED}/page");
        origin.put(&page, 2, 1000, &varying);
        assert_eq!(fetch(&server, &format!("/f/{COMPOSED}/film")).status, 200);
        for language in ["en", "de"] {
            let line = format!("Accept-Language: {language}\r\n");
            until("it to be stored", || {
                let path = format!("/f/{COMPOSED}/page");
                Plain::connect(server.address)
                    .fetch_with(&path, &line)
                    .head
                    .contains("fullbore; hit")
            });
        }
    };
    for spelling in [COMPOSED, DECOMPOSED] {
        store();
        purge(&server.url_of(&format!("f/{spelling}/film")), 1, 0);
        purge(&format!("//f//{spelling}/page"), 0, 2);
        store();
        purge(&format!("--prefix /f/{spelling}/"), 1, 2);
    }
    // The operator has replaced the file by one with a composed name, and not removed the other.
    store();
    let replaced = origin.put(&format!("/f/{COMPOSED}/film"), 3, 1000, LASTING);
    purge(&format!("/f/{COMPOSED}/film"), 1, 0);
    assert!(fetch(&server, &format!("/f/{DECOMPOSED}/film")).body == *replaced);
}

#[test]
fn a_change_of_any_spelling_makes_the_others_invalid() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    for (version, is_film) in [(1, true), (3, false)] {
        let path = format!("/{version}-{DECOMPOSED}");
        let put = |version| {
            let bytes = origin.put(&path, version, 1000, LASTING);
            if !is_film {
                origin.change(&path, |object| object.etag = format!("W/\"v{version}\""));
            }
            bytes
        };
        let before = put(version);
        let asked = format!("/{version}-{COMPOSED}");
        assert!(viewer.fetch(&asked).body == *before);
        let after = put(version + 1);
        assert!(viewer.fetch(&asked).body == *before, "it lasts");
        origin.put("/change", 9, 10, &format!("Content-Location: {asked}\r\n"));
        viewer.ask_by("POST", "/change", "Content-Length: 0\r\n");
        assert_eq!(viewer.answer().status, 200);
        assert!(viewer.fetch(&asked).body == *after, "a film: {is_film}");
        // A request for the path itself goes to the spelling that the origin has.
        viewer.ask_by("POST", &asked, "Content-Length: 0\r\n");
        assert_eq!(viewer.answer().status, 200);
        assert_eq!(origin.seen().last().unwrap().path, path);
    }
}
