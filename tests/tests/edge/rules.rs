//! `edge.rules`: which part of a query counts, and whether cookies travel, by path. [`crate::rules_headers`] and [`crate::rules_lifetimes`] have the
//! other settings.

use crate::origin::{Manner, Origin};
use crate::purging::{purge, run_edge};
use crate::{MIB, PATIENT, launch};
use fullbore_tests::{Plain, Server, program, tool};
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

const RULES: &str = "[[edge.rules]]\npath = \"/films/raw/*\"\n\
    [[edge.rules]]\npath = \"/films/*\"\nquery_keep = [\"v\"]\n\
    [[edge.rules]]\npath = \"/pages/*\"\nquery = \"sort\"\nquery_drop = [\"utm_*\"]\ncookies = true\n\
    [[edge.rules]]\npath = \"*.js\"\nquery = \"drop\"\n";

pub(crate) fn edge_with(origin: &Origin, cache: &Path, rules: &str) -> Server {
    let config = format!("{PATIENT}{rules}");
    launch(origin, cache).config(&config).arguments("--tls off").start()
}

/// The paths that the origin was asked for, each once.
fn asked(origin: &Origin) -> Vec<String> {
    let mut paths: Vec<_> = origin.seen().into_iter().map(|seen| seen.path).collect();
    paths.dedup();
    paths
}

#[test]
fn urls_that_differ_in_what_a_rule_leaves_out_are_one_film() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge_with(&origin, cache.path(), RULES);
    let first = origin.put("/films/a?v=1", 1, MIB + 1, LASTING);
    let second = origin.put("/films/a?v=2", 2, MIB + 1, LASTING);
    let raw = origin.put("/films/raw/a?session=1", 3, 1000, LASTING);
    let script = origin.put("/play.js", 4, 1000, LASTING);
    let mut viewer = Plain::connect(server.address);
    for url in ["/films/a?v=1", "/films/a?session=7&v=1", "//films/a?v=1&session=8&CMCD=x"] {
        assert!(viewer.fetch(url).body == *first, "{url}");
    }
    assert!(viewer.fetch("/films/a?v=2&v2=1").body == *second);
    assert!(viewer.fetch("/films/raw/a?session=1").body == *raw, "the first rule counts");
    for number in 0..3 {
        assert!(viewer.fetch(&format!("/play.js?t={number}")).body == *script);
    }
    let expected = ["/films/a?v=1", "/films/a?v=2", "/films/raw/a?session=1", "/play.js"];
    assert_eq!(asked(&origin), expected);
    // A page, too, in any order of its parameters.
    let page = origin.put("/pages/a?a=2&b=1&b=0", 5, 1000, LASTING);
    origin.change("/pages/a?a=2&b=1&b=0", |object| object.etag = "W/\"v5\"".into());
    for url in ["/pages/a?b=1&a=2&b=0", "/pages/a?utm_source=x&b=1&b=0&%75tm_y&a=2"] {
        assert!(viewer.fetch(url).body == *page, "{url}");
    }
    assert_eq!(origin.count("/pages/"), 1, "{:?}", asked(&origin));
    assert_eq!(viewer.fetch("/pages/a?b=0&a=2&b=1").status, 404, "another list of b");
}

#[test]
fn a_purge_and_a_question_find_what_is_stored_by_a_rule_also_after_a_restart() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge_with(&origin, cache.path(), RULES);
    let film = origin.put("/films/a?v=1", 1, 1000, LASTING);
    assert!(Plain::connect(server.address).fetch("/films/a?session=7&v=1").body == *film);
    let why = run_edge(&server, "why https://edge.example/films/a?v=1&session=9");
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.starts_with("/films/a?v=1\n  film: "), "{why}");
    server.finish();
    let server = edge_with(&origin, cache.path(), RULES);
    let fetch = |url: &str| Plain::connect(server.address).fetch(url);
    assert!(fetch("/films/a?session=8&v=1").body == *film);
    assert_eq!(origin.count("/films/"), 1, "it is still fresh");
    assert_eq!(purge(&server, "/films/a?v=2"), (0, 0));
    assert_eq!(purge(&server, "/films/a?session=10&v=1"), (1, 0));
    let newer = origin.put("/films/a?v=1", 2, 1000, LASTING);
    assert!(fetch("/films/a?v=1&session=11").body == *newer);
    // What begins like this may be stored under another query, so it would be missed.
    for words in ["purge --prefix /films/a?session=1", "purge --prefix /films/a?", "ls /films/a?v"]
    {
        let ran = run_edge(&server, words);
        assert!(
            ran.code == Some(1) && ran.stderr.contains("edge.rules"),
            "{words}: {}",
            ran.stderr
        );
    }
    assert_eq!(purge(&server, "--prefix /films/raw/a?v"), (0, 0), "no rule changes this query");
    assert_eq!(purge(&server, "--prefix /films/a"), (1, 0));
}

