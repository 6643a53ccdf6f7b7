//! A whole fleet, ended when dropped.

use fullbore_tests::{Said, Signal, film, program, until, within};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Thirteen processes share this machine, so one fleet at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Each fleet has a /24 of loopback of its own.
static FLEETS: AtomicU8 = AtomicU8::new(0);

/// A gateway takes silence for death after 15 s; the rest is for a busy machine.
pub(crate) const DEATH: Duration = Duration::from_secs(40);

/// A process of a fleet. Killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdout: Said,
    pub(crate) stderr: Said,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Said::listen(child.stdout.take().unwrap());
        let stderr = Said::listen(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> bool {
        self.signal(Signal::TERM);
        within(DEATH, "the process to end", || self.child.try_wait().unwrap()).success()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("it said: {:#?}\n{:#?}", self.stdout.lines(), self.stderr.lines());
        }
    }
}

/// A node: its agent, which has started its server.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) state: PathBuf,
    pub(crate) library: PathBuf,
    pub(crate) agent: Running,
    port: u16,
}

impl Node {
    fn start_agent(state: &Path, library: &Path, host: &str, port: u16) -> Running {
        let mut command = Command::new(program());
        command.arg("node").arg("--state").arg(state).arg("--library").arg(library);
        command.arg("--").args(["--listen", &format!("{host}:{port}"), "--tls", "off"]);
        command.args(["--admin", "127.0.0.1:0", "--workers", "1"]);
        Running::start(&mut command)
    }

    /// The process id of its server.
    pub(crate) fn server(&self) -> Pid {
        self.find_server().unwrap_or_else(|| panic!("{} has no server", self.name))
    }

    fn find_server(&self) -> Option<Pid> {
        let listens = format!("{}:{}", self.host, self.port);
        let ours = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = words.split(|byte| *byte == 0).collect();
            words.get(1) == Some(&b"serve".as_slice()) && words.contains(&listens.as_bytes())
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Pid::from_raw(pids.find(ours)?)
    }

    /// Agent and server die at once, as when the power goes.
    pub(crate) fn power_off(&mut self) {
        let server = self.server();
        self.agent.kill();
        kill_process(server, Signal::KILL).unwrap();
    }

    /// Agent and server go on existing, and do nothing.
    pub(crate) fn freeze(&self) {
        self.agent.signal(Signal::STOP);
        kill_process(self.server(), Signal::STOP).unwrap();
    }

    /// Starts the agent again after [`Self::power_off`].
    pub(crate) fn power_on(&mut self) {
        self.agent = Self::start_agent(&self.state, &self.library, &self.host, self.port);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The server outlives its agent, so it is ended by itself.
        self.agent.kill();
        if let Some(server) = self.find_server() {
            let _ = kill_process(server, Signal::KILL);
        }
    }
}

