//! What players report about their viewers (CMCD), from requests over sockets to the figures that an operator reads.

mod posted;
mod svta;

use fullbore_tests::tool;
use fullbore_tests::{Launch, Plain, Server, eventually};
use ingest::sample::{Recipe, TITLE, ensure_recipe};
use ingest::{Ladder, Rung};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// A library with two titles.
fn library() -> TempDir {
    let folder = tempdir().unwrap();
    for title in ["films/a", "films/b"] {
        let title = folder.path().join(title);
        fs::create_dir_all(&title).unwrap();
        fs::write(title.join("master.m3u8"), "#EXTM3U\n").unwrap();
        fs::write(title.join("1.m4s"), "a segment").unwrap();
    }
    folder
}

/// `text` as the argument of a query.
fn query(text: &str) -> String {
    let encoded =
        text.replace('"', "%22").replace('=', "%3D").replace(',', "%2C").replace(';', "%3B");
    format!("?CMCD={}", encoded.replace(' ', "%20"))
}

/// The server's figures about viewers' experience, once it has processed this many reports.
fn experience(server: &Server, reports: u64) -> Value {
    eventually(&format!("{reports} reports"), || {
        let (_, text) = server.admin_page("/status.json");
        let status: Value = serde_json::from_str(&text).unwrap();
        let all = &status["qoe"]["all"];
        assert!(all["reports_total"].as_u64().unwrap() <= reports, "{all}");
        (all["reports_total"] == reports).then(|| status["qoe"].clone())
    })
}

fn title<'a>(experience: &'a Value, name: &str) -> &'a Value {
    let titles = experience["titles"].as_array().unwrap();
    titles
        .iter()
        .find(|title| title["title"] == name)
        .unwrap_or_else(|| panic!("{name}: {titles:?}"))
}

#[track_caller]
fn near(value: &Value, expected: f64) {
    let found = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((found - expected).abs() <= expected / 100.0, "{found}, not {expected}");
}

#[test]
fn sessions_are_counted_to_the_right_quantiles_by_title() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 2");
    // By query, over a connection for each request: each worker sees a part of a session.
    for index in 1..=100 {
        let manifest = query(&format!("ot=m,sid=\"viewer-{index}\",su"));
        let start = format!(
            "ot=v,sid=\"viewer-{index}\",d=4000,br={},tb=9000,msd={}",
            index * 100,
            index * 10
        );
        let stall =
            format!("v=2,ot=v,sid=\"viewer-{index}\",d=4000,br=({};v),bsd=(500;v)", index * 100);
        for (file, text) in
            [("master.m3u8", manifest), ("1.m4s", query(&start)), ("1.m4s", query(&stall))]
        {
            let answer = Plain::connect(server.address).fetch(&format!("/films/a/{file}{text}"));
            assert_eq!(answer.status, 200);
        }
    }
    // By headers.
    let mut viewer = Plain::connect(server.address);
    for (object, request) in [("ot=m", "su"), ("ot=v,br=800,d=2000", "msd=3000")] {
        let file = if object == "ot=m" { "master.m3u8" } else { "1.m4s" };
        let lines = format!(
            "CMCD-Object: {object}\r\nCMCD-Request: {request}\r\nCMCD-Session: sid=\"viewer-1000\"\r\n"
        );
        assert_eq!(viewer.fetch_with(&format!("/films/b/{file}"), &lines).status, 200);
    }

    let told = experience(&server, 302);
    let (first, second) = (title(&told, "films/a"), title(&told, "films/b"));
    assert_eq!((&first["sessions_total"], &second["sessions_total"]), (&100.into(), &1.into()));
    near(&first["play_delay_seconds"]["p50"], 0.5);
    near(&first["play_delay_seconds"]["p90"], 0.9);
    near(&first["play_delay_seconds"]["max"], 1.0);
    near(&first["media_bytes_per_second"]["p50"], 625_000.0);
    near(&second["play_delay_seconds"]["p50"], 3.0);
    near(&second["media_bytes_per_second"]["p50"], 100_000.0);
    assert_eq!(first["stalls_total"], 100);
    near(&first["stalled_seconds_total"], 50.0);
    // 80% of 9000 is 7200: sessions from 72 on are good with their first four seconds.
    assert_eq!(first["time_to_quality_seconds"]["count"], 29);
    let counters = server.counters();
    assert_eq!(counters.value("cmcd_reports_total"), 302);
    assert_eq!(counters.value("qoe_play_delay_seconds_bucket{le=\"0.5\"}"), 50);
    assert_eq!(counters.value("qoe_play_delay_seconds_count"), 101);
    assert_eq!(counters.value("qoe_title_play_delay_seconds_count{title=\"films/a\"}"), 100);
    assert_eq!(counters.value("qoe_title_stalls_total{title=\"films/b\"}"), 0);
    for page in ["/metrics", "/status.json"] {
        assert!(!server.admin_page(page).1.contains("viewer-"), "{page} names a viewer");
    }
}

#[test]
fn play_delay_is_measured_where_the_player_does_not_tell_it() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off");
    let mut viewer = Plain::connect(server.address);
    viewer.fetch(&format!("/films/a/master.m3u8{}", query("ot=m,su,sid=\"x\"")));
    viewer.fetch(&format!("/films/a/1.m4s{}", query("ot=v,su,sid=\"x\",d=4000")));
    let waited = Duration::from_millis(400);
    // sleeps: the viewer's wait, which has to be measured as this long at least
    std::thread::sleep(waited);
    viewer.fetch(&format!("/films/a/1.m4s{}", query("ot=v,sid=\"x\",d=4000")));
    let told = experience(&server, 3);
    let delay = told["all"]["play_delay_seconds"]["max"].as_f64().expect("a play delay");
    assert!(delay >= waited.as_secs_f64() - 0.005, "{delay} s");
}

