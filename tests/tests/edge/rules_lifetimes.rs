//! `edge.rules`: how long responses are kept, by path.

use crate::origin::{Manner, Origin};
use crate::purging::run_edge;
use crate::rules::edge_with;
use fullbore_tests::{Plain, Server, until};
use tempfile::tempdir;

/// The origin's part of `Cache-Control`, and whether the response may be for all viewers.
const SAID: [(&str, bool); 7] = [
    ("Cache-Control: max-age=0\r\n", true),
    ("Cache-Control: no-cache\r\n", true),
    ("Cache-Control: s-maxage=0, max-age=0\r\n", true),
    ("Expires: 0\r\n", true),
    ("Cache-Control: private, max-age=60\r\n", false),
    ("Cache-Control: no-store\r\n", false),
    ("Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", false),
];

fn why(server: &Server, path: &str) -> serde_json::Value {
    let ran = run_edge(server, &format!("why {path} --json"));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn a_lifetime_by_rule_takes_the_place_of_the_origins_and_makes_nothing_shareable() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"*\"\nfresh_seconds = 3600\n";
    let server = edge_with(&origin, cache.path(), rules);
    for (number, (said, is_shared)) in SAID.into_iter().enumerate() {
        // A film, and what is stored whole.
        for etag in ["\"v1\"", "W/\"v1\""] {
            let path = format!("/{number}-{}.mp4", etag.len());
            let bytes = origin.put(&path, 1, 1000, said);
            origin.change(&path, |object| object.etag = etag.into());
            for _ in 0..3 {
                let answer = Plain::connect(server.address).fetch(&path);
                assert!(answer.body == *bytes, "{said}: {}", answer.head);
                // Caches of viewers keep to what the origin says.
                let line = said.split("\r\n").next().unwrap();
                assert!(answer.head.contains(line), "{said}: {}", answer.head);
            }
            assert_eq!(origin.count(&path), if is_shared { 1 } else { 3 }, "{said} {etag}");
        }
    }
    // A viewer's password has the same meaning as without a rule.
    origin.put("/own.mp4", 1, 1000, "");
    for line in ["Authorization: Basic YQ==\r\n", "Authorization: Basic Yg==\r\n"] {
        Plain::connect(server.address).fetch_with("/own.mp4", line);
    }
    assert_eq!(origin.count("/own.mp4"), 2);
    let why = why(&server, "/0-4.mp4");
    let copy = &why["paths"][0]["copies"][0];
    assert!((3000..=3600).contains(&copy["fresh_seconds"].as_u64().unwrap()), "{why}");
    assert_eq!(copy["cache_control"], "max-age=0");
    assert_eq!(
        (&why["rule"]["number"], &why["rule"]["settings"][0]),
        (&1.into(), &"fresh_seconds = 3600.0".into())
    );
    // An error is not kept for that long.
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/later.mp4").status, 404);
    origin.put("/later.mp4", 1, 1000, "");
    until("it to be found", || viewer.fetch("/later.mp4").status == 200);
}

