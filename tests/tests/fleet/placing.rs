//! Placement plans in a fleet of small disks: publishing, planning and losses, and what nodes do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::house::{DEATH, Extras, Fleet, get};
use fullbore_tests::{FILM, make_title, until, within};
use serde_json::Value;

/// The size of a block in records.
const BLOCK: usize = 4 << 20;

/// Room for four titles and the fleet's film on each node, and not for five.
const DISK_KIBIBYTES: usize = 40 << 10;

/// Eight mebibytes of a title's own.
fn bytes(title: &str) -> Vec<u8> {
    let seed = title.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    (0..2 * BLOCK).map(|at| (at / 7 % 251) as u8 ^ seed).collect()
}

fn publish(fleet: &Fleet, title: &str) {
    let library = fleet.path("more");
    fs::create_dir_all(library.join(title)).unwrap();
    make_title(&library.join(title), &bytes(title)).unwrap();
    fleet.control(&["publish", title, "--library", library.to_str().unwrap()]);
}

/// A fleet of four sites with a small disk each. None if disks cannot be made.
fn small_fleet() -> Option<Fleet> {
    let flags = ["--evict-after", "2", "--fill-wait", "1"];
    let disk_kibibytes = Some(DISK_KIBIBYTES);
    let extras = Extras { agent_flags: &flags, disk_kibibytes, ..Extras::default() };
    let fleet = Fleet::with(&["a", "b", "c", "d"], 4, &extras);
    fleet.has_disks().then_some(fleet)
}

/// A gateway's view of a title at each node: whether the node holds it, and why it should.
fn places(fleet: &Fleet, title: &str) -> BTreeMap<String, (bool, Option<String>)> {
    let place = fleet.control(&["where", title]);
    let nodes = place["nodes"].as_array().cloned().unwrap_or_default();
    let told = |node: &Value| {
        let why = node["why"].as_str().map(str::to_owned);
        (node["node"].as_str().unwrap().to_owned(), (node["holds"] == true, why))
    };
    nodes.iter().map(told).collect()
}

/// Whether exactly the nodes that should hold a title do.
fn is_in_place(fleet: &Fleet, title: &str) -> bool {
    let places = places(fleet, title);
    let count = places.values().filter(|(holds, _)| *holds).count();
    count > 0 && places.values().all(|(holds, why)| *holds == why.is_some())
}

/// The titles in a node's library, byte by byte.
fn on_disk(fleet: &Fleet, node: usize) -> BTreeSet<String> {
    let library = &fleet.nodes[node].library;
    let names = fs::read_dir(library).unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let titles: BTreeSet<String> = names.filter(|name| !name.starts_with('.')).collect();
    for title in titles.iter().filter(|title| *title != "film") {
        let folder = library.join(title);
        let record = catalog::Record::read(&folder).unwrap();
        assert!(fs::read(folder.join(record.folder).join(FILM)).unwrap() == bytes(title));
    }
    titles
}

/// The nodes that a viewer of a title gets.
fn route(fleet: &Fleet, title: &str) -> Vec<String> {
    let (_, text) = get(&format!("{}/api/v1/route?title={title}", fleet.url));
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter_map(|node| node["node"].as_str().map(str::to_owned)).collect()
}

/// A viewer gets all of a title from the first of its nodes that sends it, as players do.
fn watch(fleet: &Fleet, title: &str) {
    let record = catalog::Record::read(&fleet.path("more").join(title)).unwrap();
    let (_, text) = get(&format!("{}/api/v1/route?title={title}", fleet.url));
    let answer: Value = serde_json::from_str(&text).unwrap();
    let nodes = answer["nodes"].as_array().unwrap();
    let film = format!("{}/{FILM}", record.folder);
    let urls = nodes.iter().map(|node| {
        let url = node["url"].as_str().unwrap();
        url.replace(&record.hls, &film)
    });
    let mut tried = urls.clone();
    let sends = |url: String| {
        let curl = Command::new("curl").args(["-sSf", "--max-time", "60", &url]).output();
        curl.is_ok_and(|ran| ran.status.success() && ran.stdout == bytes(title))
    };
    assert!(tried.any(sends), "no node sends {title}: {:?}", urls.collect::<Vec<_>>());
}

const FOUR: [&str; 4] = ["t1", "t2", "t3", "t4"];

#[test]
#[ignore = "half a minute, because nodes hear of changes with their heartbeats: ./run nightly"]
fn each_node_comes_to_hold_what_the_plan_says_and_viewers_go_where_it_is() {
    let Some(mut fleet) = small_fleet() else { return };
    FOUR.iter().for_each(|title| publish(&fleet, title));
    until("all to hold all", || FOUR.iter().all(|title| fleet.holders(title) == 4));
    let planned = fleet.control(&["plan", "--apply"]);
    assert_eq!(
        (&planned["is_applied"], planned["moved_bytes"].as_u64()),
        (&Value::Bool(true), Some(0))
    );
    // It needs the room of a fourth copy at each of three nodes.
    publish(&fleet, "t5");
    until("the new title to be where the plan has it", || {
        is_in_place(&fleet, "t5") && FOUR.iter().all(|title| is_in_place(&fleet, title))
    });
    assert_eq!(fleet.holders("t5"), 3, "its floor");
    for title in FOUR {
        assert!(fleet.holders(title) >= 3, "{title}");
    }
    let of_ours = |node| on_disk(&fleet, node).into_iter().filter(|title| title != "film").count();
    let held: usize = (0..4).map(of_ours).sum();
    assert_eq!(held, 3 + FOUR.iter().map(|title| fleet.holders(title)).sum::<usize>());
    for title in ["t5", "t1"] {
        let places = places(&fleet, title);
        until("viewers to be sent to those that hold it", || {
            let route = route(&fleet, title);
            route.len() == 3 && route.iter().all(|node| places[node].0)
        });
    }
    // The gateway is killed, and knows the plan when it is back.
    let before = places(&fleet, "t1");
    fleet.gateway.kill();
    fleet.restart_gateway();
    until("the nodes to be heard again", || places(&fleet, "t1") == before);
    assert!(!fleet.control(&["plan", "--apply"])["is_applied"].as_bool().unwrap());
}

