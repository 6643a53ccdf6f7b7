//! Purges: by URL, prefix and tag, hard and soft, by the command and by PURGE requests.

use crate::origin::{Manner, Origin};
use crate::serving::helper;
use crate::{MIB, PATIENT, edge, launch};
use fullbore_tests::tool::Ran;
use fullbore_tests::{Plain, Server, Signal, program, tool, until};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;

/// The origin's file stays as it is.
const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// The edge's answer to a request of its own connection.
fn fetch(server: &Server, path: &str) -> fullbore_tests::Response {
    Plain::connect(server.address).fetch(path)
}

pub(crate) fn command(server: &Server, words: &str) -> Command {
    edge_command(server, &format!("purge {words}"))
}

fn edge_command(server: &Server, words: &str) -> Command {
    let mut command = Command::new(program());
    command.arg("edge").args(words.split_whitespace());
    command.arg("--socket").arg(server.state.join("upgrade-127.0.0.1:0.sock"));
    command
}

/// Runs `fullbore edge` with these words.
pub(crate) fn run_edge(server: &Server, words: &str) -> Ran {
    tool::run(&mut edge_command(server, words))
}

fn run(server: &Server, words: &str) -> Ran {
    tool::run(&mut command(server, words))
}

/// Purges by the command, and returns how many films and other responses it found.
pub(crate) fn purge(server: &Server, words: &str) -> (u64, u64) {
    let ran = run(server, &format!("{words} --json"));
    assert!(ran.success, "{words}: {}", ran.stderr);
    found(&ran.stdout)
}

fn found(document: &[u8]) -> (u64, u64) {
    let document: Value = serde_json::from_slice(document).unwrap();
    assert_eq!(document["kind"], "purge");
    (document["films"].as_u64().unwrap(), document["responses"].as_u64().unwrap())
}

/// The answer to a PURGE request.
fn request(server: &Server, target: &str, lines: &str) -> fullbore_tests::Response {
    let mut purger = Plain::connect(server.address);
    purger.ask_by("PURGE", target, lines);
    purger.answer()
}

/// Bytes that the files in a cache occupy.
fn occupied(cache: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(cache.join("objects")).unwrap().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

#[test]
fn a_purged_film_is_gone_at_once_with_its_blocks_and_no_other_is() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 2");
    origin.put("/films/a%20b.mp4", 1, 3 * MIB, LASTING);
    let other = origin.put("/films/a", 2, MIB, LASTING);
    let first = fetch(&server, "/films/a%20b.mp4");
    assert!(fetch(&server, "/films/a").body == *other && first.status == 200);
    let second = origin.put("/films/a%20b.mp4", 3, 2 * MIB, LASTING);
    assert!(fetch(&server, "/films/a%20b.mp4").body == first.body, "it lasts");
    assert!(occupied(cache.path()) >= 4 * MIB as u64);
    let url = server.url_of("films/a%20b.mp4?CMCD=of-a-viewer");
    assert_eq!(purge(&server, &url), (1, 0));
    assert!(occupied(cache.path()) < 2 * MIB as u64, "{}", occupied(cache.path()));
    let asked = origin.count("/films/a");
    for _ in 0..8 {
        assert!(fetch(&server, "/films/a%20b.mp4").body == *second, "by each worker");
    }
    assert!(fetch(&server, "/films/a").body == *other);
    assert_eq!(origin.count("/films/a"), asked + 2, "two blocks of one film");
    assert_eq!(purge(&server, "/films/none.mp4"), (0, 0));
    server.wait_for_counter("edge_purges_total{kind=\"url\"}", 2);
    server.wait_for_counter("edge_purged_total{kind=\"film\"}", 1);
    server.stderr.wait_for(": /films/a%20b.mp4: 1 film, 0 other responses");
    assert!(!server.said().contains("of-a-viewer"), "{}", server.said());
}

#[test]
fn a_purged_film_does_not_come_back_after_kill_9() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (path, version) in [("/gone/a", 1), ("/gone/b", 2), ("/kept", 3)] {
        let bytes = origin.put(path, version, MIB + 1, LASTING);
        assert!(fetch(&server, path).body == *bytes);
    }
    assert_eq!(purge(&server, "--prefix /gone/"), (2, 0));
    server.kill();
    origin.behave(Manner::Gone);
    let server = edge(&origin, cache.path(), "");
    assert_eq!(fetch(&server, "/kept").status, 200, "as long as the origin is down");
    assert_eq!((fetch(&server, "/gone/a").status, fetch(&server, "/gone/b").status), (502, 502));
}

