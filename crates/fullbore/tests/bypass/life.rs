//! How it starts, and what it leaves when it ends.

use crate::support::served::{PATIENCE, Room, Server};
use crate::support::space::{Space, is_here};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn devices(space: &Space) -> String {
    let links = String::from_utf8(space.succeed("ip", &["-o", "link"])).unwrap();
    let routes = String::from_utf8(space.succeed("ip", &["route"])).unwrap();
    let routes_v6 = String::from_utf8(space.succeed("ip", &["-6", "route"])).unwrap();
    let neighbours = String::from_utf8(space.succeed("ip", &["neighbour"])).unwrap();
    [links, routes, routes_v6, neighbours].concat()
}

/// The kernel takes a ring apart at its leisure, and with it the last hold on a device.
#[track_caller]
fn await_devices(space: &Space, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    while devices(space) != wanted {
        assert!(Instant::now() < deadline, "there still is {}", devices(space));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killed_it_leaves_nothing_and_starts_again() {
    let Some(space) = is_here("ip", "iproute2").then(Space::new).flatten().map(Arc::new) else {
        return;
    };
    let room = Room::new(1000);
    let before = devices(&space);
    for _ in 0..2 {
        let server = Server::start(&space, &room, &[], "");
        assert!(devices(&space).contains("fullbore"), "{}", devices(&space));
        server.kill();
        await_devices(&space, &before);
    }
    Server::start(&space, &room, &[], "").end();
    await_devices(&space, &before);
}

#[test]
fn it_keeps_no_privileges_over_the_network() {
    let Some(space) = Space::new().map(Arc::new) else { return };
    let room = Room::new(1000);
    let server = Server::start(&space, &room, &[], "");
    assert!(server.said().contains("privileges over the network given up"), "{}", server.said());
    /// `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_SYS_ADMIN`, `CAP_BPF` (linux/capability.h).
    const GIVEN_UP: u64 = 1 << 12 | 1 << 13 | 1 << 21 | 1 << 39;
    for set in ["CapPrm", "CapEff", "CapInh"] {
        for value in server.of_every_thread(set) {
            let value = u64::from_str_radix(&value, 16).unwrap();
            assert_eq!(value & GIVEN_UP, 0, "{set} {value:x}");
        }
    }
    server.end();
}

#[test]
fn without_privileges_it_says_which_it_needs() {
    let Some(space) = is_here("setpriv", "util-linux").then(Space::new).flatten() else { return };
    let room = Room::new(1000);
    let config = room.config("");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_admin", env!("CARGO_BIN_EXE_fullbore"), "serve"]);
    command.arg(room.path("library")).args(["--route", "bypass", "--config"]).arg(config);
    command.args(["--admin", "127.0.0.1:0", "--state"]).arg(room.path("state"));
    let output = space.run(move || command.output()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
}

#[test]
fn without_an_address_it_says_what_to_write() {
    let room = Room::new(1000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
    command.arg("serve").arg(room.path("library")).args(["--route", "bypass"]);
    command.args(["--admin", "127.0.0.1:0", "--state"]).arg(room.path("state"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("bypass.addresses is empty"), "{said}");
}