#[test]
#[ignore = "a node is lost after 15 s, and copies take a while: ./run nightly"]
fn a_plan_without_a_lost_node_restores_the_floor_and_one_that_is_undone_lets_all_hold_all() {
    let Some(mut fleet) = small_fleet() else { return };
    fleet.control(&["plan", "--apply"]);
    let titles = ["t1", "t2", "t3"];
    titles.iter().for_each(|title| publish(&fleet, title));
    let in_place = |fleet: &Fleet| titles.iter().all(|title| is_in_place(fleet, title));
    until("the titles to be in their places", || in_place(&fleet));
    assert!(titles.iter().all(|title| fleet.holders(title) == 3));
    let gone = places(&fleet, "t1").into_iter().find(|(_, (holds, _))| *holds).unwrap().0;
    let at = fleet.nodes.iter().position(|node| node.name == gone).unwrap();
    let mut node = fleet.nodes.remove(at);
    node.power_off();
    within(DEATH, "the gateway to take the node for lost", || {
        (fleet.state_of(&gone) == "lost").then_some(())
    });
    // It keeps its part of the plan for ten minutes, unless an operator plans without it.
    assert!(places(&fleet, "t1")[&gone].1.is_some());
    let planned = fleet.control(&["plan", "--apply"]);
    assert_eq!(planned["left_out"][0]["node"], gone.as_str(), "{planned}");
    let is_restored = |title: &&str| {
        let places = places(&fleet, title);
        places
            .iter()
            .filter(|(name, (holds, why))| **name != gone && *holds && why.is_some())
            .count()
            == 3
    };
    until("three others to hold each title", || titles.iter().all(&is_restored));
    // It comes back, and the plan includes it again, with its titles.
    node.power_on();
    fleet.nodes.insert(at, node);
    until("the plan to have it again", || {
        let nodes = fleet.control(&["nodes"]);
        let nodes = nodes["nodes"].as_array().unwrap().clone();
        fleet.state_of(&gone) == "serving" && nodes.iter().all(|node| node["missing"] == 0)
    });
    fleet.control(&["plan", "--everything"]);
    within(Duration::from_secs(60), "all to hold all again", || {
        titles.iter().all(|title| fleet.holders(title) == 4).then_some(())
    });
}

/// Agents, servers, gateway and disks are real; the disk disappears as if pulled out. No operator acts on the box.
#[test]
#[ignore = "a disk is lost after seconds, and copies take a while: ./run nightly"]
fn what_a_dead_disk_took_is_brought_elsewhere_by_the_next_plan_and_viewers_are_served_on() {
    let Some(mut fleet) = small_fleet() else { return };
    fleet.control(&["plan", "--apply"]);
    let titles = ["t1", "t2", "t3"];
    titles.iter().for_each(|title| publish(&fleet, title));
    until("the titles to be in their places", || {
        titles.iter().all(|title| is_in_place(&fleet, title))
    });
    let dead = places(&fleet, "t1").into_iter().find(|(_, (holds, _))| *holds).unwrap().0;
    let at = fleet.nodes.iter().position(|node| node.name == dead).unwrap();
    let holds = |fleet: &Fleet, title: &str| places(fleet, title)[&dead].0;
    fleet.lose_disk(at);
    within(DEATH, "the fleet to know that the box holds nothing", || {
        titles.iter().for_each(|title| watch(&fleet, title));
        titles.iter().all(|title| !holds(&fleet, title)).then_some(())
    });
    assert_eq!(fleet.node(&dead)["not_me"][0], "disk_errors");
    fleet.control(&["plan", "--apply"]);
    let has_three = |title: &&str| {
        let places = places(&fleet, title);
        places.values().filter(|(holds, why)| *holds && why.is_some()).count() == 3
    };
    within(Duration::from_secs(60), "three others to hold each title", || {
        titles.iter().for_each(|title| watch(&fleet, title));
        titles.iter().all(has_three).then_some(())
    });
    for title in titles {
        assert!(!holds(&fleet, title) && !route(&fleet, title).contains(&dead), "{title}");
    }
    for node in (0..4).filter(|node| *node != at) {
        assert!(titles.iter().all(|title| on_disk(&fleet, node).contains(*title)));
    }
    // Its agent's heartbeats arrive, and it has written nothing to the empty mount point.
    assert_eq!(fleet.state_of(&dead), "serving");
    assert_eq!(fs::read_dir(&fleet.nodes[at].library).unwrap().count(), 0);
}