#[test]
fn a_film_that_is_purged_under_its_viewers_is_never_mixed_with_the_next() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--workers 2");
    let first = origin.put("/film", 1, 12 * MIB, LASTING);
    let part = "Range: bytes=0-9\r\n";
    assert_eq!(Plain::connect(server.address).fetch_with("/film", part).body, first[..10]);
    // The first block is there, and the viewers wait for the second.
    origin.behave(Manner::Withholds("/film"));
    let begin = |_| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask("/film");
        let (status, head, length) = viewer.head();
        assert!(status == 200 && length == 12 * MIB && head.contains("\"v1\""), "{head}");
        viewer
    };
    let viewers: Vec<_> = (0..4).map(begin).collect();
    let second = origin.put("/film", 2, 12 * MIB, LASTING);
    assert_eq!(purge(&server, "/film"), (1, 0));
    origin.behave(Manner::Good);
    let answer = fetch(&server, "/film");
    assert!(answer.body == *second && answer.head.contains("\"v2\""), "{}", answer.head);
    for viewer in viewers {
        let bytes = viewer.rest();
        assert!(first.starts_with(&bytes) && bytes.len() < first.len(), "{} bytes", bytes.len());
    }
}

#[test]
fn a_viewer_who_gets_a_purged_film_that_is_whole_gets_it_to_the_end() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    // More than the socket takes at once.
    let first = origin.put("/film", 1, 24 * MIB, LASTING);
    assert!(fetch(&server, "/film").body == *first);
    let mut viewer = Plain::connect(server.address);
    viewer.ask("/film");
    let (_, _, length) = viewer.head();
    origin.put("/film", 2, MIB, LASTING);
    assert_eq!(purge(&server, "/film"), (1, 0));
    assert!(fetch(&server, "/film").head.contains("\"v2\""));
    assert!(viewer.body(length) == *first);
}

#[test]
fn all_variants_of_a_purged_response_are_gone() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let lines = format!("{LASTING}Vary: Accept-Language\r\nSurrogate-Key: pages menu\r\n");
    origin.put("/page?a=1", 1, 1000, &lines);
    let fetch = |language: &str| {
        let line = format!("Accept-Language: {language}\r\n");
        Plain::connect(server.address).fetch_with("/page?a=1", &line)
    };
    let stored = |language: &str| fetch(language).head.contains("fullbore; hit");
    let store = || {
        for language in ["en", "de"] {
            fetch(language);
            until("it to be stored", || stored(language));
        }
    };
    store();
    let asked = origin.count("/page");
    assert!(stored("en") && stored("de") && origin.count("/page") == asked);
    assert_eq!(purge(&server, "/page"), (0, 0), "that is another URL");
    assert_eq!(purge(&server, "/page?a=1"), (0, 2));
    assert!(!stored("en") && !stored("de") && origin.count("/page") == asked + 2);
    assert_eq!(purge(&server, "--prefix /pa"), (0, 2));
    store();
    assert!(!fetch("en").head.contains("menu"), "tags are not for viewers");
    assert_eq!(purge(&server, "--tag other --tag menu"), (0, 2));
    assert!(!stored("en"));
}

#[test]
fn a_soft_purge_has_a_film_revalidated_and_lets_it_be_stale_where_the_origin_does() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let lax = origin.put("/lax", 1, MIB, LASTING);
    let strict = origin.put("/strict", 2, MIB, "Cache-Control: max-age=3600, must-revalidate\r\n");
    assert!(fetch(&server, "/lax").body == *lax && fetch(&server, "/strict").body == *strict);
    let asked = origin.count("/");
    assert_eq!(purge(&server, "--prefix / --soft"), (2, 0));
    assert_eq!(fetch(&server, "/lax").status, 200);
    let seen = origin.seen();
    assert!(seen.len() == asked + 1, "{seen:?}");
    assert!(seen[asked].head.to_lowercase().contains("if-none-match: \"v1\""), "{seen:?}");
    assert_eq!(fetch(&server, "/lax").status, 200);
    assert_eq!(origin.count("/"), asked + 1, "it is fresh again");
    assert_eq!(purge(&server, "--prefix / --soft"), (2, 0));
    origin.behave(Manner::Gone);
    assert!(fetch(&server, "/lax").body == *lax, "for a day, by default");
    assert_eq!(fetch(&server, "/strict").status, 502);
    origin.behave(Manner::Good);
    let new = origin.put("/strict", 3, MIB, LASTING);
    // The refusal counts for a second.
    until("the origin to be asked again", || fetch(&server, "/strict").body == *new);
    server.wait_for_counter("edge_purges_total{kind=\"soft_prefix\"}", 2);
}

