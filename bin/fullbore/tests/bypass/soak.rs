//! Minutes of mixed load over a TAP: the bypass route's part of `./run soak`.

use crate::support::served::{Room, Server};
use fullbore_tests::{Namespace, PATIENCE, program};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kinds of load, in turn: some viewers leave and seek, some read slowly, some come and go.
const LOADS: [&str; 4] = [
    "--pattern whole --connections 20 --verify 4",
    "--pattern player --connections 40 --aborts 20% --seeks 20% --verify 4",
    "--pattern whole --connections 30 --read-rate 500K",
    "--handshakes --connections 10",
];

/// How long each of them lasts at most.
const TURN_MAX: Duration = Duration::from_secs(30);

#[test]
#[ignore = "takes minutes: ./run soak [MINUTES]"]
fn mixed_load_over_a_tap_leaves_nothing_behind() {
    let Some(space) = Namespace::if_possible().map(Arc::new) else { return };
    let minutes: f64 = std::env::var("FULLBORE_SOAK_MINUTES")
        .map_or(1.0, |minutes| minutes.parse().expect("FULLBORE_SOAK_MINUTES is a number"));
    let duration = Duration::from_secs_f64(minutes * 60.0);
    let room = Room::new(8_000_003);
    let began = Instant::now();
    loop {
        // A server's life: all loads, then the end.
        let server = Server::start(&space, &room, &[], "");
        let turn = TURN_MAX.min(duration / LOADS.len() as u32);
        // The first round opens what stays open.
        for load_of_turn in LOADS {
            load(&space, &server, load_of_turn, Duration::from_secs(2));
        }
        let before = settled_at(&server, u64::MAX);
        for load_of_turn in LOADS {
            load(&space, &server, load_of_turn, turn);
        }
        // A file that was in memory the first time opens a second descriptor at its first direct read.
        let descriptors_max = before[4] + server.number("open_files");
        let after = settled_at(&server, descriptors_max);
        eprintln!(
            "soak: {} s of {}: bypass, {} connections, {} MiB; {before:?} and {after:?}",
            began.elapsed().as_secs(),
            duration.as_secs(),
            server.number("connections_accepted_total"),
            server.number("response_sent_bytes_total") >> 20,
        );
        assert_eq!(server.number("tasks_panicked_total"), 0, "{}", server.said());
        server.end();
        if began.elapsed() >= duration {
            return;
        }
    }
}

/// Runs `fullbore load` against the server to its end. Aborting viewers count as errors, and so do wrong bytes, so this looks for the latter.
fn load(space: &Arc<Namespace>, server: &Server, how: &str, length: Duration) {
    let mut load = Command::new(program());
    load.args(["load", "--insecure", "--allow-errors", "--ramp", "1s"]);
    load.args(how.split(' ')).arg("--duration").arg(format!("{}s", length.as_secs().max(1)));
    load.arg(server.url()).stdin(Stdio::null());
    let ended = space.inside(move || load.output()).expect("it runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{how}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!said.contains("wrong_bytes"), "{how}: {said}");
}

/// The numbers that must return to their earlier values: connections, what they hold, buffers in use, descriptors.
fn held(server: &Server) -> [u64; 5] {
    [
        server.number("connections"),
        server.number("bypass_connection_bytes"),
        server.number("read_buffers") - server.number("read_buffers_free"),
        server.number("send_buffers") - server.number("send_buffers_free"),
        server.descriptors() as u64,
    ]
}

/// Waits until nothing is held any more and at most this many descriptors are open.
#[track_caller]
fn settled_at(server: &Server, descriptors_max: u64) -> [u64; 5] {
    let deadline = Instant::now() + PATIENCE * 3;
    loop {
        let after = held(server);
        if after[..4] == [0; 4] && after[4] <= descriptors_max {
            return after;
        }
        assert!(
            Instant::now() < deadline,
            "more than {descriptors_max} descriptors, or not back: {after:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}
