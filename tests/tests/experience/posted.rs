//! Events that players post to `/-/cmcd` (CMCD version 2, event mode).

use crate::{experience, library, near, query, title};
use fullbore_tests::{Launch, Plain, Server, eventually, program, tool};
use serde_json::Value;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::tempdir;

/// A moment of a player's clock, which is not ours.
const CLOCK_MS: u64 = 1_700_000_000_000;

/// Another viewer's address on this machine.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The line of a change of state, at a time after [`CLOCK_MS`].
fn state(session: &str, ms: u64, state: &str) -> String {
    format!("e=ps,sid=\"{session}\",sn=1,sta={state},ts={},v=2", CLOCK_MS + ms)
}

/// The server's figures, once it has counted this many events.
pub(crate) fn after_events(server: &Server, events: u64) -> Value {
    eventually(&format!("{events} events"), || {
        let status: Value = serde_json::from_str(&server.admin_page("/status.json").1).unwrap();
        let counted = status["qoe"]["all"]["events_total"].as_u64().unwrap();
        assert!(counted <= events, "{counted}");
        (counted == events).then(|| status["qoe"].clone())
    })
}

#[test]
fn what_requests_and_events_say_of_a_session_counts_once() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 2");
    let ask = |file: &str, text: &str| {
        let target = format!("/films/a/{file}{}", query(&format!("sid=\"me\",{text}")));
        assert_eq!(Plain::connect(server.address).fetch(&target).status, 200);
    };
    let post = |lines: &[String]| {
        let answer = Plain::connect(server.address).post("/-/cmcd", lines.join("\n").as_bytes());
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.head);
    };
    post(&[state("me", 0, "s")]);
    ask("master.m3u8", "ot=m,su");
    ask("1.m4s", "ot=v,su,d=4000");
    post(&[state("me", 750, "p")]);
    // The session's name is no secret, and its requests come from another address.
    let mut other = Plain::connect_from(OTHER, server.address);
    assert_eq!(other.post("/-/cmcd", state("me", 800_000, "f").as_bytes()).status, 204);
    ask("1.m4s", "ot=v,d=4000,msd=900");
    post(&[state("me", 8750, "r"), state("me", 9250, "p"), state("stranger's", 0, "p")]);
    ask("1.m4s", "ot=v,d=4000,bs,bsd=(700;v)");
    let error = format!("e=e,ec=(\"x,y\"),sid=\"me\",ts={},v=2,com.example-a=b", CLOCK_MS + 9300);
    post(&[state("me", 9250, "p"), error, state("me", 12_250, "e")]);
    experience(&server, 4);
    let told = after_events(&server, 7);
    let film = title(&told, "films/a");
    for figures in [&told["all"], film] {
        assert_eq!((&figures["sessions_total"], &figures["stalls_total"]), (&1.into(), &1.into()));
        assert_eq!(
            (&figures["errors_total"], &figures["play_delay_seconds"]["count"]),
            (&1.into(), &1.into())
        );
        near(&figures["play_delay_seconds"]["max"], 0.75);
        near(&figures["stalled_seconds_total"], 0.5);
        near(&figures["played_seconds_total"], 11.0);
    }
    assert_eq!(told["titles"].as_array().map(Vec::len), Some(1), "no session without a request");
    let counters = server.counters();
    assert_eq!(counters.value("cmcd_events_total"), 9);
    assert_eq!(counters.value("cmcd_malformed_total"), 0);
    assert_eq!(counters.value("qoe_title_errors_total{title=\"films/a\"}"), 1);
    for page in ["/metrics", "/status.json"] {
        assert!(!server.admin_page(page).1.contains("stranger's"), "{page} names a viewer");
    }
}

#[test]
fn each_post_gets_the_answer_that_players_understand() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 1");
    let mut player = Plain::connect(server.address);
    let good = state("me", 0, "s");
    for (body, status) in [
        (good.clone(), 204),
        (format!("\r\n{good}\r\nnonsense!\r\n"), 204),
        (String::new(), 400),
        ("{\"sid\":\"me\"}".into(), 400),
        ("\0\u{ff}\n\n\n".repeat(2000), 400),
        (good.clone(), 204),
    ] {
        let answer = player.post("/-/cmcd", body.as_bytes());
        assert_eq!(answer.status, status, "{body:.40}");
        assert!(!answer.head.contains("Connection: close"), "{}", answer.head);
        assert!(answer.head.contains("Access-Control-Allow-Origin: *\r\n"), "{}", answer.head);
    }
    assert_eq!(player.fetch("/films/a/1.m4s").body, b"a segment", "the connection goes on");
    assert_eq!(server.counters().value("cmcd_events_total"), 3);
    for (method, path, status, allowed) in [
        ("GET", "/-/cmcd", 405, "Allow: POST, OPTIONS\r\n"),
        ("PUT", "/-/cmcd?x", 405, "Allow: POST, OPTIONS\r\n"),
        ("OPTIONS", "/-/cmcd", 204, "Access-Control-Allow-Headers: Content-Type\r\n"),
        ("OPTIONS", "/-/cmcd", 204, "Access-Control-Allow-Methods: POST, OPTIONS\r\n"),
        ("OPTIONS", "/films/a/1.m4s", 204, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"),
        ("POST", "/films/a/1.m4s", 405, "Allow: GET, HEAD, OPTIONS\r\n"),
        ("POST", "/-/other", 405, "Allow: GET, HEAD, OPTIONS\r\n"),
    ] {
        player.ask_by(method, path, "");
        let answer = player.answer();
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.head.contains(allowed), "{method} {path}: {}", answer.head);
    }
    for (lines, status) in
        [("Content-Length: 65537\r\n", 413), ("Transfer-Encoding: chunked\r\n", 411)]
    {
        let mut player = Plain::connect(server.address);
        player.ask_by("POST", "/-/cmcd", lines);
        let answer = player.answer();
        assert_eq!(answer.status, status);
        assert!(answer.head.contains("Connection: close\r\n"), "{}", answer.head);
    }
}