#[test]
fn what_is_told_does_not_change_what_is_served() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off --workers 1");
    let mut viewer = Plain::connect(server.address);
    let tag = |answer: &fullbore_tests::Response| {
        answer.head.lines().find(|line| line.starts_with("ETag: ")).map(str::to_owned)
    };
    let plain = viewer.fetch("/films/a/1.m4s");
    let told = viewer.fetch(&format!("/films/a/1.m4s{}", query("sid=\"x\",ot=v")));
    let garbage = viewer.fetch("/films/a/1.m4s?CMCD=%zz,=,sid=%22&CMCD");
    assert!(tag(&plain).is_some());
    for answer in [told, garbage] {
        assert_eq!((answer.status, &answer.body), (200, &plain.body));
        assert_eq!(tag(&answer), tag(&plain));
    }
    let too_long = format!("/films/a/1.m4s?CMCD=sid%3D%22{}%22", "x".repeat(5000));
    assert_eq!(viewer.fetch(&too_long).status, 200);
    assert!(server.counters().value("cmcd_malformed_total") >= 2);
    server.wait_for_counter("open_files", 1);
    assert_eq!(server.counters().value("open_files"), 1);
}

#[test]
fn sessions_that_one_viewer_invents_are_one_viewer_and_none_without_bytes() {
    let folder = library();
    fs::write(folder.path().join("films/a/2.m4s"), vec![7; 1 << 20]).unwrap();
    let server = Server::start(folder.path(), "--tls off --workers 2");
    let stall = |session: u32| query(&format!("v=2,ot=v,sid=\"{session}\",d=1000,bsd=(900;v)"));
    let mut viewer = Plain::connect(server.address);
    for session in (1..=6).chain(1..=6) {
        let target = format!("/films/a/2.m4s{}", stall(session));
        assert_eq!(viewer.fetch_with(&target, "Range: bytes=0-9\r\n").body.len(), 10);
    }
    let told = experience(&server, 12);
    assert_eq!((&told["all"]["sessions"], &told["all"]["stalls_total"]), (&6.into(), &12.into()));
    assert_eq!(told["credible"]["viewers"], 0, "{}", told["credible"]);
    assert_eq!(told["credible"]["stalled_seconds_total"].as_f64(), Some(0.0));
    // Now they fetch the whole film.
    for session in 1..=6 {
        let whole = viewer.fetch(&format!("/films/a/2.m4s{}", stall(session)));
        assert_eq!(whole.body.len(), 1 << 20);
    }
    eventually("the address is a viewer", || {
        let (_, text) = server.admin_page("/status.json");
        let status: Value = serde_json::from_str(&text).unwrap();
        (status["qoe"]["credible"]["viewers"] == 1).then_some(())
    });
}

#[test]
fn nobody_makes_up_titles() {
    let folder = library();
    let server = Server::start(folder.path(), "--tls off");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch(&format!("/films/none/1.m4s{}", query("sid=\"x\",ot=v"))).status, 404);
    assert_eq!(viewer.fetch(&format!("/films/a/1.m4s{}", query("ot=v,br=1"))).status, 200);
    assert_eq!(viewer.fetch(&format!("/films/a/1.m4s{}", query("sid=\"x\",ot=v"))).status, 200);
    let told = experience(&server, 1);
    assert_eq!(told["titles"].as_array().map(Vec::len), Some(1));
    let counters = server.counters();
    assert_eq!(
        (counters.value("cmcd_reports_total"), counters.value("cmcd_sessionless_total")),
        (1, 1)
    );
}

#[test]
fn who_does_not_want_to_know_is_told_nothing() {
    let folder = library();
    let beside = tempdir().unwrap();
    let config = beside.path().join("fullbore.toml");
    fs::write(&config, "[http]\ncmcd = false\n").unwrap();
    let launch = Launch::of(folder.path()).arguments("--tls off --config").argument(&config);
    let server = launch.start();
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch(&format!("/films/a/1.m4s{}", query("sid=\"x\",ot=v"))).status, 200);
    assert_eq!(server.counters().value("cmcd_reports_total"), 0);
    let status: Value = serde_json::from_str(&server.admin_page("/status.json").1).unwrap();
    assert!(status["qoe"].is_null());
    assert!(!server.admin_page("/metrics").1.contains("fullbore_qoe"));
}

#[test]
fn a_session_of_ffmpeg_is_one_session_of_its_title() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg")]) {
        return;
    }
    let folder = tempdir().unwrap();
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 200 }]).unwrap();
    ensure_recipe(folder.path(), &Recipe { seconds: 4, ladder }, |_| ()).unwrap();
    let server = Server::start(folder.path(), "");
    let mut command = tool::command("ffmpeg");
    let lines = "CMCD-Session: sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\",sf=h\r\n";
    command.args(["-nostdin", "-v", "error", "-tls_verify", "0", "-headers", lines]);
    command.arg("-i").arg(server.url_of(&format!("{TITLE}/master.m3u8"))).args(["-f", "null", "-"]);
    let ran = tool::run(&mut command);
    assert!(ran.success, "{}", ran.stderr);
    let reports = server.counters().value("cmcd_reports_total");
    assert!(reports > 1, "ffmpeg asks for playlists and media");
    let told = experience(&server, reports);
    assert_eq!(told["all"]["sessions_total"], 1);
    assert_eq!(title(&told, TITLE)["sessions_total"], 1);
}