#[test]
fn a_default_lifetime_holds_where_the_origin_says_nothing() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/films/*\"\nfresh_default_seconds = 3600\n";
    let server = edge_with(&origin, cache.path(), rules);
    for (number, (said, fresh)) in [
        ("", 3000..=3600),
        ("Age: 50\r\n", 3000..=3600),
        ("Cache-Control: max-age=600\r\n", 500..=600),
        ("Cache-Control: no-cache\r\n", 0..=0),
    ]
    .into_iter()
    .enumerate()
    {
        for etag in ["\"v1\"", "W/\"v1\""] {
            let path = format!("/films/{number}-{}.m3u8", etag.len());
            origin.put(&path, 1, 1000, said);
            origin.change(&path, |object| object.etag = etag.into());
            let answer = Plain::connect(server.address).fetch(&path);
            assert_eq!(answer.status, 200, "{}", answer.head);
            let why = why(&server, &path);
            let is = why["paths"][0]["copies"][0]["fresh_seconds"].as_u64().unwrap();
            assert!(fresh.contains(&is), "{said} {etag}: {why}");
        }
    }
    let answer = Plain::connect(server.address).fetch("/films/1-4.m3u8");
    let age = answer.head.split("Age: ").nth(1).unwrap().split("\r\n").next().unwrap();
    assert!(age.parse::<u64>().unwrap() >= 50, "its age is the origin's: {}", answer.head);
}

#[test]
fn what_is_stale_is_served_while_the_origin_is_down_for_as_long_as_a_rule_says() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/long/*\"\nstale_seconds = 3600\n\
        [[edge.rules]]\npath = \"/never/*\"\nstale_seconds = 0\n";
    let server = edge_with(&origin, cache.path(), rules);
    let cases = [
        ("/long/a", "Cache-Control: max-age=0\r\n", true),
        ("/long/b", "Cache-Control: max-age=0, stale-if-error=0\r\n", true),
        ("/long/c", "Cache-Control: max-age=0, must-revalidate\r\n", false),
        ("/never/a", "Cache-Control: max-age=0\r\n", false),
        ("/never/b", "Cache-Control: max-age=0, stale-if-error=3600\r\n", false),
    ];
    let mut viewer = Plain::connect(server.address);
    let mut fetch_all = |is_down: bool| {
        for (path, said, is_stale) in cases {
            for etag in ["\"v1\"", "W/\"v1\""] {
                let path = format!("{path}{}", etag.len());
                if !is_down {
                    origin.put(&path, 1, 1000, said);
                    origin.change(&path, |object| object.etag = etag.into());
                }
                let status = viewer.fetch(&path).status;
                assert_eq!(status == 200, !is_down || is_stale, "{path} {said}: {status}");
            }
        }
    };
    fetch_all(false);
    // In place of an error of the origin, and while it can't be reached.
    for down in [Manner::Status(503, "Retry-After: 1".into()), Manner::Gone] {
        origin.behave(down);
        fetch_all(true);
    }
}

#[test]
fn a_path_by_whose_rule_nothing_is_kept_costs_the_origin_each_request() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/api/*\"\ncache = false\n";
    let server = edge_with(&origin, cache.path(), rules);
    let mut viewer = Plain::connect(server.address);
    let lines = "Cache-Control: public, max-age=3600\r\n";
    for etag in ["\"v1\"", "W/\"v1\""] {
        let path = format!("/api/{}", etag.len());
        let bytes = origin.put(&path, 1, 1000, lines);
        origin.change(&path, |object| object.etag = etag.into());
        for _ in 0..3 {
            let answer = viewer.fetch(&path);
            assert!(answer.body == *bytes && !answer.head.contains("stored"), "{}", answer.head);
        }
        assert_eq!(origin.count(&path), 3, "{etag}");
        let answer = viewer.fetch_with(&path, "Range: bytes=10-19\r\n");
        assert!(answer.status == 206 && answer.body == bytes[10..20], "{}", answer.head);
        assert_eq!(
            origin.seen().last().unwrap().range,
            Some((10, 19)),
            "no more than was asked for"
        );
        assert_eq!(viewer.fetch_with(&path, "Cache-Control: only-if-cached\r\n").status, 504);
        let why = String::from_utf8(run_edge(&server, &format!("why {path}")).stdout).unwrap();
        assert!(why.contains("not kept: ") && why.contains("says cache = false"), "{why}");
        assert!(why.contains("by rule 1 for \"/api/*\": cache = false"), "{why}");
    }
    origin.put("/film", 1, 1000, lines);
    for _ in 0..2 {
        viewer.fetch("/film");
    }
    assert_eq!(origin.count("/film"), 1, "other paths are kept");
}

/// The origin lets others have these responses once it has confirmed them.
#[test]
fn a_lifetime_by_rule_shares_nothing_of_one_viewer_that_the_origin_wants_to_confirm() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"*\"\nfresh_seconds = 3600\ncookies = true\n";
    let server = edge_with(&origin, cache.path(), rules);
    let cases = [
        ("/a", "Authorization: Basic YQ==\r\n", "max-age=0, must-revalidate"),
        ("/b", "Authorization: Basic YQ==\r\n", "public, max-age=0, must-revalidate"),
        ("/c", "X-Plex-Token: a\r\n", "s-maxage=0"),
        ("/d", "Cookie: session=a\r\n", "s-maxage=0"),
    ];
    for (path, line, said) in cases {
        origin.put(path, 1, 1000, &format!("Cache-Control: {said}\r\n"));
        origin.change(path, |object| object.etag = "W/\"v1\"".into());
        let mut viewer = Plain::connect(server.address);
        for asked in 1..=3 {
            assert_eq!(viewer.fetch_with(path, line).status, 200);
            assert_eq!(origin.count(path), asked, "{path}: {said}");
        }
        // The origin has confirmed it to a viewer whom it doesn't know, so the rule holds.
        for _ in 0..3 {
            assert_eq!(viewer.fetch(path).status, 200);
            assert_eq!(origin.count(path), 4, "{path}: {said}");
        }
    }
}
