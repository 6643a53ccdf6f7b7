//! Gateways that die: nobody who plays notices, and the next one steers from what it knew.

use crate::house::{Fleet, get};
use fullbore_tests::{Signal, until};

#[test]
fn a_gateway_that_was_killed_steers_at_once_from_its_own_disk() {
    let mut fleet = Fleet::start(&["a", "b", "c"], 10);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let before = sorted(fleet.route());
    fleet.gateway.kill();
    // Nodes do nothing meanwhile, so all that it knows is on its disk.
    fleet.nodes.iter().for_each(|node| node.agent.signal(Signal::STOP));
    let (_, master) = (fleet.restart_gateway(), get(&fleet.film()));
    assert_eq!(sorted(fleet.route()), before, "{master:?}");
    fleet.nodes.iter().for_each(|node| node.agent.signal(Signal::CONT));
    until("nodes to be heard again", || {
        ["node-1", "node-2", "node-3"].iter().all(|name| fleet.state_of(name) == "serving")
    });
}

#[test]
fn logged_decisions_come_out_the_same_again() {
    let fleet = Fleet::start(&["a", "b", "c"], 10);
    for _ in 0..50 {
        assert_eq!(get(&fleet.film()).0, 200);
    }
    let replayed = fleet.control(&["replay"]);
    assert!(replayed["same"].as_u64() >= Some(50), "{replayed}");
    assert_eq!(replayed["different"].as_u64(), Some(0), "{replayed}");
    let words = fleet.control(&["explain", "127.0.0.1", "film"]);
    assert!(words["text"].as_str().is_some_and(|text| text.contains("node-")), "{words}");
}

#[test]
fn a_gateway_ends_cleanly() {
    let mut fleet = Fleet::start(&["a"], 10);
    assert!(fleet.gateway.end(), "{:?}", fleet.gateway.stderr.lines());
}
