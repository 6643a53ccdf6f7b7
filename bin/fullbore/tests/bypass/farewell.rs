//! How connections end when the server ends them.

use crate::support::far::Far;
use crate::support::served::{PORT, Room, Server, V4};
use fullbore_tests::{Namespace, PATIENCE, tool};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Long enough that a viewer is in the middle of it, also on a busy machine: 6 MB at 1 MB/s.
const FILM_BYTES: usize = 6_000_000;
const RATE: &str = "[net]\npacing_bits_per_second = 8_000_000\n";

/// Waits until a new viewer is refused.
#[track_caller]
fn await_refusal(space: &Namespace) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tried = space.inside(|| TcpStream::connect((V4, PORT)).map(drop));
        let tried = tried.map_err(|error| error.kind());
        if tried == Err(ErrorKind::ConnectionRefused) {
            return;
        }
        assert!(Instant::now() < deadline, "a new viewer is not refused: {tried:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn told_to_end_it_finishes_what_was_begun_and_refuses_what_is_new() {
    let Some(space) =
        tool::are_here(&[("curl", "curl")]).then(Namespace::if_possible).flatten().map(Arc::new)
    else {
        return;
    };
    let room = Room::new(FILM_BYTES);
    // Of four workers at least one has no viewer. It must not take its queue with it.
    for (workers, viewers) in [("1", 12), ("4", 3)] {
        let server = Server::start(&space, &room, &["--workers", workers], RATE);
        let watching: Vec<_> = (0..viewers)
            .map(|number| {
                let got = room.path(&format!("got-{number}"));
                let mut curl = Command::new("curl");
                curl.args(["--silent", "--show-error", "--insecure", "--max-time", "600"]);
                curl.arg("--output").arg(&got).arg(server.url()).stdin(Stdio::null());
                (space.inside(move || curl.spawn()).unwrap(), got)
            })
            .collect();
        server.await_number("requests_total", viewers);
        server.await_number("response_sent_bytes_total", viewers * 100_000);
        let sent_bytes = server.number("response_sent_bytes_total");
        assert!(sent_bytes < viewers * FILM_BYTES as u64, "they have all of it already");
        server.signal(Signal::TERM);
        await_refusal(&space);
        for (mut viewer, got) in watching {
            assert!(viewer.wait().unwrap().success(), "{workers} workers");
            assert!(std::fs::read(got).unwrap() == room.film, "{workers} workers");
        }
        server.await_end();
    }
}

/// The server's reset is lost. It answers the viewer's next packet with another reset.
#[test]
fn who_did_not_hear_that_it_is_over_is_told_again() {
    let Some(far) = Far::new(1500, "") else { return };
    let room = Room::new(1000);
    // Long enough to cut the path before it is over.
    let server = Server::start(&far.server, &room, &[], "[timeouts]\nhandshake_seconds = 5\n");
    let mut viewer = far.client.inside(|| TcpStream::connect((V4, PORT))).unwrap();
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    server.await_number("connections_accepted_total", 1);
    far.forward(false);
    let timeouts = "connections_ended_total{reason=\"handshake_timeout\"}";
    assert_eq!(server.number(timeouts), 0, "the server's reset could still arrive");
    server.await_number(timeouts, 1);
    server.await_number("tcp_events_total{event=\"resets_sent\"}", 1);
    far.forward(true);
    viewer.write_all(b"are you there?").unwrap();
    let heard = viewer.read(&mut [0; 100]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::ConnectionReset));
    server.await_number("tcp_events_total{event=\"resets_sent\"}", 2);
    server.end();
}
