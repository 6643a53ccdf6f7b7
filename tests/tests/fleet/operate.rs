//! What operators do: drain, revoke, withdraw, restore a backup.

use crate::house::{Fleet, get};
use fullbore_tests::{until, within};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// One fleet for all of it: starting one takes longer than what is done with it.
#[test]
fn drained_nodes_come_back_and_what_is_revoked_or_withdrawn_does_not_not_even_with_a_backup() {
    let mut fleet = Fleet::start(&["a", "b", "c", "d"], 10);
    drain(&fleet);
    let backup = fleet.path("backup").display().to_string();
    let mut command = fleet.offline(&["backup", &backup]);
    assert!(command.status().unwrap().success());
    let revoked = revoke(&fleet);
    withdraw(&fleet);
    lose_and_restore(&mut fleet, &backup);
    remember(&fleet, &revoked);
}

fn drain(fleet: &Fleet) {
    fleet.control(&["drain", "node-2", "--reason", "disk swap"]);
    until("no answer to name it", || is_out(fleet, "node-2"));
    until("it to be drained", || fleet.state_of("node-2") == "drained");
    assert_eq!(fleet.node("node-2")["reason"], "disk swap", "{}", fleet.node("node-2"));
    fleet.control(&["undrain", "node-2"]);
    until("it to serve again", || fleet.state_of("node-2") == "serving");
    until("answers to name it again", || fleet.route().contains(&"node-2".to_owned()));
}

/// Whether no viewer is sent to a node. Each viewer gets three of the four, so one answer without it says nothing.
fn is_out(fleet: &Fleet, node: &str) -> bool {
    (0..20)
        .map(|_| fleet.route())
        .all(|route| route.len() == 3 && !route.iter().any(|name| name == node))
}

/// Revokes a node that viewers are sent to.
fn revoke(fleet: &Fleet) -> String {
    let first = fleet.route()[0].clone();
    fleet.control(&["revoke", &first, "--reason", "stolen"]);
    within(Duration::from_secs(5), "the node to be out of answers", || {
        is_out(fleet, &first).then_some(())
    });
    assert_eq!(fleet.state_of(&first), "revoked");
    first
}

fn withdraw(fleet: &Fleet) {
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
    // A server looks up again within a second where a file is.
    let is_gone = || addresses.iter().all(|address| get(address).0 == 404);
    within(Duration::from_secs(5), "no node to serve it", || is_gone().then_some(()));
    assert_eq!(get(&fleet.film()).0, 404);
}

/// The gateway's disk is lost, and all that is left is a backup from before the film was withdrawn and the node revoked.
fn lose_and_restore(fleet: &mut Fleet, backup: &str) {
    let state = fleet.path("gateway");
    let token = std::fs::read(state.join("admin.token")).unwrap();
    fleet.gateway.kill();
    std::fs::remove_dir_all(&state).unwrap();
    let ran = fleet.offline(&["restore", backup]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::write(state.join("admin.token"), token).unwrap();
    fleet.restart_gateway();
}

/// Nodes tell the gateway what the backup lacks, before they get it from the gateway.
fn remember(fleet: &Fleet, revoked: &str) {
    fleet.gateway.stderr.wait_for("the backup lacked: they hold again");
    until("the gateway to answer viewers", || get(&format!("{}/healthz", fleet.url)).0 == 200);
    assert_eq!(fleet.state_of(revoked), "revoked");
    assert_eq!(get(&fleet.film()).0, 404);
    let others = || fleet.nodes.iter().filter(|node| node.name != revoked);
    until("the others to serve", || others().all(|node| fleet.state_of(&node.name) == "serving"));
    let told = |node: &crate::house::Node| -> Value {
        let desired = std::fs::read(node.state.join("desired.json")).unwrap();
        serde_json::from_slice(&desired).unwrap()
    };
    until("them to hear of the new epoch", || others().all(|node| told(node)["epoch"] == 2));
    for node in others() {
        let desired = told(node);
        assert_eq!(desired["titles"], Value::Array(Vec::new()), "{desired}");
        assert!(desired["withdrawn"][0]["path"] == "film", "{desired}");
        assert!(!node.library.join("film").exists(), "{} has brought it back", node.name);
    }
}

impl Fleet {
    /// `fullbore control` with verbs that need no gateway.
    fn offline(&self, words: &[&str]) -> Command {
        let mut command = Command::new(fullbore_tests::program());
        command.arg("control").args(words).arg("--state").arg(self.path("gateway"));
        command
    }
}
