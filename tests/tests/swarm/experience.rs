//! What the server's tables say of its viewers, by what their players report, is what the viewers saw.

use crate::program::swarm_while;
use fullbore_tests::film;
use fullbore_tests::{Server, Signal, eventually, until};
use serde_json::Value;
use std::time::Duration;
use tempfile::tempdir;

const VIEWERS: u64 = 8;

/// What the server knows, once it has heard of all viewers.
fn told(server: &Server) -> Value {
    server.wait_for_news();
    eventually("the tables", || {
        let (_, text) = server.admin_page("/status.json");
        let status: Value = serde_json::from_str(&text).unwrap();
        let all = status["qoe"]["all"].clone();
        (all["sessions_total"] == VIEWERS).then_some(all)
    })
}

#[track_caller]
fn within_2_percent(what: &str, told: f64, seen: f64) {
    assert!(told > 0.0 && (told / seen - 1.0).abs() <= 0.02, "{what}: told {told}, seen {seen}");
}

/// What the server counted, by its name in the tables.
fn number(told: &Value, pointer: &str) -> f64 {
    told.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

#[test]
fn the_servers_tables_and_the_viewers_agree_on_play_delay_and_bit_rate() {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 60);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    // Behind networks, so that a play delay is many of the milliseconds in which players report it.
    let words =
        format!("--cmcd --viewers {VIEWERS} --duration 20s --over 1s --watch 5m --networks home=1");
    let ran = swarm_while(&words, &[&url], || {});
    let told = told(&server);
    within_2_percent(
        "play delay",
        number(&told, "/play_delay_seconds/mean"),
        ran.number("play_delay_seconds/mean"),
    );
    within_2_percent(
        "bit rate",
        number(&told, "/media_bytes_per_second/mean") * 8.0 / 1e6,
        ran.number("mbps/mean"),
    );
}

/// With one bit rate: after a stall a player asks for a segment again at another one, and the server counts both requests.
#[test]
fn the_servers_tables_and_the_viewers_agree_on_stalls() {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 60);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let words = format!(
        "--cmcd --viewers {VIEWERS} --duration 30s --over 1s --watch 5m --buffer 4s --rule fixed:1 --allow-errors"
    );
    let ran = swarm_while(&words, &[&url], || {
        until("the viewers to play", || server.sum("requests_total") > VIEWERS * 6);
        // Longer than what the players hold: each stalls once.
        server.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(7));
        server.signal(Signal::CONT);
    });
    let told = told(&server);
    assert!(ran.number("stalls/count") >= VIEWERS as f64, "{}", ran.figures);
    within_2_percent("stalls", number(&told, "/stalls_total"), ran.number("stalls/count"));
    within_2_percent(
        "time in stalls",
        number(&told, "/stalled_seconds_total"),
        ran.number("stalled_seconds"),
    );
}
