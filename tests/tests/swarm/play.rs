//! Viewers who play from the real server.

use crate::program::{command, swarm, swarm_until};
use fullbore_tests::film;
use fullbore_tests::{Ran, Server, Signal, nobody_stalled, program, tool, until};
use ingest::sample::{Recipe, TITLE, ensure_recipe};
use ingest::{Ladder, Rung};
use rustix::process::{Pid, kill_process};
use std::process::{Command, Stdio};
use tempfile::{TempDir, tempdir};

fn library(segments: usize) -> TempDir {
    let folder = tempdir().unwrap();
    film::make(folder.path(), segments);
    folder
}

/// The viewers' counts of bytes and requests match the server's.
#[track_caller]
fn agrees(ran: &Ran, server: &Server) {
    server.wait_for_news();
    let (requests, bytes) = (server.sum("requests_total"), server.sum("response_sent_bytes_total"));
    // At the end of the run a response may be under way; and the server counts heads.
    let open = requests as f64 - ran.number("responses");
    let viewers = ran.number("sessions/count");
    assert!((0.0..=2.0 * viewers).contains(&open), "{requests} requests, {}", ran.figures);
    let more = bytes as f64 - ran.number("body_bytes");
    let heads = 1000.0 * requests as f64;
    let unread = open * film::segment_bytes(film::RUNGS.len() - 1) as f64;
    assert!((0.0..=heads + unread).contains(&more), "{bytes} bytes, {}", ran.figures);
}

#[test]
fn viewers_play_without_a_stall_over_plain_http_and_tls() {
    let folder = library(60);
    for tls in ["off", "on"] {
        let server = Server::start(folder.path(), &format!("--workers 1 --tls {tls}"));
        let url = server.url_of("film/master.m3u8");
        let words = "--insecure --viewers 20 --over 1s --watch 1h --sources 127.1.0.0/24";
        let ran = swarm_until(words, &[&url], |course| {
            let begun = course.until("all to play", |now| now.number("playing") == 20);
            // Enough for each to have found its bit rate.
            course.until("all to play for a while", |now| {
                let segments = now.number("requests") >= 20 * 15;
                segments && now.number("playing") == 20 && now.seconds() >= begun.seconds() + 6.0
            });
        });
        assert!(ran.figures["clean"] == true && ran.stderr.is_empty(), "{}", ran.stderr);
        assert_eq!(ran.number("sessions/count"), 20.0);
        assert_eq!(ran.number("sessions/started"), 20.0, "{}", ran.figures);
        nobody_stalled(&ran);
        assert!(ran.number("play_delay_seconds/p99") > 0.0);
        // Loopback is fast enough for the highest bit rate, and players find that out.
        assert!(ran.number("mbps/p50") > 1.2, "{}", ran.figures);
        assert!(ran.number("time_to_quality_seconds/count") == 20.0, "{}", ran.figures);
        assert!(ran.number("played_seconds") > 20.0 * 5.0, "{}", ran.figures);
        assert_eq!(ran.number("handshakes") > 0.0, tls == "on");
        assert!(ran.number("own/lag_ms/p99") >= 0.0);
        assert!(ran.figures["course"].as_array().is_some_and(|course| course.len() >= 2));
        agrees(&ran, &server);
    }
}

#[test]
fn a_film_as_ingest_makes_it_plays_to_its_end_as_hls_and_as_dash() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        tool::skip("there is no ffmpeg: apt install ffmpeg");
        return;
    }
    let folder = tempdir().unwrap();
    let rungs = vec![Rung { height: 90, kbps: 200 }, Rung { height: 180, kbps: 600 }];
    let recipe = Recipe { seconds: 6, ladder: Ladder::new(rungs).unwrap() };
    ensure_recipe(folder.path(), &recipe, |_| ()).unwrap();
    let server = Server::start(folder.path(), "--workers 1");
    for manifest in ["master.m3u8", "manifest.mpd"] {
        let url = server.url_of(&format!("{TITLE}/{manifest}"));
        let words = "--insecure --viewers 3 --duration 1h --arrivals together --watch 2h";
        let ran = swarm(words, &[&url]).clean();
        assert_eq!(ran.number("sessions/finished"), 3.0, "{manifest}: {}", ran.figures);
        nobody_stalled(&ran);
        let played = ran.number("played_seconds");
        assert!((17.0..=19.0).contains(&played), "{manifest}: {played}");
        assert!(ran.number("wall_seconds") < 3600.0, "it ends when all viewers are gone");
    }
}

