//! Ten thousand connections at once.

use crate::interrupt::interrupt;
use crate::program::{command, library, load};
use fullbore_tests::{Launch, tool};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const CONNECTIONS: u64 = 10_000;

/// For everything else that either process has open.
const SPARE: u64 = 500;

#[test]
fn ten_thousand_idle_connections_are_held_without_an_error() {
    let hard = machine::Machine::probe().nofile.map_or(0, |limit| limit.hard);
    if hard < CONNECTIONS + SPARE {
        tool::skip(&format!(
            "a process may open {hard} files here: raise the hard limit (prlimit --nofile)"
        ));
        return;
    }
    let library = library(1);
    // On a busy machine it takes minutes until the last one is open.
    let launch = Launch::of(library.path()).arguments("--workers 1");
    let server = launch
        .config("[timeouts]\nhandshake_seconds = 3600.0\nhead_seconds = 3600.0\nidle_seconds = 3600.0\n")
        .start();
    let url = [format!("{}/0.mp4", server.url)];
    let json = library.path().join("figures.json");
    let words = "--insecure --idle --connections 10000 --ramp 5s --duration 1h --patience 1h";
    let mut command = command(words, &url);
    let mut child = command.arg("--json").arg(&json).stdout(Stdio::null()).spawn().unwrap();
    // Each asks for its one byte once it is open.
    while server.sum("requests_total") < CONNECTIONS {
        assert!(child.try_wait().unwrap().is_none(), "the load has ended before all were open");
        std::thread::sleep(Duration::from_millis(100));
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let figures: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(figures["errors"], serde_json::json!({}));
    assert_eq!(figures["connections_open"], CONNECTIONS);
    assert_eq!(figures["connections_opened"], CONNECTIONS);
}

#[test]
fn more_connections_than_files_may_be_open_are_refused_with_the_way_out() {
    let ran = load("--idle --connections 1000000000", &["http://127.0.0.1:1/".into()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nofile") && ran.stderr.contains("at most"), "{}", ran.stderr);
}
