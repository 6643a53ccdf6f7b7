//! The memory of a thousand connections while their windows are in flight.

use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{program, tool};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Numbers of connections to try. A busy machine may not keep a window of each in flight; then fewer show the same.
const CONNECTIONS: [u64; 3] = [1000, 400, 150];

/// The most that a connection may hold besides its tags: its state, and a record that its window holds back, sealed, while it opens.
const BYTES_MAX: u64 = (8 << 10) + (16 << 10);

/// In flight at once for each connection, on average.
const IN_FLIGHT_BYTES_MIN: u64 = 20_000;

/// After this many looks in a row without more in flight, this machine has reached its limit.
const LOOKS_MAX: usize = 5;

/// The server's figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    connections: u64,
    in_flight_bytes: u64,
    held_bytes: u64,
}

impl Look {
    fn at(server: &Server) -> Self {
        server.wait_for_news();
        // All from the same second.
        let counters = server.counters();
        Self {
            connections: counters.value("connections"),
            in_flight_bytes: counters.value("bypass_in_flight_bytes"),
            held_bytes: counters.value("bypass_connection_bytes"),
        }
    }
}

/// Loads the server with `connections` until half of them, or more, have enough in flight. None if this machine is too slow for that.
fn windows_in_flight(far: &Far, server: &Server, connections: u64) -> Option<Look> {
    let mut load = Command::new(program());
    load.args(["load", "--insecure", "--allow-errors", "--connections", &connections.to_string()]);
    load.args(["--ramp", "5s", "--duration", "1h", "--pattern", "whole", "--patience", "1h"]);
    load.arg(server.url()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = far.client.inside(move || load.spawn()).unwrap();
    let look = settled(server, connections, &mut load);
    load.kill().unwrap();
    load.wait().unwrap();
    look
}

fn settled(server: &Server, connections: u64, load: &mut Child) -> Option<Look> {
    let (mut before, mut most_in_flight_bytes, mut looks_left) = (Look::default(), 0, LOOKS_MAX);
    while looks_left > 0 {
        assert!(load.try_wait().unwrap().is_none(), "the load has ended");
        std::thread::sleep(Duration::from_secs(1)); // the server counts once a second
        let look = Look::at(server);
        // While viewers are still coming, handshakes are held, too.
        if look.connections == before.connections && look.connections >= connections / 2 {
            if look.in_flight_bytes >= look.connections * IN_FLIGHT_BYTES_MIN {
                return Some(look);
            }
            looks_left -= 1;
        }
        if look.in_flight_bytes > most_in_flight_bytes {
            (most_in_flight_bytes, looks_left) = (look.in_flight_bytes, LOOKS_MAX);
        }
        before = look;
    }
    None
}

#[test]
fn a_connection_with_its_window_on_the_way_holds_little_more_than_tags() {
    // With a round trip of 0.6 s, a slow machine keeps as much in flight as a fast one does with less.
    let Some(far) = Far::new(1500, "--delay 300ms --held 512MiB") else { return };
    let room = Room::new(40_000_000);
    for connections in CONNECTIONS {
        let server = Server::start(&far.server, &room, &[], "");
        let look = windows_in_flight(&far, &server, connections);
        server.kill();
        let Some(look) = look else { continue };
        let tag_bytes = look.in_flight_bytes / 16_384 * 17;
        println!("{look:?}, of these {tag_bytes} of tags");
        assert!(
            look.held_bytes <= look.connections * BYTES_MAX + tag_bytes,
            "too much is held: {look:?}, of these {tag_bytes} of tags"
        );
        return;
    }
    tool::skip(&format!("too slow to keep windows of {CONNECTIONS:?} connections in flight"));
}
