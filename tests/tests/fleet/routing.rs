//! Steering by the routes of a site's network: two real BIRDs speak BGP in network namespaces, and a node next to one of them passes on its
//! routes.

use crate::house::{Fleet, Running};
use fullbore_tests::{Namespace, tool, until, within};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that a fleet promises.
const WITHDRAWN: Duration = Duration::from_secs(5);

/// The site's own router, next to the node: it only listens.
const HERE: &str = "log stderr all;
    router id 10.9.0.1;
    protocol device { scan time 1; }
    protocol direct { ipv4; ipv6; }
    protocol static { ipv4; route 0.0.0.0/0 via 10.9.0.2; }
    protocol bgp upstream {
        local 10.9.0.1 as 64500;
        neighbor 10.9.0.2 as 64501;
        connect delay time 1; connect retry time 1; error wait time 1, 2;
        ipv4 { import all; export none; };
        ipv6 { import all; export none; };
    }";

/// The network's router: it announces its viewers' prefixes. 203.0.113.0/24 isn't one of its own.
const THERE: &str = "log stderr all;
    router id 10.9.0.2;
    protocol device { scan time 1; }
    protocol static stays { ipv4; route 192.0.2.0/24 blackhole; route 203.0.113.0/24 blackhole; }
    protocol static gone4 { ipv4; route 198.51.100.0/24 blackhole; }
    protocol static gone6 { ipv6; route 2001:db8:1::/48 blackhole; }
    protocol bgp site {
        local 10.9.0.2 as 64501;
        neighbor 10.9.0.1 as 64500;
        connect delay time 1; connect retry time 1; error wait time 1, 2;
        ipv4 { import none; export filter { bgp_med = 70; accept; }; };
        ipv6 { import none; next hop address fd00::2; export all; };
    }";

/// A running BIRD.
struct Bird {
    process: Running,
    socket: PathBuf,
}

impl Bird {
    fn start(namespace: &Namespace, folder: &Path, name: &str, conf: &str) -> Self {
        let file = |kind: &str| folder.join(format!("{name}.{kind}"));
        std::fs::write(file("conf"), conf).unwrap();
        let socket = file("ctl");
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(file("conf")).arg("-s").arg(&socket);
        command.arg("-P").arg(file("pid"));
        let process = namespace.inside(|| Running::start(&mut command));
        until("BIRD to listen", || UnixStream::connect(&socket).is_ok());
        Self { process, socket }
    }

    /// Runs a command of `birdc`, as an operator does.
    fn tell(&self, command: &str) {
        let mut socket = UnixStream::connect(&self.socket).unwrap();
        writeln!(socket, "{command}").unwrap();
        let mut said = Vec::new();
        until("BIRD to do it", || {
            let mut some = [0; 4096];
            let count = socket.read(&mut some).unwrap();
            said.extend_from_slice(&some[..count]);
            // The greeting, and the last line of the reply.
            said.iter().filter(|byte| **byte == b'\n').count() >= 2
        });
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.lines().any(|line| line.starts_with('8') || line.starts_with('9')), "{said}");
    }
}

fn namespaces() -> Option<(Namespace, Namespace)> {
    let (here, there) = (Namespace::if_possible()?, Namespace::new());
    here.join("up0", &there, "down0", 1500);
    for (namespace, name, addresses) in [
        (&here, "up0", ["10.9.0.1/24", "fd00::1/64"]),
        (&there, "down0", ["10.9.0.2/24", "fd00::2/64"]),
    ] {
        addresses.iter().for_each(|address| namespace.address(name, address));
    }
    Some((here, there))
}

/// The prefix that decides for a viewer there, and the node that the viewer gets first.
fn decided(fleet: &Fleet, address: &str) -> (Value, Value) {
    let explained = fleet.control(&["explain", address, "film"]);
    (explained["matched"].clone(), explained["nodes"][0]["node"].clone())
}

