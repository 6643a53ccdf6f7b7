//! The server's own memory for an idle viewer.

use crate::films;
use crate::viewer::Viewers;
use fullbore_tests::{Launch, Server, until};
use std::net::TcpStream;

/// Viewers that come and go first, so that what they all share has been touched.
const WARM_UP: u64 = 200;

/// Viewers that stay.
const IDLE: u64 = 2000;

/// The promise: nginx takes eleven times as much on the machine that it was measured on.
const BYTES_EACH_MAX: u64 = 4096;

#[test]
fn an_idle_viewer_costs_no_more_than_a_page() {
    machine::raise_nofile().expect("the limit on files can be raised to the hard one");
    let library = films::make().expect("the library is written");
    // On a busy machine it takes more than an idle viewer's time until the last one is there.
    let launch = Launch::of(library.path()).config("[timeouts]\nidle_seconds = 3600\n");
    let server = launch.start();
    drop(stay(&server, WARM_UP));
    until("those who leave are gone", || {
        server.wait_for_news();
        server.sum("connections") == 0
    });
    let (own_before, all_before) = (server.own_memory_bytes(), server.resident_bytes());

    let viewers = stay(&server, IDLE);
    until("those who stay are counted", || server.sum("connections") == IDLE);
    let own_each = (server.own_memory_bytes().saturating_sub(own_before)) / IDLE;
    let all_each = (server.resident_bytes().saturating_sub(all_before)) / IDLE;
    println!("an idle viewer costs {all_each} bytes, {own_each} of them anonymous memory");
    assert!(all_each <= BYTES_EACH_MAX, "an idle viewer costs {all_each} bytes");
    drop(viewers);
}

/// Connections with TLS 1.3 that were answered once.
fn stay(server: &Server, count: u64) -> Vec<TcpStream> {
    let mut viewers = Viewers::new(server.address);
    (0..count).map(|_| viewers.idle().expect("the viewer is served")).collect()
}
