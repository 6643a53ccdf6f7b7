//! Operators' actions: drain, revoke, withdraw, restore a backup.

use crate::house::{DEATH, Extras, Fleet, Node, get};
use crate::nodes::{bytes_of, first_of, swarm_until};
use fullbore_tests::{Signal, nobody_stalled, until, within};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// One fleet for everything: starting one takes longer than the tests.
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

/// Players ask for steering every 30 s, and servers close a connection that is idle for 75 s. Here both are five seconds.
#[test]
fn viewers_who_play_leave_a_drained_and_a_revoked_node_and_do_not_stall() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    std::fs::write(&config, "[timeouts]\nidle_seconds = 5\n").unwrap();
    let server_flags = &["--config", config.to_str().unwrap()][..];
    let sites = ["a", "b", "c", "d"];
    let fleet = Fleet::with(&sites, 150, &Extras { server_flags, ..Extras::default() });
    fleet.answers_hold(5);
    empty_two(&fleet, Duration::from_secs(5));
}

#[test]
#[ignore = "takes six minutes: ./run fleet-lab"]
fn viewers_who_play_leave_both_nodes_within_the_times_that_are_set_by_default() {
    let fleet = Fleet::start(&["a", "b", "c", "d"], 240);
    empty_two(&fleet, Duration::from_secs(30 + 75));
}

/// One node is drained and another revoked, each while it has viewers. No viewer may stay for longer than `leave`.
fn empty_two(fleet: &Fleet, leave: Duration) {
    let words = "--viewers 30 --over 4s --duration 10m --watch 10m --buffer 30s";
    let patience = leave + DEATH;
    let drained = &fleet.nodes[first_of(fleet)];
    let mut revoked = String::new();
    let ran = swarm_until(&fleet.film(), words, || {
        until("viewers on it", || fleet.connections_of(&drained.name) >= 5);
        fleet.control(&["drain", &drained.name, "--reason", "new disks"]);
        within(patience, "no viewer to be on it", || {
            (fleet.connections_of(&drained.name) == 0).then_some(())
        });
        assert_eq!(fleet.state_of(&drained.name), "drained");
        assert_eq!(drained.connections(), 0, "its server says otherwise");
        fleet.control(&["undrain", &drained.name]);
        until("it to serve again", || fleet.state_of(&drained.name) == "serving");
        revoked = revoke(fleet);
        let node = fleet.nodes.iter().find(|node| node.name == revoked).unwrap();
        leave_revoked(node, patience);
        let others = fleet.nodes.iter().filter(|node| node.name != revoked);
        let left = others.map(|node| node.connections()).sum::<u64>();
        assert!(left >= 30, "they do not play any more: {left} connections");
    });
    assert_eq!(ran.number("sessions/started"), 30.0, "{}", ran.figures);
    nobody_stalled(&ran);
    for name in [&drained.name, &revoked] {
        assert!(bytes_of(&ran, name) > 0, "no viewer was on {name}: {}", ran.figures);
    }
}

/// Steering alone makes viewers leave a revoked node: an attacker's agent may not stop the server. Then its own agent stops it.
fn leave_revoked(node: &Node, patience: Duration) {
    let revoked = Instant::now();
    node.agent.signal(Signal::STOP);
    let (mut sent, mut last) = (node.total("transport_sent_bytes_total"), Duration::ZERO);
    within(patience, "no viewer to be on it", || {
        let now = node.total("transport_sent_bytes_total");
        if now != sent {
            (sent, last) = (now, revoked.elapsed());
        }
        (node.connections() == 0).then_some(())
    });
    let gone = revoked.elapsed();
    eprintln!(
        "the revoked node sent its last byte after {last:.1?}, and its last connection ended after {gone:.1?}"
    );
    node.agent.signal(Signal::CONT);
    node.agent.stderr.wait_for("this box is revoked: its server stops");
    within(patience, "its server to end", || node.find_server().is_none().then_some(()));
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
    // A server looks up a file's folder again within a second.
    let is_gone = || addresses.iter().all(|address| get(address).0 == 404);
    within(Duration::from_secs(5), "no node to serve it", || is_gone().then_some(()));
    assert_eq!(get(&fleet.film()).0, 404);
}

/// The gateway's disk is lost, and only a backup from before the film's withdrawal and the node's revocation is left.
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

/// Nodes report to the gateway what the backup lacks, before they get anything from it.
fn remember(fleet: &Fleet, revoked: &str) {
    fleet.gateway.stderr.wait_for("the backup lacked: they apply again");
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
        assert!(!node.library.join("film").exists(), "{} has restored it", node.name);
    }
}

impl Fleet {
    /// The longest validity of steering answers from now on.
    fn answers_hold(&self, seconds: u32) {
        let mut policy = self.api("GET", "/api/v1/policy", &Value::Null);
        let policy = policy.as_object_mut().expect("an object");
        policy.remove("version");
        policy.insert("ttl_seconds".to_owned(), json!(seconds));
        self.api("PUT", "/api/v1/policy", &Value::Object(policy.clone()));
    }

    /// The number of a node's connections, by the gateway.
    fn connections_of(&self, name: &str) -> u64 {
        self.node(name)["connections"].as_u64().unwrap_or(0)
    }

    /// `fullbore control` with verbs that need no gateway.
    fn offline(&self, words: &[&str]) -> Command {
        let mut command = Command::new(fullbore_tests::program());
        command.arg("control").args(words).arg("--state").arg(self.path("gateway"));
        command
    }
}
