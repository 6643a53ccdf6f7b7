//! The server's figures about its viewers, from their players' reports, match what the viewers saw.

use crate::program::swarm_until;
use fullbore_tests::film;
use fullbore_tests::{Server, Signal, eventually};
use serde_json::Value;
use tempfile::tempdir;

const VIEWERS: u64 = 8;

/// The server's figures, once it has reports of all viewers.
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

/// A count of the server's, by its name in the tables.
fn number(told: &Value, pointer: &str) -> f64 {
    told.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

#[test]
fn the_servers_tables_and_the_viewers_agree_on_play_delay_and_bit_rate() {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 600);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    // Behind networks, so that a play delay is many times the milliseconds in which players report it.
    let words = format!("--cmcd --viewers {VIEWERS} --over 1s --watch 1h --networks home=1");
    let ran = swarm_until(&words, &[&url], |course| {
        // More than fill the buffers: from then on hardly any segment is under way, so the end makes no difference.
        course.until("segments", |now| now.number("requests") > VIEWERS * 68);
    });
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

/// With one bit rate: after a stall a player requests a segment again at another one, and the server counts both requests.
#[test]
fn the_servers_tables_and_the_viewers_agree_on_stalls() {
    agree_on_stalls("--cmcd");
}

/// With events as well, stalls count once, and with the times of the events.
#[test]
fn the_servers_tables_and_the_viewers_agree_on_stalls_that_are_posted_too() {
    let told = agree_on_stalls("--cmcd --cmcd-events");
    assert!(
        number(&told, "/events_total") >= (VIEWERS * 4) as f64,
        "s, p, r and p of each: {told}"
    );
    assert_eq!(number(&told, "/events_lost_total"), 0.0, "{told}");
}

fn agree_on_stalls(reports: &str) -> Value {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 600);
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("film/master.m3u8");
    let words = format!(
        "{reports} --viewers {VIEWERS} --over 1s --watch 1h --buffer 4s --rule fixed:1 --allow-errors"
    );
    let ran = swarm_until(&words, &[&url], |course| {
        course.until("the viewers to play", |now| now.number("playing") == VIEWERS);
        server.signal(Signal::STOP);
        let all = course.until("all to stall", |now| now.number("stalled") == VIEWERS);
        // Long enough that the moments before players notice don't matter.
        course.until("a long stall", |now| now.seconds() >= all.seconds() + 3.0);
        server.signal(Signal::CONT);
        let again =
            course.until("the viewers to play again", |now| now.number("playing") == VIEWERS);
        // A player reports a stall with its next request.
        course.until("reports", |now| {
            let requests = now.number("requests") - again.number("requests");
            now.number("playing") == VIEWERS && requests >= VIEWERS * 4
        });
    });
    let told = told(&server);
    assert!(ran.number("stalls/count") >= VIEWERS as f64, "{}", ran.figures);
    within_2_percent("stalls", number(&told, "/stalls_total"), ran.number("stalls/count"));
    within_2_percent(
        "time in stalls",
        number(&told, "/stalled_seconds_total"),
        ran.number("stalled_seconds"),
    );
    told
}