#[test]
fn a_soft_purge_of_a_response_allows_what_the_origin_allows_of_stale_ones() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (path, more) in [
        ("/soon", ", stale-while-revalidate=3600"),
        ("/late", ""),
        ("/strict", ", must-revalidate"),
    ] {
        origin.put(path, 1, 1000, &format!("Cache-Control: max-age=3600{more}\r\n"));
        origin.change(path, |object| object.etag = "W/\"v1\"".into());
        fetch(&server, path);
        until("it to be stored", || fetch(&server, path).head.contains("fullbore; hit"));
    }
    let asked = origin.count("/");
    assert_eq!(purge(&server, "--prefix / --soft"), (0, 3));
    assert!(fetch(&server, "/soon").head.contains("fullbore; hit"), "it is stale meanwhile");
    until("it to be revalidated", || origin.count("/soon") > 1);
    assert_eq!(fetch(&server, "/late").status, 200);
    until("each to be asked for once", || origin.count("/") == asked + 2);
    origin.behave(Manner::Gone);
    assert_eq!(purge(&server, "--prefix / --soft"), (0, 3));
    assert_eq!(fetch(&server, "/late").status, 200, "stale, because the origin is down");
    assert_eq!(fetch(&server, "/strict").status, 502);
}

#[test]
fn tags_are_found_again_after_a_restart_and_follow_the_origin() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let tagged = |tags: &str| format!("Cache-Control: no-cache\r\n{tags}\r\n");
    for (path, version, tags) in [
        ("/a", 1, "Surrogate-Key: film-1 season"),
        ("/b", 2, "Cache-Tag: film-2, season"),
        ("/c", 3, "Surrogate-Key: film-3"),
    ] {
        let bytes = origin.put(path, version, 1000, &tagged(tags));
        let answer = fetch(&server, path);
        assert!(answer.body == *bytes);
        let head = answer.head.to_lowercase();
        assert!(!head.contains("surrogate-key") && !head.contains("cache-tag"), "{head}");
    }
    origin.change("/c", |object| object.lines = tagged("Surrogate-Key: season"));
    assert_eq!(fetch(&server, "/c").status, 200, "the origin says 304, with other tags");
    server.kill();
    let server = edge(&origin, cache.path(), "");
    assert_eq!(purge(&server, "--tag film-3"), (0, 0), "that was its former tag");
    assert_eq!(purge(&server, "--tag film-1 --tag film-1"), (1, 0));
    assert_eq!(purge(&server, "--tag season"), (2, 0));
    assert_eq!(purge(&server, "--prefix /"), (0, 0));
}

#[test]
fn purge_requests_are_taken_from_configured_addresses_only() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let with = |from: &str| {
        let config = format!("{PATIENT}purge_from = [{from}]\n");
        launch(&origin, cache.path()).config(&config).arguments("--tls off").start()
    };
    origin.put("/films/a", 1, 1000, &format!("{LASTING}Surrogate-Key: x\r\n"));
    let server = with("");
    let answer = request(&server, "/films/a", "");
    assert!(answer.status == 405 && answer.head.contains("Allow: "), "{}", answer.head);
    server.finish();
    let server = with("\"192.0.2.0/24\"");
    fetch(&server, "/films/a");
    let answer = request(&server, "/films/a", "");
    let said = String::from_utf8(answer.body).unwrap();
    assert!(answer.status == 403 && said.contains("edge.purge_from"), "{said}");
    server.wait_for_counter("requests_refused_total{reason=\"edge_purge_denied\"}", 1);
    server.finish();
    let server = with("\"127.0.0.0/8\", \"::1\"");
    let curl = |words: &str, target: &str| {
        fetch(&server, "/films/a");
        let mut command = tool::command("curl");
        command.args(["--silent", "--show-error", "--fail", "-X", "PURGE"]);
        let ran = tool::run(command.args(words.split_whitespace()).arg(server.url_of(target)));
        assert!(ran.success, "{words} {target}: {}", ran.stderr);
        found(&ran.stdout)
    };
    assert_eq!(curl("", "films/a"), (1, 0));
    assert_eq!(curl("", "films/b"), (0, 0));
    assert_eq!(curl("", "films/*"), (1, 0));
    assert_eq!(curl("--header Surrogate-Key:x", ""), (1, 0));
    assert_eq!(curl("--header xkey-softpurge:x", ""), (1, 0));
    assert_eq!(curl("--header Fastly-Soft-Purge:1", "films/a"), (1, 0));
    assert_eq!(request(&server, "/films/%zz", "").status, 400);
    server.stderr.wait_for("purged by 127.0.0.1: tags x");
    server.wait_for_counter("edge_purges_total{kind=\"tag\"}", 1);
}

