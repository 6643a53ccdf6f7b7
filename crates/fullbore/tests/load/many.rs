//! Ten thousand connections at once.

use crate::program::{Server, library, load, skip};

const CONNECTIONS: u64 = 10_000;

/// For everything else that either process has open.
const SPARE: u64 = 500;

#[test]
fn ten_thousand_idle_connections_are_held_without_an_error() {
    let hard = machine::Machine::probe().nofile.map_or(0, |limit| limit.hard);
    if hard < CONNECTIONS + SPARE {
        skip(&format!(
            "a process may open {hard} files here: raise the hard limit (prlimit --nofile)"
        ));
        return;
    }
    let library = library(1);
    let server = Server::start(library.path(), &[]);
    let url = [format!("{}/0.mp4", server.url)];
    let words = "--insecure --idle --connections 10000 --ramp 10s --duration 1s --patience 60s";
    let ran = load(words, &url).clean();
    assert_eq!(ran.number("connections_open"), CONNECTIONS as f64);
    assert_eq!(ran.number("connections_opened"), CONNECTIONS as f64);
}

#[test]
fn more_connections_than_files_may_be_open_are_refused_with_the_way_out() {
    let ran = load("--idle --connections 1000000000", &["http://127.0.0.1:1/".into()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nofile") && ran.stderr.contains("at most"), "{}", ran.stderr);
}
