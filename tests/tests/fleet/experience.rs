//! What the gateway says of viewers' experience, and what the viewers themselves saw.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fullbore_tests::{Course, Ran, Signal, program, swarm_until, within};
use rustix::process::kill_process;
use serde_json::Value;

use crate::house::{DEATH, Extras, Fleet, Node, get};

/// On each of two nodes. Fewer than ten sessions would not be reported, and of more, a report that ends between them would leave a few behind.
const VIEWERS: u64 = 10;

/// The part of a session that counts here: several times what the viewers take, and if the machine is so slow that they took longer, more.
const COUNTED: [Duration; 2] = [Duration::from_secs(40), Duration::from_secs(240)];

/// Viewers' addresses, which are not to be found anywhere afterwards.
const SOURCES: &str = "127.200.0.0/16";

/// The name of a session that doesn't count, because it begins in the middle of the film.
const SESSION: &str = "annas-session-4711";

/// Viewers who play the film directly at a node, and report.
fn watch(node: &Node, port: u16, words: &str, meanwhile: impl FnOnce(&Course)) -> Ran {
    let mut command = Command::new(program());
    command.args(["swarm", "--threads", "1", "--cmcd", "--allow-errors", "--over", "200ms"]);
    command.args(["--watch", "1h", "--sources", SOURCES, "--viewers", &VIEWERS.to_string()]);
    command.args(words.split_whitespace());
    command.arg(format!("http://{}:{port}/film/master.m3u8", node.host));
    swarm_until(command, meanwhile)
}

/// Viewers who all stall once, because their node stands still.
fn stall(node: &Node, port: u16) -> Ran {
    watch(node, port, "--buffer 4s --rule fixed:1", |course| {
        course.until("the viewers to play", |now| now.number("playing") == VIEWERS);
        let server = node.server();
        kill_process(server, Signal::STOP).unwrap();
        let all = course.until("all to stall", |now| now.number("stalled") == VIEWERS);
        // Long enough that the moments before players notice don't matter.
        course.until("a long stall", |now| now.seconds() >= all.seconds() + 3.0);
        kill_process(server, Signal::CONT).unwrap();
        let again = course.until("all to play again", |now| now.number("playing") == VIEWERS);
        // A player reports a stall with its next request.
        course.until("reports", |now| {
            now.number("playing") == VIEWERS
                && now.number("requests") - again.number("requests") >= VIEWERS * 4
        });
    })
}

/// Viewers behind networks, so that a play delay is many times the milliseconds in which players report it.
fn play(node: &Node, port: u16) -> Ran {
    watch(node, port, "--buffer 20s --networks home=1", |course| {
        // As many segments as fill all buffers, and some more.
        course.until("segments", |now| now.number("requests") > VIEWERS * 17);
    })
}

#[track_caller]
fn within_2_percent(what: &str, told: &Value, seen: f64) {
    let told = told.as_f64().unwrap_or(0.0);
    assert!(told > 0.0 && (told / seen - 1.0).abs() <= 0.02, "{what}: told {told}, seen {seen}");
}

/// The row of a site.
fn site<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {answer}"))
}

