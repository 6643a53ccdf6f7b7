//! `edge.rules`: headers and passwords of viewers that don't travel, and headers on which responses depend, by path.

use crate::origin::{Manner, Origin};
use crate::purging::{purge, run_edge};
use crate::rules::edge_with;
use fullbore_tests::Plain;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

#[test]
fn headers_that_a_rule_drops_reach_no_origin_and_make_no_variants() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/films/*\"\nheaders_drop = [\"X-Device\", \"User-Agent\", \"Cache-Control\"]\n";
    let server = edge_with(&origin, cache.path(), rules);
    let mut viewer = Plain::connect(server.address);
    let page = origin.put("/films/page", 1, 1000, &format!("{LASTING}Vary: X-Device\r\n"));
    for lines in [
        "X-Device: tv\r\nUser-Agent: tv-1\r\nX-Other: 1\r\n",
        "x_device: phone\r\nCache-Control: no-cache\r\n",
        "User-Agent: other\r\n",
    ] {
        assert!(viewer.fetch_with("/films/page", lines).body == *page, "{lines}");
    }
    let seen = origin.seen();
    let head = seen[0].head.to_ascii_lowercase();
    assert!(seen.len() == 1 && head.contains("x-other: 1"), "{seen:?}");
    assert!(!head.contains("device") && !head.contains("tv-1"), "{head}");
    // Elsewhere they travel.
    origin.put("/page", 1, 1000, LASTING);
    viewer.fetch_with("/page", "X-Device: tv\r\n");
    assert!(origin.seen().last().unwrap().head.contains("x-device: tv"));
}

/// Each body is the number of the origin's request, so it shows which viewers share a response.
#[test]
fn responses_depend_on_the_headers_that_a_rule_names_as_if_the_origin_had_said_vary() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/pages/*\"\nheaders_vary = [\"X-Lang\", \"Origin\"]\n";
    let server = edge_with(&origin, cache.path(), rules);
    let mut viewer = Plain::connect(server.address);
    origin.put("/pages/a", 1, 0, "Cache-Control: max-age=3600\r\nVary: X-Own\r\n");
    origin.put("/pages/b", 1, 0, "Cache-Control: max-age=0\r\n");
    origin.behave(Manner::Counted);
    let mut body = |path: &str, lines: &str| {
        let answer = viewer.fetch_with(path, lines);
        assert!(
            answer.head.contains("x-lang") && answer.head.contains("origin"),
            "{}",
            answer.head
        );
        String::from_utf8(answer.body).unwrap()
    };
    let mut page = |lines: &str| body("/pages/a", lines);
    for (lines, expected) in [
        ("X-Lang: de\r\n", "1"),
        ("X-Lang: en\r\n", "2"),
        ("X-Lang: de\r\nUser-Agent: other\r\n", "1"),
        ("", "3"),
        ("X-Lang: de\r\nOrigin: https://page.example\r\n", "4"),
        ("X-Lang: de\r\nX-Own: 1\r\n", "5"),
        ("X-Lang: en\r\n", "2"),
    ] {
        assert_eq!(page(lines), expected, "{lines}");
    }
    assert!(origin.seen()[3].head.contains("origin: https://page.example"));
    // Behind CGI and WSGI, the origin would read this as the header that the key has.
    assert_eq!(page("X_Lang: de\r\n"), "3");
    origin.put("/pages/c", 1, 0, "");
    body("/pages/c", "X_Lang: de\r\nX-Other: 1\r\n");
    let head = origin.seen().last().unwrap().head.clone();
    assert!(head.contains("x-other: 1") && !head.contains("lang"), "{head}");
    // A confirmation doesn't repeat it, and the variants stay.
    let mut confirmed = |lines: &str| body("/pages/b", lines);
    let firsts = ["X-Lang: de\r\n", "X-Lang: en\r\n"].map(|lines| (lines, confirmed(lines)));
    for (lines, first) in &firsts {
        assert_eq!(confirmed(lines), *first, "{lines}");
    }
    let head = origin.seen().last().unwrap().head.clone();
    assert!(head.contains("if-none-match") && head.contains("x-lang: en"), "{head}");
    let why = String::from_utf8(run_edge(&server, "why /pages/b").stdout).unwrap();
    assert!(why.contains("for requests with origin: (none), x-lang: de"), "{why}");
    assert!(
        why.contains("by rule 1 for \"/pages/*\": headers_vary = [\"X-Lang\",\"Origin\"]"),
        "{why}"
    );
    assert_eq!(purge(&server, "/pages/a"), (0, 5), "all variants");
}

#[test]
fn passwords_that_a_rule_drops_keep_no_film_from_being_shared() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/public/*\"\nauthorization = \"drop\"\n";
    let server = edge_with(&origin, cache.path(), rules);
    let film = origin.put("/public/a.mp4", 1, 1000, LASTING);
    for line in ["Authorization: Basic YQ==\r\n", "X-Emby-Token: a\r\n", ""] {
        let answer = Plain::connect(server.address).fetch_with("/public/a.mp4", line);
        assert!(answer.body == *film, "{line}: {}", answer.head);
    }
    let seen = origin.seen();
    let head = seen[0].head.to_ascii_lowercase();
    assert!(
        seen.len() == 1 && !head.contains("authorization") && !head.contains("emby"),
        "{seen:?}"
    );
    // Elsewhere each viewer's goes to the origin, with its password.
    origin.put("/a.mp4", 1, 1000, LASTING);
    for line in ["Authorization: Basic YQ==\r\n", "Authorization: Basic Yg==\r\n"] {
        assert_eq!(Plain::connect(server.address).fetch_with("/a.mp4", line).status, 200);
    }
    assert_eq!(origin.count("/a.mp4"), 2);
}

#[test]
fn a_change_keeps_the_password_and_the_headers_that_a_rule_drops() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "methods = [\"POST\"]\n[[edge.rules]]\npath = \"/public/*\"\nauthorization = \"drop\"\nheaders_drop = [\"X-Device\"]\n";
    let server = edge_with(&origin, cache.path(), rules);
    let mut viewer = Plain::connect(server.address);
    origin.put("/public/a", 1, 1000, "Cache-Control: no-store\r\n");
    let lines = "Authorization: Basic YQ==\r\nX-Device: tv\r\nContent-Length: 0\r\n";
    for (method, travels) in [("GET", false), ("POST", true)] {
        viewer.ask_by(method, "/public/a", lines);
        assert_eq!(viewer.answer().status, 200);
        let head = origin.seen().pop().unwrap().head.to_ascii_lowercase();
        assert_eq!(head.contains("authorization: basic yq=="), travels, "{head}");
        assert_eq!(head.contains("x-device: tv"), travels, "{head}");
    }
}

/// Each body is the number of the origin's request.
#[test]
fn the_origin_sees_no_difference_that_no_key_has() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let rules = "[[edge.rules]]\npath = \"/pages/*\"\nheaders_vary = [\"X-Device\"]\n";
    let server = edge_with(&origin, cache.path(), rules);
    let mut viewer = Plain::connect(server.address);
    origin.put("/pages/a", 1, 0, LASTING);
    origin.behave(Manner::Counted);
    for (line, expected, sent) in [
        ("X-Device: tv,\r\n", "1", "x-device: tv\r\n"),
        ("X-Device: tv\r\n", "1", ""),
        ("X-Device: tv,4k\r\n", "2", "x-device: tv, 4k\r\n"),
        ("X-Device: tv\r\nX-Device: 4k\r\n", "2", ""),
    ] {
        let answer = viewer.fetch_with("/pages/a", line);
        assert_eq!(answer.body, expected.as_bytes(), "{line}");
        let head = origin.seen().pop().unwrap().head.to_ascii_lowercase();
        assert!(head.contains(sent), "{line}: {head}");
    }
}

/// Variants that were stored before the rule, and after it.
#[test]
fn what_was_stored_before_a_rule_named_a_header_is_for_no_viewer_after_it() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.put("/pages/a", 1, 0, LASTING);
    origin.change("/pages/a", |object| object.etag = "W/\"v1\"".into());
    origin.behave(Manner::Counted);
    let fetch_all = |rules: &str, expected: [&str; 2]| {
        let server = edge_with(&origin, cache.path(), rules);
        let mut viewer = Plain::connect(server.address);
        for (device, body) in ["tv", "phone"].into_iter().zip(expected) {
            let answer = viewer.fetch_with("/pages/a", &format!("X-Device: {device}\r\n"));
            assert_eq!(answer.body, body.as_bytes(), "{rules}: {device}");
        }
        server.finish();
    };
    fetch_all("", ["1", "1"]);
    let rules = "[[edge.rules]]\npath = \"/pages/*\"\nheaders_vary = [\"X-Device\"]\n";
    fetch_all(rules, ["2", "3"]);
    fetch_all(rules, ["2", "3"]);
}
