//! What operators do: drain, revoke, withdraw.

use crate::house::{Fleet, get};
use fullbore_tests::{until, within};
use std::time::Duration;

#[test]
fn a_drained_node_gets_no_viewers_and_comes_back() {
    let fleet = Fleet::start(&["a", "b", "c"], 10);
    fleet.control(&["drain", "node-2", "--reason", "disk swap"]);
    until("no answer to name it", || !fleet.route().contains(&"node-2".to_owned()));
    until("it to be drained", || fleet.state_of("node-2") == "drained");
    assert_eq!(fleet.node("node-2")["reason"], "disk swap", "{}", fleet.node("node-2"));
    fleet.control(&["undrain", "node-2"]);
    until("it to serve again", || fleet.state_of("node-2") == "serving");
    until("answers to name it again", || fleet.route().contains(&"node-2".to_owned()));
}

#[test]
fn a_revoked_node_is_out_of_answers_within_five_seconds() {
    let fleet = Fleet::start(&["a", "b", "c", "d"], 10);
    let first = fleet.route()[0].clone();
    fleet.control(&["revoke", &first, "--reason", "stolen"]);
    within(Duration::from_secs(5), "the node to be out of answers", || {
        (!fleet.route().contains(&first) && fleet.route().len() == 3).then_some(())
    });
    assert_eq!(fleet.state_of(&first), "revoked");
}

#[test]
fn a_withdrawn_title_is_gone_from_all_nodes_with_a_receipt_from_each() {
    let fleet = Fleet::start(&["a", "b", "c"], 10);
    let (_, master) = get(&fleet.film());
    let addresses: Vec<_> =
        master.lines().filter(|line| line.starts_with("http")).map(str::to_owned).collect();
    assert!(
        !addresses.is_empty() && addresses.iter().all(|address| get(address).0 == 200),
        "{master}"
    );
    fleet.control(&["withdraw", "film", "--reason", "rights ended"]);
    let receipts = || {
        let place = fleet.control(&["where", "film"]);
        let nodes = place["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["receipt"] == "removed").count()
    };
    until("a receipt from each node", || receipts() == 3);
    assert!(addresses.iter().all(|address| get(address).0 == 404), "{addresses:?}");
    assert_eq!(get(&fleet.film()).0, 404);
}
