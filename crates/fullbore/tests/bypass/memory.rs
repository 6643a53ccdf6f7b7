//! What a thousand connections hold while their windows are in flight.

use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{PATIENCE, program};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 1000;

/// What a connection may hold besides its tags.
const BYTES_MAX: u64 = 8 << 10;

/// In flight at once for all connections: 20 KB each.
const IN_FLIGHT_BYTES_MIN: u64 = 20_000_000;

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
    let (mut in_flight_bytes, mut held_bytes) = (0, 0);
    while in_flight_bytes < IN_FLIGHT_BYTES_MIN && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
        let connections = server.number("connections");
        let in_flight = server.number("bypass_in_flight_bytes");
        if connections >= CONNECTIONS && in_flight > in_flight_bytes {
            (in_flight_bytes, held_bytes) = (in_flight, server.number("bypass_connection_bytes"));
        }
    }
    load.kill().unwrap();
    load.wait().unwrap();
    let tag_bytes = in_flight_bytes / 16_384 * 17;
    println!(
        "{in_flight_bytes} bytes on their way, {held_bytes} held, of these {tag_bytes} of tags"
    );
    assert!(in_flight_bytes >= IN_FLIGHT_BYTES_MIN, "only {in_flight_bytes} were on their way");
    assert!(held_bytes <= CONNECTIONS * BYTES_MAX + tag_bytes, "{held_bytes} bytes are held");
    server.kill();
}
