//! Nodes that die, fall silent, or come back with other bytes, in the middle of films.

use crate::house::{DEATH, Fleet, get};
use fullbore_tests::{Course, Ran, Signal, film, nobody_stalled, program, until, within};
use rustix::process::{Pid, kill_process};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Six nodes in three sites.
const SITES: [&str; 6] = ["a", "a", "b", "b", "c", "c"];

/// Viewers who play the film by the manifest at `film`, while something happens.
pub(crate) fn swarm_while(film: &str, words: &str, meanwhile: impl FnOnce()) -> Ran {
    Ran::of(watching(film, words), |command| {
        let child = command.spawn().unwrap();
        meanwhile();
        child.wait_with_output().unwrap()
    })
}

/// As [`swarm_while`]; the viewers leave when it is over.
pub(crate) fn swarm_until(film: &str, words: &str, meanwhile: impl FnOnce()) -> Ran {
    Ran::of(watching(film, words), |command| {
        let child = command.spawn().unwrap();
        meanwhile();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        child.wait_with_output().unwrap()
    })
}

/// Viewers play until `meanwhile`, which gets their states, has returned.
pub(crate) fn swarm_seen(film: &str, words: &str, meanwhile: impl FnOnce(&Course)) -> Ran {
    fullbore_tests::swarm_until(watching(film, words), meanwhile)
}