#[test]
fn the_same_seed_brings_the_same_viewers() {
    let folder = tempdir().unwrap();
    for title in ["a", "b"] {
        film::make(&folder.path().join(title), 20);
    }
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let urls = ["a", "b"].map(|title| server.url_of(&format!("{title}/film/master.m3u8")));
    // The number of viewers who chose each title.
    let choices = |seed: u32| {
        let words = format!("--viewers 30 --over 1s --watch 1h --seed {seed}");
        let ran = swarm_until(&words, &urls.each_ref().map(String::as_str), |course| {
            course.until("all to come", |now| now.number("waiting") + now.number("playing") == 30);
        });
        assert_eq!(ran.number("sessions/count"), 30.0);
        [0, 1].map(|title| ran.number(&format!("titles/{title}/sessions/count")))
    };
    assert_eq!(choices(7), choices(7));
}

#[test]
fn viewers_behind_slow_networks_wait_for_their_round_trips() {
    let folder = library(600);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let words = "--viewers 10 --arrivals together --watch 1h --networks home=1";
    let ran = swarm_until(words, &[&url], |course| {
        course.until("all to play", |now| now.number("playing") == 10);
    });
    assert_eq!(ran.number("sessions/started"), 10.0);
    // A round trip for TCP and one for each of the first requests.
    assert!(ran.number("play_delay_seconds/p1") > 0.02, "{}", ran.figures);
}

#[test]
fn ctrl_c_ends_the_run_with_what_was_seen_so_far() {
    let folder = library(60);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let mut command = command("--viewers 2 --duration 10m --over 0 --watch 10m", &[&url]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("segments to be requested", || server.sum("requests_total") > 8);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("interrupted after") && said.contains("2 sessions"), "{said}");
    assert!(output.stderr.is_empty(), "progress in a pipe");
}

#[test]
fn a_page_is_written_beside_the_figures() {
    let folder = library(10);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let page = folder.path().join("page.html");
    let words = format!("--viewers 3 --duration 3s --over 1s --html {}", page.display());
    swarm(&words, &[&url]).clean();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Of 3 viewers") && page.contains("Viewers over time"), "{page}");
}

#[test]
fn a_server_that_is_not_there_ends_the_run_with_a_sentence() {
    let ran = swarm("--viewers 5 --over 0 --duration 60s", &["http://127.0.0.1:1/a.m3u8"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("every request failed") && ran.stderr.contains("is it running?"),
        "{}",
        ran.stderr
    );
    let untrusted = tempdir().unwrap();
    film::make(untrusted.path(), 2);
    let server = Server::start(untrusted.path(), "--workers 1");
    let ran = swarm("--viewers 5 --over 0 --duration 60s", &[&server.url_of("film/master.m3u8")]);
    assert!(ran.code == Some(1) && ran.stderr.contains("--insecure"), "{}", ran.stderr);
}

#[test]
fn wrong_usage_is_told_before_anything_is_requested() {
    let usage = |words: &str| {
        let mut command = Command::new(program());
        command.arg("swarm").args(words.split_whitespace()).output().unwrap()
    };
    for words in [
        "",
        "ftp://a/b",
        "http://a/b --viewers 0",
        "http://a/b --rule clever",
        "http://a/b --sources 127.0.0.0/99",
        "http://a/b --networks train=1",
        "http://a/b --duration 0",
        "http://a/b --also-at a/b",
    ] {
        let output = usage(words);
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
    }
    let help = String::from_utf8(usage("--help").stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("docs/swarm.md"), "{help}");
}

#[test]
fn a_server_that_stands_still_makes_viewers_stall_and_the_reason_is_silence() {
    let folder = library(600);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let words = "--viewers 2 --arrivals together --watch 1h --buffer 4s --allow-errors";
    let ran = swarm_until(words, &[&url], |course| {
        course.until("both to play", |now| now.number("playing") == 2);
        server.signal(Signal::STOP);
        course.until("both to stall", |now| now.number("stalled") == 2);
        server.signal(Signal::CONT);
        course.until("both to play again", |now| now.number("playing") == 2);
    });
    assert_eq!(ran.number("sessions/without_stall"), 0.0, "{}", ran.figures);
    // On a busy machine one of them may stall for another reason just before. In virtual time none does: `each_fault_of_a_lone_server...`.
    assert!(ran.number("stalls/by_reason/silence") >= 1.0, "{}", ran.figures);
}
