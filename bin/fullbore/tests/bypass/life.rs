//! How the bypass route starts, and what remains after it ends.

use crate::support::device::Device;
use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{Namespace, PATIENCE, program, tool};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A namespace with what a device of this kind needs; the other value keeps further things alive.
fn place(device: Device) -> Option<(Arc<Namespace>, Option<Far>)> {
    match device {
        Device::Tap => Some((Arc::new(Namespace::if_possible()?), None)),
        Device::Xdp => Far::new(1500, "").map(|far| (Arc::clone(&far.server), Some(far))),
    }
}

/// Everything that a server could leave there: devices and their programs, routes, rules, and neighbours that do not age.
fn traces(space: &Namespace) -> String {
    let shown = ["-o link", "route", "-6 route", "rule", "-6 rule", "neighbour show nud permanent"];
    let told = shown.map(|what| space.succeed("ip", &what.split(' ').collect::<Vec<_>>()));
    String::from_utf8(told.concat()).unwrap()
}

/// A line of `traces` that is there while a server runs.
fn mark(device: Device) -> &'static str {
    match device {
        Device::Tap => "192.0.2.2 dev fullbore",
        Device::Xdp => "xdp",
    }
}

/// The kernel takes its time to dismantle a ring, which is the last user of a device.
#[track_caller]
fn await_traces(space: &Namespace, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    while traces(space) != wanted {
        assert!(Instant::now() < deadline, "instead of\n{wanted}\nthere is\n{}", traces(space));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killed_it_leaves_nothing_and_starts_again() {
    if !tool::are_here(&[("ip", "iproute2")]) {
        return;
    }
    for device in Device::ALL {
        let Some((space, _far)) = place(device) else { return };
        let mut room = Room::new(1000);
        room.device = device.config(1500);
        let before = traces(&space);
        assert!(!before.contains(mark(device)), "{before}");
        for _ in 0..2 {
            let server = Server::start(&space, &room, &[], "");
            assert!(traces(&space).contains(mark(device)), "{}", traces(&space));
            server.kill();
            // At once, as a supervisor would; it waits for what the kernel still holds.
            let server = Server::start(&space, &room, &[], "");
            server.kill();
            await_traces(&space, &before);
        }
        Server::start(&space, &room, &[], "").end();
        await_traces(&space, &before);
    }
}

#[test]
fn it_keeps_no_privileges_but_to_read_files() {
    /// `CAP_DAC_READ_SEARCH`, `CAP_FOWNER` (linux/capability.h): no network capabilities, and no `CAP_DAC_OVERRIDE`,
    /// `CAP_SYS_PTRACE` or any other of root's.
    const KEPT: u64 = 1 << 2 | 1 << 3;
    for device in Device::ALL {
        let Some((space, _far)) = place(device) else { return };
        let mut room = Room::new(1000);
        room.device = device.config(1500);
        let server = Server::start(&space, &room, &[], "");
        let said = server.said();
        assert!(said.contains("network privileges given up"), "{said}");
        for set in ["CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd"] {
            let values = server.of_every_thread(set);
            assert!(values.len() > 1, "there are workers");
            for value in values {
                let value = u64::from_str_radix(&value, 16).unwrap();
                assert_eq!(value & !KEPT, 0, "{device:?}: {set} {value:x}");
            }
        }
        server.end();
    }
}

#[test]
fn without_privileges_it_says_which_it_needs() {
    let Some(space) =
        tool::are_here(&[("setpriv", "util-linux")]).then(Namespace::if_possible).flatten()
    else {
        return;
    };
    let room = Room::new(1000);
    let config = room.path("fullbore.toml");
    std::fs::write(&config, room.config("")).unwrap();
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-net_admin").arg(program()).arg("serve");
    command.arg(room.path("library")).args(["--route", "bypass", "--config"]).arg(config);
    command.args(["--admin", "127.0.0.1:0", "--state"]).arg(room.path("state"));
    let output = space.inside(move || command.output()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
}

#[test]
fn without_an_address_it_says_what_to_write() {
    let room = Room::new(1000);
    let mut command = Command::new(program());
    command.arg("serve").arg(room.path("library")).args(["--route", "bypass"]);
    command.args(["--admin", "127.0.0.1:0", "--state"]).arg(room.path("state"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("bypass.addresses is empty"), "{said}");
}
