//! Titles that nodes copy from each other while something breaks: one copy for each cluster comes from the origin.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::house::{Extras, Fleet, Node};
use fullbore_tests::{FILM, make_title, until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// A block, as records have them.
const BLOCK: usize = 4 << 20;

fn bytes(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * BLOCK + 12_345).map(|at| (at / 7 % 251) as u8 ^ seed).collect()
}

/// What a node's agent says of itself.
fn agent(node: &Node) -> Value {
    let text = fs::read(node.state.join("agent.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn counted(node: &Node, what: &str) -> u64 {
    agent(node)["holding"]["fill"][what].as_u64().unwrap_or(0)
}

/// Publishes a title besides the fleet's film, and returns what one copy of it costs.
fn publish(fleet: &Fleet, title: &str, film: &[u8], flags: &[&str]) -> u64 {
    let library = fleet.path("more");
    fs::create_dir_all(library.join(title)).unwrap();
    make_title(&library.join(title), film).unwrap();
    let library = library.to_str().unwrap();
    let words = [&["publish", title, "--library", library], flags].concat();
    let published = fleet.control(&words);
    let record = fs::metadata(Path::new(library).join(title).join("title.json")).unwrap().len();
    published["bytes"].as_u64().unwrap() + record
}

fn film_of(node: &Node, title: &str) -> PathBuf {
    let folder = node.library.join(title);
    folder.join(catalog::Record::read(&folder).unwrap().folder).join(FILM)
}

/// Nodes know who else is of their cluster.
fn settle(fleet: &Fleet) {
    until("all nodes to be told that all serve", || {
        fleet.nodes.iter().all(|node| {
            let said = fs::read(node.state.join("snapshot.signed")).unwrap_or_default();
            let text = String::from_utf8_lossy(&said);
            text.matches("\"state\":\"serving\"").count() == fleet.nodes.len()
        })
    });
}

/// One test, because it takes time until a fleet is up.
#[test]
fn one_copy_comes_from_the_origin_and_titles_arrive_whole_whoever_is_killed_meanwhile() {
    let extras = Extras { signed: true, ..Extras::default() };
    let mut fleet = Fleet::with(&["a", "a", "b"], 10, &extras);
    settle(&fleet);
    copy_once_for_each_cluster(&fleet);
    copy_under_kills(&mut fleet, 4, 12);
}

fn copy_once_for_each_cluster(fleet: &Fleet) {
    let before: Vec<_> = fleet.nodes.iter().map(|node| counted(node, "origin_bytes")).collect();
    let cost = publish(fleet, "second", &bytes(3, 1), &[]);
    until("all nodes to hold it", || fleet.holders("second") == 3);
    let after = fleet.nodes.iter().map(|node| counted(node, "origin_bytes"));
    until("the agents to have counted", || {
        let brought = |node: &Node| {
            let all = ["origin_bytes", "cluster_bytes", "fleet_bytes"];
            all.iter().map(|what| counted(node, what)).sum::<u64>() >= cost
        };
        fleet.nodes.iter().all(brought)
    });
    let origin: Vec<_> = after.zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(origin[0] + origin[1], cost, "of cluster a: {origin:?}");
    assert!(origin[2] <= cost, "of cluster b: {origin:?}");
    // The film at least: its small documents may have come from the other cluster a moment earlier.
    let neighbours =
        || -> u64 { fleet.nodes[..2].iter().map(|node| counted(node, "cluster_bytes")).sum() };
    let film = bytes(3, 1).len() as u64;
    until("the neighbour to have copied it, by signed addresses", || neighbours() >= film);
    for node in &fleet.nodes {
        assert_eq!(fs::read(film_of(node, "second")).unwrap(), bytes(3, 1), "{}", node.name);
        assert!(agent(node)["holding"]["fill"]["refused"].as_object().unwrap().is_empty());
    }
    let filling = fleet.control(&["fill"]);
    let clusters = filling["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 2, "{filling}");
    until("the gateway to know that nothing is left", || {
        let filling = fleet.control(&["fill"]);
        let clusters = filling["clusters"].as_array().unwrap();
        clusters.iter().all(|cluster| cluster["missing_bytes"] == 0)
    });
}

/// `kills` times, at a drawn moment, somebody is killed who takes part in copying a title.
fn copy_under_kills(fleet: &mut Fleet, kills: usize, blocks: usize) {
    // A block in an eighth of a second.
    const SLOW: [&str; 4] = ["--fill-rate", "270M", "--fill-wait", "2"];
    for node in &mut fleet.nodes {
        node.restart_agent(&SLOW);
    }
    let whole = bytes(blocks, 2);
    publish(fleet, "third", &whole, &[]);
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut drawn = fastrand::Rng::with_seed(seed);
    let begun = Instant::now();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(drawn.u64(100..900)));
        let at = drawn.usize(0..fleet.nodes.len());
        match drawn.u8(0..3) {
            0 => {
                if let Some(server) = fleet.nodes[at].find_server() {
                    let _ = kill_process(server, Signal::KILL);
                }
            }
            1 => {
                fleet.gateway.kill();
                fleet.restart_gateway();
            }
            _ => fleet.nodes[at].restart_agent(&SLOW),
        }
        if begun.elapsed() > Duration::from_secs(20) && fleet.holders("third") == fleet.nodes.len()
        {
            // All is there: the next title is under way.
            publish(fleet, "third", &bytes(blocks, drawn.u8(3..)), &[]);
        }
    }
    let origin = fleet.path("more").join("third");
    let whole = catalog::Record::read(&origin).unwrap();
    let whole = fs::read(origin.join(whole.folder).join(FILM)).unwrap();
    until("all nodes to hold it", || fleet.holders("third") == fleet.nodes.len());
    for node in &fleet.nodes {
        assert_eq!(fs::read(film_of(node, "third")).unwrap(), whole, "{}, seed {seed}", node.name);
        let left = fs::read_dir(&node.library).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert!(left.iter().all(|name| !name.starts_with(".ingest-")), "{left:?}, seed {seed}");
    }
}

/// A hundred kills take minutes.
#[test]
#[ignore = "long: run by ./run nightly"]
fn titles_arrive_whole_under_a_hundred_kills() {
    let mut fleet = Fleet::start(&["a", "a", "b"], 10);
    settle(&fleet);
    copy_under_kills(&mut fleet, 100, 60);
}