fn goes_by(fleet: &Fleet, address: &str, prefix: &str, node: &str) -> bool {
    decided(fleet, address) == (prefix.into(), node.into())
}

#[test]
fn viewers_follow_bgp_and_a_withdrawn_route_is_out_of_answers_within_five_seconds() {
    if !tool::are_here(&[("bird", "bird2"), ("curl", "curl")]) {
        return;
    }
    let Some((here, there)) = namespaces() else { return };
    let mut fleet = Fleet::start(&["a", "b", "c"], 10);
    let folder = fleet.path("birds");
    std::fs::create_dir(&folder).unwrap();
    let mut near = Bird::start(&here, &folder, "here", HERE);
    let network = Bird::start(&there, &folder, "there", THERE);
    fleet.control(&["allow", "b", "192.0.2.0/24", "198.51.100.0/22", "2001:db8::/32"]);
    fleet.nodes[1].restart_agent(&["--bird", near.socket.to_str().unwrap()]);

    let routes = [
        ("192.0.2.7", "192.0.2.0/24"),
        ("198.51.100.7", "198.51.100.0/24"),
        ("2001:db8:1::7", "2001:db8:1::/48"),
    ];
    for (address, prefix) in routes {
        until(prefix, || goes_by(&fleet, address, prefix, "node-2"));
    }
    let told = fleet.control(&["announce", "b"]);
    let feed = &told["feeds"][0];
    assert_eq!((&feed["node"], &feed["believed"]), (&"node-2".into(), &3.into()), "{told}");
    // The box's own default route isn't from BGP, and the neighbour's is outside the list.
    assert_eq!((&feed["refused"], &feed["first_refused"]), (&1.into(), &"203.0.113.0/24".into()));
    assert_eq!(decided(&fleet, "203.0.113.7").0, Value::Null);

    let looked = Instant::now();
    assert_eq!(decided(&fleet, routes[1].0).0, routes[1].1);
    let look = looked.elapsed();
    network.tell("disable gone4");
    network.tell("disable gone6");
    // A look runs a program each time: a busy machine is given as much more time as it is slower.
    within(WITHDRAWN + 20 * look, "both to be out of answers", || {
        let is_out = |(address, _): &(&str, &str)| decided(&fleet, address).0 == Value::Null;
        routes[1..].iter().all(is_out).then_some(())
    });

    // Without BIRD, its last routes hold for a while.
    near.process.kill();
    until("the agent to say so", || {
        let status = std::fs::read(fleet.nodes[1].state.join("agent.json")).unwrap();
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        status["bird"]["problem"].is_string()
    });
    assert!(goes_by(&fleet, routes[0].0, routes[0].1, "node-2"));
    viewers_follow_a_file(&fleet);
}

/// In the same fleet, because starting one takes longer than this.
fn viewers_follow_a_file(fleet: &Fleet) {
    let file = fleet.path("prefixes");
    std::fs::write(&file, "# this machine\n127.0.0.0/8 as_path=64500 med=5\n").unwrap();
    let announced = fleet.control(&["announce", "c", file.to_str().unwrap()]);
    assert_eq!((&announced["prefixes"], &announced["refused"]), (&1.into(), &0.into()));
    until("viewers to go there", || {
        (0..5).all(|_| fleet.route().first().is_some_and(|first| first == "node-3"))
    });
    // The fleet's operator no longer allows the site's prefixes.
    fleet.control(&["allow", "c", "192.0.2.0/24"]);
    assert_eq!(fleet.control(&["announce", "c"])["file"]["refused"], 1);
    until("viewers to go elsewhere, too", || {
        fleet.route().first().is_some_and(|first| first != "node-3")
    });
    std::fs::write(&file, "192.0.2.0\n").unwrap();
    let refused = fleet.control_ends(&["announce", "c", file.to_str().unwrap()]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && why.contains("line 1"), "{why}");
}
