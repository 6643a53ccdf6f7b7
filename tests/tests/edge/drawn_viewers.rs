//! Drawn viewers at drawn paths, some with a rule of the operator's: none gets what the origin made for another one.

use crate::origin::{Manner, Origin, Seen};
use crate::{PATIENT, launch};
use fullbore_tests::{Plain, Response};
use std::collections::HashMap;
use tempfile::tempdir;

const WEAK: &str = "W/\"v1\"";

const DRAWN: [&str; 12] = [
    "Cache-Control: max-age=1",
    "Cache-Control: max-age=3600",
    "Cache-Control: public, max-age=1",
    "Cache-Control: s-maxage=3600",
    "Cache-Control: must-revalidate, max-age=1",
    "Cache-Control: public, no-cache",
    "Cache-Control: no-cache",
    "Cache-Control: private, max-age=3600",
    "Cache-Control: no-store",
    "Cache-Control: max-age=3600, private=\"X-Mine\"",
    "Cache-Control: max-age=0, stale-while-revalidate=3600",
    "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
];

const VARIES: [&str; 5] =
    ["", "", "Vary: X-Who\r\n", "Vary: Cookie\r\n", "Vary: Authorization\r\n"];

/// The paths.
const PATHS: usize = 20;

/// What a rule may say, one of each line. Half of the paths have none.
const RULES: [&[&str]; 6] = [
    &["", "query = \"drop\"", "query = \"sort\"", "query_keep = [\"q\"]", "query_drop = [\"u\"]"],
    &["", "cookies = false"],
    &["", "authorization = \"drop\""],
    &["", "headers_vary = [\"X-Who\"]", "headers_drop = [\"X-Who\"]"],
    &["", "fresh_seconds = 600", "fresh_default_seconds = 60"],
    &["", "stale_seconds = 60"],
];

/// A rule that keeps nothing may say nothing of the last three.
const NEVER: &str = "cache = false";

/// The queries of viewers.
const QUERIES: [&str; 6] = ["q=1&u=1", "q=1&u=2", "q=2&u=1", "q=2&u=2", "u=1&q=1", "u=2&q=1"];

/// A path of the origin, what it says of it, and the operator's rule, if there is one.
struct Drawn {
    path: String,
    lines: String,
    sets_cookie: bool,
    rule: String,
}

impl Drawn {
    fn is_ruled(&self, word: &str) -> bool {
        self.rule.contains(word)
    }

    /// The URL that the origin gets of one with this query.
    fn counted(&self, query: &str) -> String {
        let counts = |parameter: &&str| {
            let is_one_left_out = self.is_ruled("query_keep") || self.is_ruled("query_drop");
            let is_left_out = is_one_left_out && parameter.starts_with('u');
            !(is_left_out || self.is_ruled("query = \"drop\""))
        };
        let mut kept: Vec<&str> = query.split('&').filter(counts).collect();
        if self.is_ruled("sort") {
            kept.sort_unstable();
        }
        match kept.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, kept.join("&")),
        }
    }

    /// Whether the rule lets a viewer's header reach the origin.
    fn sends(&self, name: &str) -> bool {
        match name {
            "cookie" => !self.is_ruled("cookies"),
            "x-who" => !self.is_ruled("headers_drop"),
            _ => !self.is_ruled("authorization"),
        }
    }

    /// Whether what the origin made for the request with one head may reach the viewer who sent the other.
    fn may_share(
        &self,
        made_for: &HashMap<String, String>,
        viewer: &HashMap<String, String>,
    ) -> bool {
        let says = |word: &str| self.lines.contains(word);
        let for_all = says("public") || says("s-maxage");
        let varies = [("X-Who", "x-who"), ("Cookie", "cookie"), ("Authorization", "authorization")];
        let has_credentials =
            ["authorization", "x-emby-token"].iter().any(|name| made_for.contains_key(*name));
        let is_variant =
            |name: &str| made_for.get(name) == viewer.get(name).filter(|_| self.sends(name));
        let is_same_who = !self.is_ruled("headers_vary") || is_variant("x-who");
        !self.is_ruled(NEVER)
            && is_same_who
            && !says("private,")
            && !says("no-store")
            && (for_all || !self.sets_cookie)
            && (for_all || !made_for.contains_key("cookie"))
            && (for_all || says("must-revalidate") || !has_credentials)
            && varies.iter().all(|(vary, name)| !says(&format!("Vary: {vary}")) || is_variant(name))
    }
}

fn drawn_rule(draws: &mut fastrand::Rng, path: &str) -> String {
    let is_kept = draws.u8(..6) > 0;
    let lists = if is_kept { &RULES[..] } else { &RULES[..3] };
    let mut lines = vec![format!("[[edge.rules]]\npath = \"{path}\"")];
    lines.extend(lists.iter().map(|list| (*draws.choice(*list).unwrap()).to_owned()));
    lines.extend((!is_kept).then(|| NEVER.to_owned()));
    lines.join("\n") + "\n"
}

