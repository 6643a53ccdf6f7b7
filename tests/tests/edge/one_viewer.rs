//! What the origin makes for one viewer does not reach another, and does not stay when its viewer leaves.

use crate::origin::{Manner, Origin, Seen};
use crate::{PATIENT, edge, launch};
use fullbore_tests::{Plain, Response, until};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tempfile::tempdir;

const WEAK: &str = "W/\"v1\"";

/// Puts a response there that is stored whole, and has to be revalidated before each use.
fn put_stale(origin: &Origin, viewer: &mut Plain, path: &str) -> Vec<u8> {
    let bytes = origin.put(path, 1, 1000, "Cache-Control: max-age=0\r\nVary: X-Who\r\n");
    origin.change(path, |object| object.etag = WEAK.into());
    assert!(viewer.fetch(path).body == *bytes);
    bytes.to_vec()
}

/// From now on, answers about `path` have these lines.
fn set_lines(origin: &Origin, path: &str, lines: &str) {
    origin.change(path, |object| object.lines = lines.into());
}

#[test]
fn a_cookie_that_a_confirmation_sets_is_for_the_viewer_who_asked() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for (number, is_head) in [(0, false), (1, true)] {
        let path = format!("/list{number}");
        let bytes = put_stale(&origin, &mut viewer, &path);
        let lines = "Cache-Control: max-age=3600\r\nSet-Cookie: id={number}\r\nX-New: 1\r\n";
        set_lines(&origin, &path, lines);
        let mut asker = Plain::connect(server.address);
        let head = match is_head {
            true => {
                asker.ask_by("HEAD", &path, "");
                asker.head().1
            }
            false => {
                let answer = asker.fetch(&path);
                assert!(answer.body == bytes, "{}", answer.head);
                answer.head
            }
        };
        assert!(head.contains("Set-Cookie: id="), "it is this viewer's: {head}");
        let asked = origin.count(&path);
        for _ in 0..2 {
            let answer = Plain::connect(server.address).fetch(&path);
            assert!(
                answer.body == bytes && answer.head.contains("X-New: 1\r\n"),
                "{}",
                answer.head
            );
            assert!(!answer.head.contains("Set-Cookie"), "another viewer's: {}", answer.head);
        }
        assert_eq!(origin.count(&path), asked, "what was confirmed is fresh");
    }
}

#[test]
fn what_a_confirmation_forbids_to_store_is_not_stored_any_more() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for (number, lines) in [
        "Cache-Control: private, max-age=3600\r\n",
        "Cache-Control: private; max-age=3600\r\n",
        "Cache-Control: no-store, max-age=3600\r\n",
        "Cache-Control: max-age=3600\r\nVary: *\r\n",
        "Cache-Control: max-age=3600\r\nVary: X-Other\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/list{number}");
        let bytes = put_stale(&origin, &mut viewer, &path);
        set_lines(&origin, &path, lines);
        assert!(viewer.fetch(&path).body == bytes, "{lines}");
        let conditional = "if-none-match: ";
        assert!(origin.seen().last().unwrap().head.contains(conditional), "{lines}");
        let other = Plain::connect(server.address).fetch_with(&path, "X-Other: 1\r\n");
        assert!(other.body == bytes, "{lines}");
        let last = origin.seen().last().unwrap().head.clone();
        assert!(!last.contains(conditional) && last.contains("x-other: 1"), "{lines}: {last}");
    }
}

/// Viewers who leave while their passes wait for a turn, behind 12 that the origin holds, which are as many as one client may have.
fn hold_turns(origin: &Origin, address: SocketAddr) -> Vec<Plain> {
    origin.behave(Manner::Withholds("/held"));
    let hold = |number: usize| {
        let mut viewer = Plain::connect(address);
        viewer.ask_with(&format!("/held{number}"), "Authorization: Basic YQ==\r\n");
        viewer
    };
    let held: Vec<_> = (0..12).map(hold).collect();
    until("the origin to hold them", || origin.count("/held") == held.len());
    held
}

#[test]
fn responses_whose_viewers_left_do_not_hold_the_origins_slots() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let _held = hold_turns(&origin, server.address);
    // In all, more than the origin has slots. Each is more than a block, so it holds its slot until it is claimed.
    for batch in 0..4 {
        let ask = |number: usize| {
            let path = format!("/new{}", 20 * batch + number);
            origin.put(&path, 1, 2 << 20, "Cache-Control: no-store\r\nAccept-Ranges: none\r\n");
            let mut viewer = Plain::connect(server.address);
            viewer.ask(&path);
            viewer
        };
        let viewers: Vec<_> = (0..20).map(ask).collect();
        until("the origin to be asked", || origin.count("/new") == 20 * (batch + 1));
        drop(viewers);
    }
    let film = origin.put("/film", 1, 1000, "Cache-Control: max-age=3600\r\n");
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let answer = Plain::connect_from(other, server.address).fetch("/film");
    assert!(answer.status == 200 && answer.body == *film, "{}", answer.head);
    origin.behave(Manner::Good);
}