#[test]
fn a_purge_is_done_although_its_helper_dies() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/film", 1, 1000, LASTING);
    assert_eq!(fetch(&server, "/film").status, 200);
    let second = origin.put("/film", 2, 1000, LASTING);
    let process = Pid::from_raw(helper(&server) as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let mut command = command(&server, "/film");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("purged: 1 film, 0 other responses"), "{said} {output:?}");
    assert!(fetch(&server, "/film").body == *second);
}

#[test]
fn a_purge_that_cannot_be_done_says_why() {
    let (origin, cache, library) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let ran = run(&server, "films/a.mp4");
    assert!(ran.code == Some(1) && ran.stderr.contains("write a URL such as"), "{}", ran.stderr);
    for words in ["", "/a --tag b", "--prefix"] {
        assert_eq!(run(&server, words).code, Some(2), "{words}");
    }
    let plain = Server::start(library.path(), "--tls off");
    let ran = run(&plain, "/a");
    assert!(ran.code == Some(1) && ran.stderr.contains("no caching edge"), "{}", ran.stderr);
    let mut none = Command::new(program());
    let ran = tool::run(none.args(["edge", "purge", "/a", "--state"]).arg(library.path()));
    assert!(ran.code == Some(1) && ran.stderr.contains("--config"), "{}", ran.stderr);
}

#[test]
fn what_is_under_way_during_a_purge_is_not_kept() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    for (number, etag, words) in [
        (1, "\"v\"", "/item1"),
        (2, "\"v\"", "--prefix /item2"),
        (3, "\"v\"", "--tag x"),
        (4, "W/\"v\"", "/item4"),
        (5, "W/\"v\"", "--tag x"),
    ] {
        let path = format!("/item{number}");
        let put = |version: u64| {
            let lines = format!("{LASTING}Cache-Tag: x\r\n");
            let bytes = origin.put(&path, version, 2000, &lines);
            // The same tag: only a purge can tell the two apart.
            origin.change(&path, |object| object.etag = etag.into());
            bytes
        };
        put(2 * number);
        origin.behave(Manner::Withholds("/item"));
        let mut viewer = Plain::connect(server.address);
        viewer.ask(&path);
        until("the origin to be asked", || origin.count(&path) == 1);
        let second = put(2 * number + 1);
        purge(&server, words);
        origin.behave(Manner::Good);
        assert_eq!(viewer.answer().status, 200, "{path}");
        assert!(fetch(&server, &path).body == *second, "{path}: of before the purge");
    }
}

/// A purge of each kind, by a command and by a request, and what the log of purges says of each.
#[test]
fn the_latest_purges_are_shown_with_who_asked_for_them_and_what_they_found() {
    let (origin, cache, library) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let server = launch(&origin, cache.path())
        .config(&format!("{PATIENT}purge_from = [\"127.0.0.1\"]\n"))
        .arguments("--tls off")
        .start();
    let document = || {
        let ran = run_edge(&server, "purges --json");
        assert!(ran.success, "{}", ran.stderr);
        serde_json::from_slice::<Value>(&ran.stdout).unwrap()["purges"].clone()
    };
    assert_eq!(document(), serde_json::json!([]));
    origin.put("/films/a?key=secret", 1, 1000, &format!("{LASTING}Cache-Tag: x\r\n"));
    assert_eq!(fetch(&server, "/films/a?key=secret").status, 200);
    assert_eq!(purge(&server, "--soft --tag x --tag y"), (1, 0));
    assert_eq!(request(&server, "/films/a?key=secret", "").status, 200);
    assert_eq!(purge(&server, "--prefix /films/"), (0, 0));
    let purges = document();
    let shown = |number: usize| {
        let one = &purges[number];
        let by = one["by"].as_str().unwrap().split(' ').next().unwrap().to_owned();
        assert!(one["at"].as_u64().unwrap() > 1_700_000_000, "{one}");
        (by, one["kind"].clone(), one["soft"].clone(), one["what"].clone(), one["films"].clone())
    };
    assert_eq!(purges.as_array().unwrap().len(), 3, "{purges}");
    let expected = [
        ("process", "prefix", false, "/films/", 0),
        ("127.0.0.1", "url", false, "/films/a?...", 1),
        ("process", "tag", true, "x y", 1),
    ];
    for (number, (by, kind, soft, what, films)) in expected.into_iter().enumerate() {
        let expected = (by.to_owned(), kind.into(), soft.into(), what.into(), films.into());
        assert_eq!(shown(number), expected, "{purges}");
    }
    let text = String::from_utf8(run_edge(&server, "purges").stdout).unwrap();
    assert!(text.lines().count() == 4 && text.contains("soft tag"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    let plain = Server::start(library.path(), "--tls off");
    let ran = run_edge(&plain, "purges");
    assert!(ran.code == Some(1) && ran.stderr.contains("no caching edge"), "{}", ran.stderr);
}