fn drawn(draws: &mut fastrand::Rng, origin: &Origin, number: usize) -> Drawn {
    let sets_cookie = draws.u8(..4) == 0;
    let cookie = if sets_cookie { "Set-Cookie: id={number}\r\n" } else { "" };
    let (said, vary) = (draws.choice(&DRAWN).unwrap(), draws.choice(&VARIES).unwrap());
    let lines = format!("{said}\r\n{vary}{cookie}X-Mine: {{number}}\r\n");
    let path = format!("/list{number}/all");
    let rule = if draws.bool() { drawn_rule(draws, &path) } else { String::new() };
    let drawn = Drawn { path, lines, sets_cookie, rule };
    for query in QUERIES {
        let url = drawn.counted(query);
        origin.put(&url, 1, 10, &drawn.lines);
        if number % 4 != 0 {
            origin.change(&url, |object| object.etag = WEAK.into());
        }
    }
    drawn
}

/// The header lines of a drawn viewer.
fn drawn_lines(draws: &mut fastrand::Rng, id: &str) -> String {
    let mut lines = format!("X-Id: {id}\r\n");
    for (name, values) in [
        ("Cookie", ["a", "b"]),
        ("Authorization", ["Basic YQ==", "Basic Yg=="]),
        ("X-Emby-Token", ["a", "b"]),
        ("X-Who", ["a", "b"]),
    ] {
        if draws.u8(..3) == 0 {
            lines += &format!("{name}: {}\r\n", draws.choice(&values).unwrap());
        }
    }
    lines
}

/// A viewer's request: its query, and its header fields.
struct Asked {
    query: &'static str,
    fields: HashMap<String, String>,
}

/// Checks that nothing in the answer to a viewer was made for another one alone. Returns whether it was shared.
fn judge(wanted: &Drawn, asked: &Asked, answer: &Response, seen: &[Seen]) -> bool {
    let own = &asked.fields;
    let maker = |number: &str| {
        let number: usize = number.parse().unwrap_or_else(|_| panic!("{}", answer.head));
        let (seen, url) = (&seen[number - 1], wanted.counted(asked.query));
        assert_eq!(seen.path, url, "{}", wanted.rule);
        let fields = fields_of(&seen.head);
        for name in ["cookie", "x-who", "authorization", "x-emby-token"] {
            let is_sent = wanted.sends(name) || !fields.contains_key(name);
            assert!(is_sent, "{name} reached the origin: {}", wanted.rule);
        }
        fields
    };
    // A film is revalidated as no viewer in particular.
    let is_own = |made_for: &HashMap<String, String>| made_for.get("x-id") == own.get("x-id");
    let head = fields_of(&answer.head);
    assert_eq!(answer.status, 200, "{}", answer.head);
    let body = maker(std::str::from_utf8(&answer.body).unwrap());
    let (lines, rule) = (&wanted.lines, &wanted.rule);
    let why = format!("{lines}{rule}: {own:?} got {body:?}: {}", answer.head);
    assert!(is_own(&body) || wanted.may_share(&body, own), "{why}");
    if let Some(mine) = head.get("x-mine") {
        let is_named = wanted.lines.contains("private=");
        assert!(!is_named || is_own(&maker(mine)), "a field of one viewer: {why}");
    }
    if let Some(cookie) = head.get("set-cookie") {
        let setter = maker(cookie.strip_prefix("id=").unwrap());
        let is_same = setter.get("x-id") == body.get("x-id");
        assert!(is_own(&setter) || is_same, "a cookie of a confirmation: {why}");
    }
    !is_own(&body)
}

fn fields_of(head: &str) -> HashMap<String, String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()
}

/// The origin's answers are the numbers of its requests, so each shows for whom it was made. `FULLBORE_SEED` repeats a run's draws.
#[test]
fn of_drawn_viewers_at_once_none_gets_what_was_made_for_another() {
    const REQUESTS: usize = 800;
    let seed = std::env::var("FULLBORE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("FULLBORE_SEED={seed}");
    let mut draws = fastrand::Rng::with_seed(seed);
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.behave(Manner::Counted);
    let paths: Vec<_> = (0..PATHS).map(|number| drawn(&mut draws, &origin, number)).collect();
    let rules: String = paths.iter().map(|drawn| drawn.rule.as_str()).collect();
    let config = format!("{PATIENT}cookies = true\n{rules}");
    let words = "--tls off --workers 2";
    let server = launch(&origin, cache.path()).config(&config).arguments(words).start();
    let mut viewers: Vec<_> = (0..4).map(|_| Plain::connect(server.address)).collect();
    let mut shared = 0;
    for round in 0..REQUESTS / viewers.len() {
        // All of them want the same, at once.
        let wanted = &paths[draws.usize(..paths.len())];
        let ask = |(index, viewer): (usize, &mut Plain)| {
            let lines = drawn_lines(&mut draws, &format!("{round}.{index}"));
            // Most want the same URL, too.
            let query = if draws.bool() { QUERIES[0] } else { *draws.choice(&QUERIES).unwrap() };
            viewer.ask_with(&format!("{}?{query}", wanted.path), &lines);
            Asked { query, fields: fields_of(&lines) }
        };
        let asked: Vec<_> = viewers.iter_mut().enumerate().map(ask).collect();
        for (viewer, asked) in viewers.iter_mut().zip(asked) {
            let answer = viewer.answer();
            shared += usize::from(judge(wanted, &asked, &answer, &origin.seen()));
        }
    }
    eprintln!("{shared} of {REQUESTS} answers were shared");
    assert!(shared > REQUESTS / 20, "the draws show something: {shared}");
}