/// Everything that the fleet's processes have written: files in their folders, their output, and a gateway's answers.
fn written(fleet: &Fleet) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![fleet.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        // The films are what they are.
        let is_film = |path: &Path| path.ends_with("origin") || path.ends_with("library");
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !is_film(&path) {
                folders.push(path);
            } else if path.is_file() {
                all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    for process in fleet.nodes.iter().map(|node| &node.agent).chain([&fleet.gateway]) {
        let lines = [process.stdout.lines(), process.stderr.lines()].concat();
        all.push(("output".to_owned(), lines.join("\n").into_bytes()));
    }
    all.push(("page".to_owned(), fleet.page().to_string().into_bytes()));
    for by in ["title", "site", "region", "network", "player", "node"] {
        let answer = fleet.control(&["qoe", "week", "--by", by]).to_string();
        all.push((by.to_owned(), answer.into_bytes()));
        let mut csv = Command::new(program());
        csv.args(["control", "qoe", "week", "--csv", "--by", by, "--admin", &fleet.admin]);
        let ran = csv.arg("--state").arg(fleet.path("gateway")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        all.push((format!("{by} as CSV"), ran.stdout));
    }
    all
}

/// Whether a viewer's address is in the text: any of [`SOURCES`] but the network itself.
fn has_address(text: &str) -> bool {
    text.match_indices("127.200.").any(|(at, _)| !text[at..].starts_with("127.200.0.0/16"))
}

/// No group of fewer than ten sessions, and none that is left when the rows are subtracted from the total.
fn check_groups(fleet: &Fleet) {
    for over in ["now", "day", "week"] {
        for by in ["title", "site", "region", "network", "player", "node"] {
            let answer = fleet.control(&["qoe", over, "--by", by]);
            let rows = answer["rows"].as_array().expect("rows");
            let sessions: Vec<_> = rows.iter().filter_map(|row| row["sessions"].as_u64()).collect();
            assert!(sessions.iter().all(|count| *count >= 10), "{by}: {answer}");
            assert_eq!(
                Some(sessions.iter().sum::<u64>()),
                answer["total"]["sessions"].as_u64(),
                "{by}: {answer}"
            );
        }
    }
}

/// A fleet whose servers count this part of a session, and what its gateway says of viewers who are all done by then; `None` if some were not.
fn compared(counted: Duration) -> Option<Fleet> {
    let seconds = counted.as_secs().to_string();
    let server_flags = &["--counted-seconds", seconds.as_str()][..];
    let fleet = Fleet::with(&["a", "b"], 150, &Extras { server_flags, ..Extras::default() });
    let port = fleet.node_port();
    let address = format!("http://{}:{port}/film/master.m3u8", fleet.nodes[0].host);
    assert_eq!(get(&format!("{address}?CMCD=sid%3D%22{SESSION}%22%2Cot%3Dm")).0, 200);
    let began = Instant::now();
    let (stalled, played) = thread::scope(|scope| {
        let played = scope.spawn(|| play(&fleet.nodes[1], port));
        (stall(&fleet.nodes[0], port), played.join().unwrap())
    });
    let took = began.elapsed();
    eprintln!("the viewers were done after {took:.1?} of {counted:?}");
    if took >= counted {
        return None;
    }
    let told = within(counted + DEATH, "all sessions to be reported", || {
        let told = fleet.control(&["qoe", "--by", "site"]);
        (told["total"]["sessions"].as_u64() >= Some(2 * VIEWERS)).then_some(told)
    });
    assert_eq!(told["total"]["sessions"].as_u64(), Some(2 * VIEWERS), "{told}");
    assert_eq!(told["rows"][0]["name"], "a", "the site with the stalls is the worst: {told}");
    let (a, b) = (site(&told, "a"), site(&told, "b"));
    within_2_percent("sessions", &a["sessions"], stalled.number("sessions/count"));
    within_2_percent("stalls", &a["stalls"], stalled.number("stalls/count"));
    within_2_percent("time in stalls", &a["stalled_seconds"], stalled.number("stalled_seconds"));
    assert_eq!(a["stalled"]["count"].as_u64(), Some(VIEWERS), "{a}");
    within_2_percent("sessions", &b["sessions"], played.number("sessions/count"));
    let delay = &b["play_delay_seconds"]["mean"];
    within_2_percent("play delay", delay, played.number("play_delay_seconds/mean"));
    let rate = &b["megabits_per_second"]["mean"];
    within_2_percent("bit rate", rate, played.number("mbps/mean"));
    Some(fleet)
}

#[test]
fn the_gateway_and_the_viewers_agree_and_nothing_tells_who_watched() {
    let mut fleet = COUNTED.into_iter().find_map(compared).expect("the machine is too slow");
    check_groups(&fleet);
    // A gateway that exits has saved it.
    assert!(fleet.gateway.end());
    fleet.restart_gateway();
    let of = |by: &str| fleet.control(&["qoe", "day", "--by", by]);
    assert_eq!(of("title")["rows"][0]["name"], "film");
    assert_eq!(of("network")["rows"][0]["name"], SOURCES);
    assert_eq!(of("player")["rows"][0]["name"], "swarm");
    assert_eq!(of("node")["rows"].as_array().map(Vec::len), Some(2));
    let all = written(&fleet);
    assert!(all.iter().any(|(name, _)| name.ends_with("experience.json")));
    for (name, bytes) in &all {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(SESSION) && !text.contains("sid="), "{name} names a session");
        assert!(!has_address(&text), "{name} has a viewer's address");
    }
}
