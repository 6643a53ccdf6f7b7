//! What a thousand connections hold while their windows are in flight.

use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{PATIENCE, program};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 1000;

/// What a connection may hold besides its tags: its state, and a record that its window holds back, sealed, while it opens.
const BYTES_MAX: u64 = (8 << 10) + (16 << 10);

/// In flight at once for each connection, on average.
const IN_FLIGHT_BYTES_MIN: u64 = 20_000;

/// With fewer the measure says little. A busy machine does not hold all of them at once: some are late, and some have given up.
const CONNECTIONS_MIN: u64 = CONNECTIONS / 2;

#[test]
fn a_connection_with_its_window_on_the_way_holds_little_more_than_tags() {
    let Some(far) = Far::new(1500, "--delay 150ms --held 512MiB") else { return };
    let room = Room::new(40_000_000);
    let server = Server::start(&far.server, &room, &[], "");
    let mut load = Command::new(program());
    load.args(["load", "--insecure", "--allow-errors", "--connections", &CONNECTIONS.to_string()]);
    load.args(["--ramp", "5s", "--duration", "60s", "--pattern", "whole", "--patience", "60s"]);
    load.arg(server.url()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = far.client.inside(move || load.spawn()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let (mut connections, mut in_flight_bytes, mut held_bytes) = (0, 0, 0);
    let enough = |connections: u64, in_flight: u64| {
        connections >= CONNECTIONS_MIN && in_flight >= connections * IN_FLIGHT_BYTES_MIN
    };
    let mut connections_before = u64::MAX; // while viewers are still coming, handshakes are held, too
    while !(enough(connections, in_flight_bytes) && connections == connections_before)
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_secs(2)); // the server counts once a second
        connections_before = connections;
        in_flight_bytes = server.number("bypass_in_flight_bytes");
        held_bytes = server.number("bypass_connection_bytes");
        connections = server.number("connections");
    }
    load.kill().unwrap();
    load.wait().unwrap();
    let tag_bytes = in_flight_bytes / 16_384 * 17;
    let said = format!(
        "{connections} connections, {in_flight_bytes} bytes on their way, \
         {held_bytes} held, of these {tag_bytes} of tags"
    );
    println!("{said}");
    assert!(enough(connections, in_flight_bytes), "too few, or too little on its way: {said}");
    assert!(held_bytes <= CONNECTIONS * BYTES_MAX + tag_bytes, "too much is held: {said}");
    server.kill();
}
