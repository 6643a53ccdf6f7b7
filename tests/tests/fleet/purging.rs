//! Purges of all edges of a fleet: real edges in front of a real origin, ordered at a gateway.

use crate::house::{Fleet, Node};
use fullbore_tests::{Launch, Plain, Server, bytes, until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;

const FILM: &str = "/film.mp4";

/// An edge on a node's box, and the file by which the node's agent finds it.
struct BoxEdge {
    server: Option<Server>,
    folder: PathBuf,
    origin: String,
    config: String,
}

impl BoxEdge {
    fn start(fleet: &Fleet, name: &str, origin: &Server) -> Self {
        let folder = fleet.path(&format!("edge-of-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("edge.toml");
        let state = folder.join("state");
        std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\nstate = {state:?}\n")).unwrap();
        let config = config.to_str().unwrap().to_owned();
        let mut edge = Self { server: None, folder, origin: origin.url.clone(), config };
        edge.start_again();
        edge
    }

    fn start_again(&mut self) {
        let launch =
            Launch::bare().arguments("--tls off --workers 1 --origin").argument(&self.origin);
        let launch = launch.arguments("--cache").argument(self.folder.join("cache"));
        self.server = Some(launch.state(&self.folder.join("state")).start());
    }

    fn stop(&mut self) {
        self.server = None;
    }

    fn flags(&self) -> [&str; 2] {
        ["--edge", &self.config]
    }

    fn film(&self) -> Vec<u8> {
        fetch(self.server.as_ref().unwrap())
    }
}

fn fetch(server: &Server) -> Vec<u8> {
    Plain::connect(server.address).fetch(FILM).body
}

/// An origin, whose film edges may keep for an hour.
struct FilmOrigin {
    server: Server,
    folder: PathBuf,
    version: u64,
}

impl FilmOrigin {
    fn start(fleet: &Fleet) -> Self {
        let folder = fleet.path("films-of-the-origin");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("film.mp4"), bytes(100_000, 0)).unwrap();
        let config = "[http]\ncache_control = \"max-age=3600\"\n";
        let server = Launch::of(&folder).config(config).arguments("--tls off --workers 1").start();
        Self { server, folder, version: 0 }
    }

    /// Replaces the film. Returns the old and the new one.
    fn replace(&mut self) -> [Vec<u8>; 2] {
        let film = |version| bytes(100_000, version);
        self.version += 1;
        let films = [film(self.version - 1), film(self.version)];
        std::fs::write(self.folder.join("new"), &films[1]).unwrap();
        std::fs::rename(self.folder.join("new"), self.folder.join("film.mp4")).unwrap();
        until("the origin to serve the new film", || fetch(&self.server) == films[1]);
        films
    }
}

/// A purge as it ended: the exit code, and the order.
fn purge(fleet: &Fleet, words: &str) -> (Option<i32>, Value) {
    let words: Vec<_> = ["purge"].into_iter().chain(words.split(' ')).collect();
    let Output { status, stdout, stderr } = fleet.control_ends(&words);
    let order = serde_json::from_slice(&stdout);
    let order = order.unwrap_or_else(|_| json!(String::from_utf8_lossy(&stderr)));
    (status.code(), order)
}

fn states(order: &Value) -> Vec<&str> {
    let nodes = order["nodes"].as_array().unwrap_or_else(|| panic!("{order}"));
    nodes.iter().map(|node| node["state"].as_str().unwrap()).collect()
}

fn order(fleet: &Fleet, number: &Value) -> Value {
    fleet.control(&["purges", &number.to_string()])
}

/// One fleet for everything: starting one takes longer than the tests. The third node has no edge.
#[test]
fn one_command_purges_every_edge_of_a_fleet_now_or_when_it_is_back() {
    let mut fleet = Fleet::start(&["a", "b", "c"], 4);
    let mut origin = FilmOrigin::start(&fleet);
    let mut edges = ["node-1", "node-2"].map(|name| BoxEdge::start(&fleet, name, &origin.server));
    for (node, edge) in fleet.nodes.iter_mut().zip(&edges) {
        node.restart_agent(&edge.flags());
    }
    until("the gateway to know of both edges", || fleet.nodes[..2].iter().all(has_reported));
    now(&fleet, &mut origin, &edges);
    later(&mut fleet, &mut origin, &mut edges);
    refusals(&fleet);
    // A gateway that starts again gets all receipts again.
    fleet.gateway.kill();
    fleet.restart_gateway();
    until("all receipts", || {
        let order = order(&fleet, &json!(1));
        states(&order) == ["done", "done", "no_edge"] && order["nodes"][0]["films"] == 1
    });
}

/// Whether a gateway has answered a report of the node on its edge.
fn has_reported(node: &Node) -> bool {
    let status = std::fs::read(node.state.join("agent.json")).unwrap();
    let status: Value = serde_json::from_slice(&status).unwrap();
    status["edge"]["epoch"].as_u64().is_some_and(|epoch| epoch > 0)
}

fn now(fleet: &Fleet, origin: &mut FilmOrigin, edges: &[BoxEdge; 2]) {
    edges.iter().for_each(|edge| drop(edge.film()));
    let [old, new] = origin.replace();
    assert!(edges.iter().all(|edge| edge.film() == old), "they keep it for an hour");
    let (code, order) =
        purge(fleet, "https://edge.example/film.mp4?token=x --reason cut --wait 300");
    assert_eq!((code, states(&order)), (Some(0), vec!["done", "done", "no_edge"]), "{order}");
    assert!(edges.iter().all(|edge| edge.film() == new));
    let nodes = order["nodes"].as_array().unwrap();
    assert!(nodes[..2].iter().all(|node| node["films"] == 1), "{order}");
    assert_eq!((&order["what"], &order["reason"]), (&json!("/film.mp4?..."), &json!("cut")));
}

fn later(fleet: &mut Fleet, origin: &mut FilmOrigin, edges: &mut [BoxEdge; 2]) {
    fleet.nodes[1].agent.kill();
    let [old, new] = origin.replace();
    let (code, away) = purge(fleet, "--prefix / --soft --wait 1");
    assert_eq!((code, states(&away)[1]), (Some(1), "waiting"), "{away}");
    assert!(edges[1].film() == old);
    fleet.nodes[1].restart_agent(&edges[1].flags());
    let is_done = |fleet: &Fleet, number| order(fleet, number)["is_done"] == true;
    until("the agent that was away to purge", || is_done(fleet, &away["number"]));
    assert!(edges.iter().all(|edge| edge.film() == new));
    // The agent is there, and its edge is not.
    edges[0].stop();
    let [_, newer] = origin.replace();
    let (code, down) = purge(fleet, "/film.mp4 /other.mp4 --wait 1");
    assert_eq!((code, states(&down)[0]), (Some(1), "waiting"), "{down}");
    until("the reason", || {
        let order = order(fleet, &down["number"]);
        order["nodes"][0]["why"].as_str().is_some_and(|why| why.contains("no server answers"))
    });
    edges[0].start_again();
    until("the edge that was down to purge", || is_done(fleet, &down["number"]));
    assert!(edges.iter().all(|edge| edge.film() == newer));
}

fn refusals(fleet: &Fleet) {
    let listed = |fleet: &Fleet| fleet.control(&["purges"])["purges"].as_array().unwrap().len();
    let before = listed(fleet);
    let (code, why) = purge(fleet, "/%zz");
    assert!(code == Some(1) && why.to_string().contains("encoded correctly"), "{why}");
    let anna = json!({ "id": "anna", "role": "read" });
    let answer = fleet.api("POST", "/api/v1/operators", &anna);
    let token = fleet.path("anna.token");
    std::fs::write(&token, answer["token"].as_str().unwrap()).unwrap();
    let token = token.to_str().unwrap();
    let (code, why) = purge(fleet, &format!("--prefix / --token-file {token}"));
    assert!(code == Some(1) && why.to_string().contains("role"), "{why}");
    assert_eq!(listed(fleet), before, "none was ordered");
    assert!(fleet.control_ends(&["purges", "--token-file", token]).status.success());
    let audit = fleet.api("GET", "/api/v1/audit?limit=200", &Value::Null);
    let lines = audit["lines"].as_array().unwrap();
    let purges: Vec<_> = lines.iter().filter(|line| line["what"] == "purge").collect();
    assert_eq!((purges.len(), &purges[1]["detail"]), (before, &json!("soft prefix: /")), "{audit}");
}
