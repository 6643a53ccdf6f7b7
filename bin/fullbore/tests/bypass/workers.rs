//! Two workers on one device: a connection always belongs to one worker, and all messages about it reach that worker.

use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{Namespace, tool};
use std::sync::Arc;

/// Enough that both queues get some: the chance that one gets none is one in eight million.
const CONNECTIONS: usize = 24;

const TWO: [&str; 2] = ["--workers", "2"];

/// This many viewers at once get the film, each over a connection of its own, and close in order.
#[track_caller]
fn watch(space: &Namespace, server: &Server, url: &str, room: &Room) {
    let all = "--silent --show-error --fail --insecure --max-time 600 --parallel --parallel-immediate --parallel-max 50";
    let mut arguments: Vec<_> = all.split(' ').collect();
    arguments.extend(["--write-out", "%{size_download}\n"]);
    for _ in 0..CONNECTIONS {
        arguments.extend(["--output", "/dev/null", url]);
    }
    let told = String::from_utf8(space.succeed("curl", &arguments)).unwrap();
    let bytes = room.film.len().to_string();
    assert_eq!(told.lines().filter(|line| *line == bytes).count(), CONNECTIONS, "{told}");
    let accepted = server.number("connections_accepted_total");
    assert_eq!(accepted, CONNECTIONS as u64, "connections");
}

/// A queue would have answered a segment of a connection that it does not know with a reset.
#[track_caller]
fn assert_nobody_got_anothers_segments(server: &Server) {
    // These are up to a second old.
    server.await_number("tcp_events_total{event=\"accepted\"}", CONNECTIONS as u64);
    assert_eq!(server.number("tcp_events_total{event=\"resets_sent\"}"), 0, "{}", server.metrics());
}

#[test]
fn a_connection_stays_with_its_queue_of_a_tap() {
    let Some(space) =
        tool::are_here(&[("curl", "curl")]).then(Namespace::if_possible).flatten().map(Arc::new)
    else {
        return;
    };
    let room = Room::new(2_000_001);
    let server = Server::start(&space, &room, &TWO, "");
    assert!(server.said().contains("2 queues"), "{}", server.said());
    watch(&space, &server, &server.url(), &room);
    assert_nobody_got_anothers_segments(&server);
    server.end();
}

#[test]
fn a_connection_stays_with_its_queue_of_a_network_card() {
    let Some(far) =
        tool::are_here(&[("curl", "curl")]).then(|| Far::with_queues(1500, 2, "")).flatten()
    else {
        return;
    };
    let mut room = Room::new(2_000_001);
    room.device = Far::xdp();
    let server = Server::start(&far.server, &room, &TWO, "");
    assert!(server.said().contains("2 queues"), "{}", server.said());
    let url = server.url_at("198.51.100.1");
    watch(&far.client, &server, &url, &room);
    assert_nobody_got_anothers_segments(&server);
    server.end();
}

/// The path becomes narrower behind the TAP, and all of the router's messages arrive at one queue.
#[test]
fn what_a_router_says_reaches_the_worker_who_has_the_connection() {
    let Some(far) = tool::are_here(&[("curl", "curl")]).then(|| Far::new(1500, "")).flatten()
    else {
        return;
    };
    far.server.ip("link set dev eth mtu 1300");
    // One message a second would make this a test of patience.
    far.server.set("ipv4/icmp_ratelimit", "0");
    let room = Room::new(300_001);
    let server = Server::start(&far.server, &room, &TWO, "");
    watch(&far.client, &server, &server.url(), &room);
    let lowered = "tcp_events_total{event=\"path_mtu_lowered\"}";
    server.await_number(lowered, CONNECTIONS as u64);
    // Otherwise every message has reached the right worker at once. Each worker publishes its numbers once a second.
    server.await_number("tcp_events_total{event=\"path_mtu_refused\"}", 1);
    server.end();
}