/// As if it had left a moment later: it is stored, and has an end.
#[test]
fn what_will_be_stored_is_there_for_others_if_its_viewer_leaves_before_it_arrives() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let _held = hold_turns(&origin, server.address);
    let lines = "Cache-Control: max-age=3600\r\nAccept-Ranges: none\r\n";
    let bytes = origin.put("/new", 1, 2 << 20, lines);
    origin.change("/new", |object| object.etag = WEAK.into());
    let mut viewer = Plain::connect(server.address);
    viewer.ask("/new");
    until("the origin to be asked", || origin.count("/new") == 1);
    drop(viewer);
    until("its viewer to be missed", || {
        server.wait_for_news();
        server.counter("requests_refused_total{reason=\"edge_viewer_left\"}") == 1
    });
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let answer = Plain::connect_from(other, server.address).fetch("/new");
    assert!(answer.status == 200 && answer.body == *bytes, "{}", answer.head);
    assert_eq!(origin.count("/new"), 1, "{}", answer.head);
    origin.behave(Manner::Good);
}

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

/// A path of the origin, and what it says of it.
struct Drawn {
    path: String,
    lines: String,
    sets_cookie: bool,
}

impl Drawn {
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
        let is_variant = |name: &str| made_for.get(name) == viewer.get(name);
        !says("private,")
            && !says("no-store")
            && (for_all || !self.sets_cookie)
            && (for_all || !made_for.contains_key("cookie"))
            && (for_all || says("must-revalidate") || !has_credentials)
            && varies.iter().all(|(vary, name)| !says(&format!("Vary: {vary}")) || is_variant(name))
    }
}

fn drawn(draws: &mut fastrand::Rng, origin: &Origin, number: usize) -> Drawn {
    let sets_cookie = draws.u8(..4) == 0;
    let cookie = if sets_cookie { "Set-Cookie: id={number}\r\n" } else { "" };
    let (said, vary) = (draws.choice(&DRAWN).unwrap(), draws.choice(&VARIES).unwrap());
    let lines = format!("{said}\r\n{vary}{cookie}X-Mine: {{number}}\r\n");
    let path = format!("/list?{number}");
    origin.put(&path, 1, 10, &lines);
    if number % 4 != 0 {
        origin.change(&path, |object| object.etag = WEAK.into());
    }
    Drawn { path, lines, sets_cookie }
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

/// Checks that nothing in the answer to the viewer with the header fields `own` was made for another viewer alone. Returns whether it was shared.
fn judge(wanted: &Drawn, own: &HashMap<String, String>, answer: &Response, seen: &[Seen]) -> bool {
    let maker = |number: &str| {
        let number: usize = number.parse().unwrap_or_else(|_| panic!("{}", answer.head));
        fields_of(&seen[number - 1].head)
    };
    // A film is revalidated as no viewer in particular.
    let is_own = |made_for: &HashMap<String, String>| made_for.get("x-id") == own.get("x-id");
    let head = fields_of(&answer.head);
    assert_eq!(answer.status, 200, "{}", answer.head);
    let body = maker(std::str::from_utf8(&answer.body).unwrap());
    let why = format!("{}: {own:?} got {body:?}: {}", wanted.lines, answer.head);
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
    let config = format!("{PATIENT}cookies = true\n");
    let words = "--tls off --workers 2";
    let server = launch(&origin, cache.path()).config(&config).arguments(words).start();
    origin.behave(Manner::Counted);
    let paths: Vec<_> = (0..30).map(|number| drawn(&mut draws, &origin, number)).collect();
    let mut viewers: Vec<_> = (0..4).map(|_| Plain::connect(server.address)).collect();
    let mut shared = 0;
    for round in 0..REQUESTS / viewers.len() {
        // All of them want the same, at once.
        let wanted = &paths[draws.usize(..paths.len())];
        let ask = |(index, viewer): (usize, &mut Plain)| {
            let lines = drawn_lines(&mut draws, &format!("{round}.{index}"));
            viewer.ask_with(&wanted.path, &lines);
            fields_of(&lines)
        };
        let own: Vec<_> = viewers.iter_mut().enumerate().map(ask).collect();
        for (viewer, own) in viewers.iter_mut().zip(own) {
            let answer = viewer.answer();
            shared += usize::from(judge(wanted, &own, &answer, &origin.seen()));
        }
    }
    eprintln!("{shared} of {REQUESTS} answers were shared");
    assert!(shared > REQUESTS / 20, "the draws show something: {shared}");
}
