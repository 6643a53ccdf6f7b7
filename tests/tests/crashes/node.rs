//! A node crashes while it copies titles, reports its titles, and removes withdrawn ones. A title in its library is whole after each
//! crash, its reported titles are there, and its agent rejoins the fleet without help.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use catalog::TitlePath;
use fullbore_tests::{free_port, make_title, program, until, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::gateway::Seat;
use crate::ground::{Crash, Ground};
use crate::{Process, draws, long, run, until_a_drawn_moment};

/// Titles have some blocks, the last of which is not whole.
const TITLE_BYTES_MAX: usize = 4 << 20;

/// The longest time from publishing titles to a crash.
const MILLIS_MAX: u64 = 1500;

/// Titles that are published at a time.
const TITLES_MAX: usize = 8;

/// A gateway counts a silent node as lost after 15 s, and the machine may be busy.
const RETURN_MAX: Duration = Duration::from_secs(300);

const NAME: &str = "n1";

/// A box: its folders, and its server's address.
struct Machine {
    state: PathBuf,
    library: PathBuf,
    port: u16,
}

impl Machine {
    fn start(&self) -> Process {
        let mut command = Command::new(program());
        command.arg("node").arg("--state").arg(&self.state).arg("--library").arg(&self.library);
        command.args(["--", "--listen", &self.listens(), "--tls", "off"]);
        command.args(["--admin", "127.0.0.1:0", "--workers", "1"]);
        Process::start(&mut command)
    }

    fn listens(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its server, which outlives its agent. One that the agent was about to start still has the agent's command line.
    fn server(&self) -> Option<Pid> {
        let listens = self.listens();
        let ours = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = words.split(|byte| *byte == 0).collect();
            let verbs = [b"serve".as_slice(), b"node"];
            words.get(1).is_some_and(|verb| verbs.contains(verb))
                && words.contains(&listens.as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Pid::from_raw(pids.find(ours)?)
    }

    /// Once its agent is gone.
    fn kill_server(&self) {
        until("its server to be gone", || {
            let server = self.server();
            server.map(|server| kill_process(server, Signal::KILL)).is_none()
        });
    }

    /// The titles in its library, each of which has to be whole.
    fn whole_titles(&self) -> BTreeSet<String> {
        let names = fs::read_dir(&self.library).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let names: BTreeSet<_> = names.filter(|name| !name.starts_with('.')).collect();
        for name in &names {
            let title = catalog::find(&self.library, &TitlePath::new(name).unwrap());
            let title = title.unwrap_or_else(|_| panic!("{name} cannot be read"));
            let faults = title.as_ref().map(catalog::verify);
            assert!(faults.is_some_and(|faults| faults.is_empty()), "{name} is not whole");
        }
        names
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill_server();
    }
}

/// A fleet of one gateway, which does not crash, and one node.
struct Fleet<'g> {
    seat: Seat,
    gateway: Process,
    origin: PathBuf,
    ground: &'g Ground,
    machine: Machine,
    published: Vec<String>,
    count: usize,
}

impl<'g> Fleet<'g> {
    fn new(folder: &Path, ground: &'g Ground) -> Self {
        let (seat, port) = (Seat::new(folder.join("gateway")), free_port());
        let gateway = seat.start(port);
        let (state, library) = (ground.path().join("state"), ground.path().join("library"));
        let machine = Machine { state, library, port };
        let invite = ["invite", "--cluster", "c", "--site", "s", "--region", "r"];
        let token = seat.control(&invite).expect("an invitation")["token"].clone();
        let (machines, state) = (seat.machines(), machine.state.to_str().unwrap());
        let words = ["join", &machines, "--token", token.as_str().unwrap(), "--host", "127.0.0.1"];
        let more = ["--name", NAME, "--ceiling", "1", "--state", state];
        assert!(run(&[&words[..], &more].concat(), folder).is_some(), "it joins");
        let origin = folder.join("origin");
        fs::create_dir(&origin).unwrap();
        Self { seat, gateway, origin, ground, machine, published: Vec::new(), count: 0 }
    }

    fn publish(&mut self, draws: &mut fastrand::Rng) {
        self.count += 1;
        let name = format!("t{}", self.count);
        let folder = self.origin.join(&name);
        fs::create_dir(&folder).unwrap();
        let film: Vec<u8> = (0..draws.usize(1..TITLE_BYTES_MAX)).map(|_| draws.u8(..)).collect();
        make_title(&folder, &film).unwrap();
        let origin = self.origin.to_str().unwrap();
        self.seat.control(&["publish", &name, "--library", origin]).expect("it is published");
        self.published.push(name);
    }

    fn withdraw(&mut self, draws: &mut fastrand::Rng) {
        let name = self.published.swap_remove(draws.usize(..self.published.len()));
        self.seat.control(&["withdraw", &name]).expect("it is withdrawn");
    }

    /// The published titles that the node has reported to the gateway.
    fn held(&self) -> BTreeSet<String> {
        let holds = |name: &&String| {
            let place = self.seat.get(&format!("/api/v1/where?title={name}"));
            let nodes = place["nodes"].as_array().unwrap();
            nodes.iter().any(|node| node["holds"] == true)
        };
        self.published.iter().filter(holds).cloned().collect()
    }

    fn state(&self) -> Value {
        let nodes = self.seat.get("/api/v1/nodes");
        let node = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == NAME);
        node.map(|node| node["state"].clone()).unwrap_or_default()
    }

    fn wait_until_all_are_held(&self) {
        let waited = |what: &str, holds: &dyn Fn() -> bool| {
            within(RETURN_MAX, what, || holds().then_some(()));
        };
        waited("the node to serve", &|| self.state() == "serving");
        waited("the node to hold every title", &|| self.held().len() == self.published.len());
        assert_eq!(self.machine.whole_titles(), self.published.iter().cloned().collect());
    }

    /// Some titles are added, one is removed, and it crashes meanwhile.
    fn crash(&mut self, crash: Crash, mut agent: Process, draws: &mut fastrand::Rng) -> Process {
        for _ in 0..draws.usize(..3) {
            self.publish(draws);
        }
        if self.published.len() > TITLES_MAX {
            self.withdraw(draws);
        }
        until_a_drawn_moment(draws, MILLIS_MAX);
        let held = self.held();
        let server_dies = crash == Crash::PowerFailure || draws.bool();
        self.ground.crash(|| {
            agent.kill();
            if server_dies {
                self.machine.kill_server();
            }
        });
        assert!(!agent.has_panicked());
        let whole = self.machine.whole_titles();
        assert!(held.is_subset(&whole), "it said that it holds {held:?}, and has {whole:?}");
        self.machine.start()
    }
}

/// Crashes a node this often.
fn crash(crash: Crash, times: usize) {
    let Some(ground) = Ground::new(crash) else { return };
    let (mut draws, folder) = (draws(), tempfile::tempdir().unwrap());
    let mut fleet = Fleet::new(folder.path(), &ground);
    let mut agent = fleet.machine.start();
    for number in 0..times {
        // Most crashes interrupt the same work as the previous one.
        if number % 4 == 0 {
            fleet.wait_until_all_are_held();
        }
        agent = fleet.crash(crash, agent, &mut draws);
    }
    fleet.wait_until_all_are_held();
    agent.kill();
    fleet.gateway.end();
    eprintln!("{times} times {crash:?}: {} titles were published", fleet.count);
}

#[test]
fn a_node_that_is_killed_has_whole_titles_and_comes_back() {
    crash(Crash::Kill, 5);
}

#[test]
fn a_node_whose_power_fails_has_whole_titles_and_comes_back() {
    crash(Crash::PowerFailure, 5);
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn a_node_that_is_killed_has_whole_titles_and_comes_back_at_length() {
    crash(Crash::Kill, long());
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn a_node_whose_power_fails_has_whole_titles_and_comes_back_at_length() {
    crash(Crash::PowerFailure, long());
}