/// A gateway, its store and its nodes. The film `film` is published, and all nodes hold it.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) gateway: Running,
    /// Of viewers, without a slash at the end.
    pub(crate) url: String,
    pub(crate) admin: String,
    pub(crate) folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Fleet {
    /// Starts a fleet whose nodes are at `sites`, with a film of so many segments of two seconds.
    pub(crate) fn start(sites: &[&str], segments: usize) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        film::make_with_record(&folder.path().join("origin"), segments);
        let (public, admin, machines) = (free_port(), free_port(), free_port());
        let gateway = gateway(folder.path(), [public, admin, machines], free_port());
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let mut fleet = Self {
            nodes: Vec::new(),
            gateway,
            url: format!("http://127.0.0.1:{public}"),
            admin: format!("http://127.0.0.1:{admin}"),
            folder,
            _alone: alone,
        };
        fleet.gateway.stdout.wait_for("ready ");
        for (at, site) in sites.iter().enumerate() {
            let host = format!("127.{}.{number}.{}", 64 + std::process::id() % 64, at + 1);
            fleet.add_node(&format!("node-{}", at + 1), site, &host, machines);
        }
        fleet.publish();
        fleet
    }

    fn add_node(&mut self, name: &str, site: &str, host: &str, machines: u16) {
        let cluster = format!("{site}-1");
        let invite =
            self.control(&["invite", "--cluster", &cluster, "--site", site, "--region", "r"]);
        let token = invite["token"].as_str().unwrap_or_else(|| panic!("{invite}")).to_owned();
        let (state, library) = (self.path(name), self.path(&format!("{name}/library")));
        let mut join = Command::new(program());
        join.args(["join", &format!("https://127.0.0.1:{machines}"), "--token", &token]);
        join.args(["--host", host, "--name", name, "--ceiling", "1"]).arg("--state").arg(&state);
        let joined = join.output().unwrap();
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        let port = self.node_port();
        let agent = Node::start_agent(&state, &library, host, port);
        let (name, host) = (name.to_owned(), host.to_owned());
        self.nodes.push(Node { name, host, state, library, agent, port });
    }

    fn publish(&self) {
        let origin = self.path("origin");
        self.control(&["publish", "film", "--library", origin.to_str().unwrap()]);
        until("all nodes to hold the film", || self.holders("film") == self.nodes.len());
        until("three nodes for a viewer", || self.route().len() == self.nodes.len().min(3));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn node_port(&self) -> u16 {
        std::fs::read_to_string(self.path("node-port")).unwrap().parse().unwrap()
    }

    /// Starts the gateway again on the same addresses.
    pub(crate) fn restart_gateway(&mut self) {
        let port = |url: &str| url.rsplit(':').next().unwrap().parse().unwrap();
        let machines = std::fs::read_to_string(self.path("machines-port")).unwrap();
        let ports = [port(&self.url), port(&self.admin), machines.parse().unwrap()];
        self.gateway = gateway(self.folder.path(), ports, self.node_port());
        self.gateway.stdout.wait_for("ready ");
    }

    /// Runs `fullbore control` with `--json`, and returns what it printed.
    pub(crate) fn control(&self, words: &[&str]) -> Value {
        let ran = self.control_ends(words);
        let text = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    /// As [`Self::control`], whatever comes of it.
    pub(crate) fn control_ends(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(program());
        command.arg("control").args(words).args(["--admin", &self.admin, "--json"]);
        command.arg("--state").arg(self.path("gateway")).output().unwrap()
    }

    /// What the gateway says of a node.
    pub(crate) fn node(&self, name: &str) -> Value {
        let all = self.control(&["nodes"]);
        let nodes = all["nodes"].as_array().unwrap_or_else(|| panic!("{all}"));
        nodes.iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
    }

    pub(crate) fn state_of(&self, name: &str) -> String {
        self.node(name)["state"].as_str().unwrap_or_default().to_owned()
    }

    /// How many nodes hold a title.
    pub(crate) fn holders(&self, title: &str) -> usize {
        let place = self.control(&["where", title]);
        let nodes = place["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.iter().filter(|node| node["holds"] == true).count()
    }

    /// The nodes that a viewer of the film gets; each viewer has an order of its own.
    pub(crate) fn route(&self) -> Vec<String> {
        let (_, text) = get(&format!("{}/api/v1/route?title=film", self.url));
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter_map(|node| node["node"].as_str().map(str::to_owned)).collect()
    }

    /// Where the film plays.
    pub(crate) fn film(&self) -> String {
        format!("{}/play/film/master.m3u8", self.url)
    }
}

fn gateway(folder: &Path, [public, admin, machines]: [u16; 3], node_port: u16) -> Running {
    std::fs::write(folder.join("node-port"), node_port.to_string()).unwrap();
    std::fs::write(folder.join("machines-port"), machines.to_string()).unwrap();
    let mut command = Command::new(program());
    command
        .args(["control", "serve", "--node-scheme", "http"])
        .arg("--state")
        .arg(folder.join("gateway"));
    command.args(["--node-port", &node_port.to_string()]);
    for (flag, port) in [("--public", public), ("--admin", admin), ("--machines", machines)] {
        command.args([flag, &format!("127.0.0.1:{port}")]);
    }
    Running::start(&mut command)
}

/// A GET by curl: the status and the body.
pub(crate) fn get(url: &str) -> (u16, String) {
    let mut curl = Command::new("curl");
    let ran = curl.args(["-sS", "--max-time", "10", "-w", "\n%{http_code}", url]).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.parse().unwrap_or(0), body.to_owned())
}