fn watching(film: &str, words: &str) -> Command {
    let mut command = Command::new(program());
    command.args(["swarm", "--threads", "1", "--allow-errors"]).args(words.split_whitespace());
    command.arg(film).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Viewers who play the film by the manifest at `film`, to the end.
pub(crate) fn swarm(film: &str, words: &str) -> Ran {
    Ran::of(watching(film, words), |command| command.output().unwrap())
}

/// Bytes that viewers got from a node.
pub(crate) fn bytes_of(ran: &Ran, name: &str) -> u64 {
    ran.figures["pathways"][name]["bytes"].as_u64().unwrap_or(0)
}

/// How many viewers had a segment from a node.
pub(crate) fn users_of(ran: &Ran, name: &str) -> u64 {
    ran.figures["pathways"][name]["sessions_that_used_it"].as_u64().unwrap_or(0)
}

/// Each viewer who had segments from a lost node had ten or more from others afterwards.
#[track_caller]
pub(crate) fn check_elsewhere(ran: &Ran, lost: &str) {
    let pathway = &ran.figures["pathways"][lost];
    let number = |name: &str| pathway[name].as_u64().unwrap_or(0);
    assert!(users_of(ran, lost) > 0, "no viewer was on {lost}: {}", ran.figures);
    let left = number("sessions_that_left_it");
    assert_eq!(left, users_of(ran, lost), "they never got away from {lost}: {pathway}");
    assert!(number("segments_elsewhere_min") >= 10, "{lost}: {pathway}");
}

/// The index of a node that viewers of the film get first.
pub(crate) fn first_of(fleet: &Fleet) -> usize {
    let first = fleet.route().first().cloned().expect("a node");
    fleet.nodes.iter().position(|node| node.name == first).expect("one of ours")
}

#[test]
fn viewers_of_a_node_that_is_killed_see_nothing_of_it_and_it_is_lost_within_seconds() {
    const VIEWERS: u64 = 30;
    let mut fleet = Fleet::start(&SITES, 50);
    let dead = first_of(&fleet);
    let mut node = fleet.nodes.remove(dead);
    let words = format!("--viewers {VIEWERS} --over 4s --watch 1h --buffer 30s");
    let ran = swarm_seen(&fleet.film(), &words, |course| {
        // As many segments as fill all buffers.
        let full = course.until("full buffers", |now| {
            now.number("playing") == VIEWERS && now.number("requests") > VIEWERS * 20
        });
        node.power_off();
        await_loss(&fleet, &node.name);
        // Ten segments of others for each at least, and they have an end.
        course.until("all to play on", |now| {
            now.number("requests") > full.number("requests") + VIEWERS * 15
                || now.number("gone") == VIEWERS
        });
    });
    nobody_stalled(&ran);
    assert_eq!(ran.number("sessions/started"), VIEWERS as f64, "{}", ran.figures);
    check_elsewhere(&ran, &node.name);
    node.power_on();
    until("the node to serve again", || fleet.state_of(&node.name) == "serving");
}

/// Waits until the gateway marks a node as lost, and sends no viewer there.
fn await_loss(fleet: &Fleet, name: &str) {
    within(DEATH, "the gateway to take the node for lost", || {
        (fleet.state_of(name) == "lost").then_some(())
    });
    until("no answer to name it", || !fleet.route().iter().any(|node| node == name));
}

#[test]
#[ignore = "takes half an hour of an idle machine: ./run fleet-lab"]
fn two_hundred_viewers_with_two_minutes_of_buffer_see_nothing_of_a_killed_node() {
    let mut fleet = Fleet::start(&SITES, 450);
    let words = "--viewers 200 --over 30s --duration 14m --watch 1h --buffer 120s";
    let without = swarm(&fleet.film(), words);
    assert_eq!(without.number("stalls/count"), 0.0, "void: {}", without.figures);
    kill_one(&mut fleet, words, Duration::from_secs(240), 200.0);
}

#[test]
#[ignore = "takes two minutes of an idle machine: ./run fleet-lab"]
fn two_hundred_viewers_with_half_a_minute_of_buffer_see_nothing_of_a_killed_node() {
    let mut fleet = Fleet::start(&SITES, 90);
    let words = "--viewers 200 --over 20s --duration 100s --watch 1h --buffer 30s";
    let without = swarm(&fleet.film(), words);
    assert_eq!(without.number("stalls/count"), 0.0, "void: {}", without.figures);
    kill_one(&mut fleet, words, Duration::from_secs(45), 200.0);
}

/// Viewers play, and after some time the node that one of them would get first dies. Only the gateway notices.
fn kill_one(fleet: &mut Fleet, words: &str, after: Duration, viewers: f64) {
    let dead = first_of(fleet);
    let name = fleet.nodes[dead].name.clone();
    let mut node = fleet.nodes.remove(dead);
    let ran = swarm_while(&fleet.film(), words, || {
        // sleeps: on an idle machine, for minutes: viewers have full buffers then
        std::thread::sleep(after);
        node.power_off();
        await_loss(fleet, &name);
    });
    assert_eq!(ran.number("stalls/count"), 0.0, "{}\n{}", ran.figures, ran.stderr);
    assert_eq!(ran.number("sessions/without_stall"), viewers, "{}", ran.figures);
    check_elsewhere(&ran, &name);
    node.power_on();
    until("the node to serve again", || fleet.state_of(&name) == "serving");
}

#[test]
#[ignore = "takes a minute, and a site whose packets vanish is harder (paths): ./run fleet-lab"]
fn viewers_of_a_site_that_falls_silent_move_without_a_stall() {
    let fleet = Fleet::start(&SITES, 50);
    let first = first_of(&fleet);
    let pair = if first % 2 == 0 { [first, first + 1] } else { [first - 1, first] };
    let ran = swarm_while(
        &fleet.film(),
        "--viewers 30 --over 4s --duration 45s --watch 10m --buffer 30s",
        || {
            // sleeps: on an idle machine: viewers have full buffers then
            std::thread::sleep(Duration::from_secs(15));
            pair.iter().for_each(|at| fleet.nodes[*at].freeze());
            within(DEATH, "the gateway to take both for lost", || {
                pair.iter().all(|at| fleet.state_of(&fleet.nodes[*at].name) == "lost").then_some(())
            });
        },
    );
    assert_eq!(ran.number("stalls/count"), 0.0, "{}\n{}", ran.figures, ran.stderr);
    assert!(pair.iter().any(|at| bytes_of(&ran, &fleet.nodes[*at].name) > 0), "{}", ran.figures);
}

#[test]
fn a_server_serves_on_when_its_agent_dies_and_the_next_agent_finds_it() {
    let mut fleet = Fleet::start(&["a"], 10);
    let server = fleet.nodes[0].server();
    fleet.nodes[0].agent.kill();
    let (_, master) = get(&fleet.film());
    let address =
        master.lines().find(|line| line.starts_with("http")).expect("an address").to_owned();
    assert_eq!(get(&address).0, 200, "{address}");
    fleet.nodes[0].power_on();
    until("the node to be heard again", || fleet.state_of("node-1") == "serving");
    assert_eq!(fleet.nodes[0].server(), server, "the agent started another server");
}

#[test]
fn a_byte_that_flipped_while_a_node_was_down_is_never_served() {
    let mut fleet = Fleet::start(&["a", "b"], 10);
    fleet.nodes[0].power_off();
    until("the node to be lost", || fleet.state_of("node-1") == "lost");
    let segment = segment_of(&fleet.nodes[0].library.join("film"));
    let modified = std::fs::metadata(&segment).unwrap().modified().unwrap();
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(&[1], 1000).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    fleet.nodes[0].power_on();
    // It holds the title again only after it has the right bytes.
    until("the node to hold the film again", || {
        fleet.state_of("node-1") == "serving" && fleet.holders("film") == 2
    });
    let bytes = std::fs::read(&segment).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "the wrong byte is still there");
}

/// A segment of the film's lowest bit rate.
fn segment_of(title: &std::path::Path) -> std::path::PathBuf {
    let mut folders = std::fs::read_dir(title).unwrap().flatten().map(|entry| entry.path());
    let version = folders.find(|path| path.is_dir()).expect("the version's folder");
    let segment = version.join("0-3.m4s");
    assert_eq!(std::fs::metadata(&segment).unwrap().len(), film::segment_bytes(0) as u64);
    segment
}