#[test]
fn cookies_travel_where_a_rule_says_so_and_their_answers_are_for_one_viewer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge_with(&origin, cache.path(), RULES);
    let mut viewer = Plain::connect(server.address);
    let mut bodies = Vec::new();
    for path in ["/pages/mine", "/films/all"] {
        origin.put(path, 1, 1000, LASTING);
    }
    origin.behave(Manner::Counted);
    for line in ["Cookie: session=a\r\n", "Cookie: session=b\r\n", ""] {
        bodies.push(viewer.fetch_with("/pages/mine", line).body);
    }
    let heads: Vec<_> = origin.seen().into_iter().map(|seen| seen.head).collect();
    assert!(heads[0].contains("session=a") && heads[1].contains("session=b"), "{heads:?}");
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 3, "one viewer's answer went to another");
    origin.behave(Manner::Good);
    assert_eq!(viewer.fetch_with("/films/all", "Cookie: session=c\r\n").status, 200);
    assert!(!origin.seen().pop().unwrap().head.contains("session=c"));
}

#[test]
fn a_rule_can_keep_cookies_from_films_where_the_edge_sends_them() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "cookies = true\n[[edge.rules]]\npath = \"*.mp4\"\ncookies = false\n";
    let server = edge_with(&origin, cache.path(), rules);
    let film = origin.put("/a.mp4", 1, 1000, LASTING);
    for session in 0..3 {
        let line = format!("Cookie: session={session}\r\n");
        assert!(Plain::connect(server.address).fetch_with("/a.mp4", &line).body == *film);
    }
    let seen = origin.seen();
    assert!(seen.len() == 1 && !seen[0].head.contains("session"), "one film for all: {seen:?}");
}

/// The origin names a URL as it knows it, and the rule decides under which one its response is stored.
#[test]
fn what_a_change_names_with_another_query_is_invalid_as_the_rule_stores_it() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge_with(&origin, cache.path(), &format!("methods = [\"POST\"]\n{RULES}"));
    let mut viewer = Plain::connect(server.address);
    for (number, (header, stored, named)) in [
        ("Location", "/pages/a?a=2&b=1", "/pages/a?b=1&utm_x=3&a=2"),
        ("Content-Location", "/films/a?v=1", "{origin}/films/a?session=7&v=1"),
        ("Location", "/play.js", "../play.js?t=5"),
        ("Content-Location", "/films/raw/b?session=1", "/films/raw/b?session=1"),
    ]
    .into_iter()
    .enumerate()
    {
        for etag in ["\"v1\"", "W/\"v1\""] {
            origin.put(stored, 1, 1000, LASTING);
            origin.change(stored, |object| object.etag = etag.into());
            purge(&server, stored);
            (0..2).for_each(|_| assert_eq!(viewer.fetch(stored).status, 200));
            let before = origin.count(stored);
            let change = format!("/change/{number}");
            let named = named.replace("{origin}", &origin.url());
            origin.put(&change, 2, 10, &format!("{header}: {named}\r\n"));
            viewer.ask_by("POST", &change, "Content-Length: 0\r\n");
            assert_eq!(viewer.answer().status, 200, "{named}");
            assert_eq!(viewer.fetch(stored).status, 200, "{named}");
            assert_eq!(origin.count(stored), before + 1, "{named} {etag}: it has to be confirmed");
        }
    }
}

#[test]
fn a_rule_that_cannot_be_used_is_refused_before_the_start_with_what_to_write() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("edge.toml");
    for (rule, said) in [
        ("path = \"films/*\"", "edge.rules, rule 1, for \"films/*\": path: it begins with neither"),
        ("path = \"/a\"\nquery = \"remove\"", "line 6"),
        ("path = \"/a\"\nttl = 5", "line 6"),
        ("path = \"/a\"\nquery_keep = [\"a&b\"]", "such as \"v\""),
    ] {
        let origin = "[edge]\norigin = \"http://127.0.0.1:1\"\ncache = \"c\"\n";
        std::fs::write(&config, format!("{origin}[[edge.rules]]\n{rule}\n")).unwrap();
        let mut command = tool::command(program().to_str().unwrap());
        let words = ["serve", "--check", "--config"];
        let ran = tool::run(command.args(words).arg(&config).current_dir(folder.path()));
        assert!(ran.code == Some(2) && ran.stderr.contains(said), "{rule}: {}", ran.stderr);
    }
}