#[test]
fn switches_hold_for_posts_too() {
    let folder = library();
    let settings = tempdir().unwrap();
    let config = settings.path().join("fullbore.toml");
    let launch = |text: &str| {
        fs::write(&config, text).unwrap();
        Launch::of(folder.path()).arguments("--tls off --config").argument(&config).start()
    };
    let body = state("me", 0, "s").into_bytes();
    let off = launch("[http]\ncmcd = false\n");
    let mut player = Plain::connect(off.address);
    let answer = player.post("/-/cmcd", &body);
    assert!(answer.status == 405 && answer.head.contains("Allow: GET, HEAD, OPTIONS\r\n"));
    assert_eq!(player.fetch("/-/cmcd").status, 404);
    drop(off);
    let own = launch("[http]\ncors = false\n");
    let mut player = Plain::connect(own.address);
    player.ask_by("OPTIONS", "/-/cmcd", "Origin: https://a.example\r\n");
    let answer = player.answer();
    assert!(answer.status == 204 && !answer.head.contains("Access-Control"), "{}", answer.head);
    assert_eq!(player.post("/-/cmcd", &body).status, 204, "the server's own page may");
}

#[test]
fn a_token_before_the_collectors_path_is_neither_needed_nor_checked() {
    let folder = library();
    let settings = tempdir().unwrap();
    let key = settings.path().join("url.key");
    let made = tool::run(Command::new(program()).args(["sign", "--new-key"]).arg(&key));
    assert!(made.success, "{}", made.stderr);
    let config = settings.path().join("fullbore.toml");
    fs::write(&config, format!("[signing]\nkeys = [{key:?}]\n")).unwrap();
    let launch = Launch::of(folder.path()).arguments("--tls off --config").argument(&config);
    let server = launch.start();
    let mut player = Plain::connect(server.address);
    assert_eq!(player.fetch("/films/a/1.m4s").status, 403);
    for path in ["/-/cmcd", "/t/forged/-/cmcd"] {
        assert_eq!(player.post(path, state("me", 0, "p").as_bytes()).status, 204, "{path}");
    }
    let other = eventually("the events wait for a request", || {
        let status: Value = serde_json::from_str(&server.admin_page("/status.json").1).unwrap();
        (server.counters().value("cmcd_events_total") == 2).then(|| status["qoe"].clone())
    });
    assert_eq!(other["all"]["sessions_total"], 0);
}

#[test]
fn a_client_that_posts_too_much_is_refused_and_others_are_not() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 1");
    let mut player = Plain::connect(server.address);
    let body = vec![state("flood", 0, "p"); 256].join("\n");
    for _ in 0..4 {
        assert_eq!(player.post("/-/cmcd", body.as_bytes()).status, 204);
    }
    assert!(server.counters().value("cmcd_events_lost_total") > 0, "1,000 may come at once");
    // All at once, so that the allowance does not fill again meanwhile.
    let line = state("flood", 0, "p");
    let post =
        format!("POST /-/cmcd HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{line}", line.len());
    player.send(post.repeat(100).as_bytes());
    let answers: Vec<_> = (0..100).map(|_| player.answer()).collect();
    assert!(answers.iter().all(|answer| matches!(answer.status, 204 | 429)));
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    let refused_head = &refused.first().expect("50 in a second are enough").head;
    assert!(refused_head.contains("Retry-After: 5\r\n") && !refused_head.contains("close"));
    assert_eq!(player.fetch("/films/a/1.m4s").status, 200, "a refusal keeps the connection");
    let counted = server.counters().value("requests_refused_total{reason=\"cmcd_too_many\"}");
    assert_eq!(counted, refused.len() as u64);
    let mut other = Plain::connect_from(OTHER, server.address);
    assert_eq!(other.post("/-/cmcd", state("me", 0, "p").as_bytes()).status, 204);
    assert_eq!(Plain::connect(server.address).fetch("/films/a/1.m4s").status, 200);
}

#[test]
fn slow_and_hostile_bodies_leave_viewers_and_other_players_served() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 1");
    // Bodies that never come, from one client: eight may be waited for.
    let head = "POST /-/cmcd HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\ne=ps";
    let slow: Vec<_> = (0..12)
        .map(|_| {
            let mut player = Plain::connect(server.address);
            player.send(head.as_bytes());
            player
        })
        .collect();
    let refused = "requests_refused_total{reason=\"cmcd_too_many\"}";
    eventually("four bodies too many", || (server.counters().value(refused) == 4).then_some(()));
    let is_over = AtomicBool::new(false);
    let noise: Vec<u8> = (0..60_000_u32).map(|at| ((at * at) >> 7) as u8).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    Plain::connect(server.address).post("/-/cmcd", &noise);
                }
            });
        }
        let mut viewer = Plain::connect_from(OTHER, server.address);
        for index in 0..200 {
            let target = format!("/films/a/1.m4s{}", query("ot=v,d=2000,sid=\"me\""));
            assert_eq!(viewer.fetch(&target).body, b"a segment");
            let line = state("me", index * 2000, "p");
            assert_eq!(viewer.post("/-/cmcd", line.as_bytes()).status, 204);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(slow);
    assert_eq!(after_events(&server, 200)["all"]["sessions_total"], 1);
    assert_eq!(experience(&server, 200)["all"]["reports_lost_total"], 0);
}
