//! Keys that sign viewers' addresses: they begin and roll while viewers play.

use crate::house::{Fleet, get};
use crate::nodes::swarm_seen;
use fullbore_tests::{Course, Ran, nobody_stalled, until};
use serde_json::Value;

/// A new viewer's address of the film at a node.
fn address(fleet: &Fleet) -> String {
    let (_, text) = get(&format!("{}/api/v1/route?title=film", fleet.url));
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let address = answer["nodes"][0]["url"].as_str();
    address.unwrap_or_else(|| panic!("no node: {text}")).to_owned()
}

/// The name of the key that has signed an address, if one has.
fn key(address: &str) -> Option<&str> {
    let token = address.split("/t/").nth(1)?.split('/').next()?;
    token.split('.').nth(2)
}

fn status(address: &str) -> u16 {
    get(address).0
}

#[test]
fn signing_begins_and_keys_roll_without_a_restart_and_no_viewer_is_refused_until_one_is_stolen() {
    let fleet = Fleet::start(&["a"], 10);
    let server = fleet.nodes[0].server();
    let unsigned = address(&fleet);
    assert_eq!((key(&unsigned), status(&unsigned)), (None, 200));

    // The gateway signs at once. Viewers without a token have some seconds.
    fleet.control(&["keys", "roll", "--after", "3s"]);
    let before = address(&fleet);
    assert!(key(&before).is_some(), "{before}");
    assert_eq!((status(&before), status(&unsigned)), (200, 200));
    until("nodes to ask for tokens", || {
        assert_eq!(status(&address(&fleet)), 200, "who comes now is let in");
        status(&unsigned) == 403
    });

    fleet.control(&["keys", "roll", "--after", "10s"]);
    let during = address(&fleet);
    assert_eq!(key(&during), key(&before), "nodes hear of the new one first");
    let mut after = during.clone();
    until("the new key to sign", || {
        after = address(&fleet);
        assert_eq!(status(&after), 200, "{after}");
        key(&after) != key(&before)
    });
    for address in [&before, &during, &after] {
        assert_eq!(status(address), 200, "{address}");
    }
    let keys = fleet.control(&["keys", "list"]);
    let states: Vec<_> = keys["keys"].as_array().unwrap().iter().map(|key| &key["state"]).collect();
    assert_eq!(states, ["signs", "trusted"], "{keys}");

    // A stolen key: its signatures become invalid as soon as nodes learn of it.
    fleet.control(&["keys", "distrust"]);
    let replaced = address(&fleet);
    until("the node to refuse what was signed before", || {
        [&before, &during, &after].iter().all(|address| status(address) == 403)
    });
    until("the node to take what is signed now", || status(&replaced) == 200);
    assert_eq!(fleet.nodes[0].server(), server, "nothing was restarted");
}

#[test]
fn no_viewer_who_plays_is_refused_when_signing_begins_and_when_keys_roll() {
    let fleet = Fleet::start(&["a", "b", "c"], 50);
    let unsigned = address(&fleet);
    // Some viewers come before the gateway signs, and some afterwards. It ends before nodes require tokens, even on a busy machine.
    let ran =
        swarm_seen(&fleet.film(), "--viewers 20 --over 8s --watch 10m --buffer 6s", |course| {
            course.until("half of the viewers to play", |now| now.number("playing") >= 10);
            fleet.control(&["keys", "roll", "--after", "25s"]);
            all_play_on(course, 20);
        });
    check(&ran);
    until("nodes to ask for tokens", || status(&unsigned) == 403);

    let before = address(&fleet);
    // The new key signs while viewers still come, and others play with the old one.
    let ran =
        swarm_seen(&fleet.film(), "--viewers 30 --over 18s --watch 10m --buffer 6s", |course| {
            course.until("some viewers to play", |now| now.number("playing") >= 3);
            fleet.control(&["keys", "roll", "--after", "10s"]);
            until("the new key to sign", || key(&address(&fleet)) != key(&before));
            all_play_on(course, 30);
        });
    check(&ran);
}

/// Waits until all viewers play, and have asked for two more segments each.
fn all_play_on(course: &Course, viewers: u64) {
    let first = course.until("all viewers to play", |now| now.number("playing") == viewers);
    let requests = first.number("requests") + 2 * viewers;
    course.until("all viewers to play on", |now| now.number("requests") >= requests);
}

#[track_caller]
fn check(ran: &Ran) {
    nobody_stalled(ran);
    assert!(ran.figures["clean"] == true, "{}\n{}", ran.figures, ran.stderr);
}
