//! A whole fleet, ended when dropped.

use crate::stores::Stores;
use fullbore_tests::{
    FakeClock, Namespace, Said, Signal, SmallDisk, film, free_port, program, until, within,
};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Thirteen processes share this machine, so one fleet at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other fleet is running, and keeps others waiting.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each fleet has a /24 of loopback of its own.
static FLEETS: AtomicU8 = AtomicU8::new(0);

/// A gateway counts a silent node as lost after 15 s; the rest is for a busy machine.
pub(crate) const DEATH: Duration = Duration::from_secs(120);

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

/// A box: its properties before its agent starts.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) state: PathBuf,
    pub(crate) library: PathBuf,
    port: u16,
    /// Its own address for viewers, without a slash at the end.
    pub(crate) answers: Option<String>,
    network: Option<Arc<Namespace>>,
    /// For its agent.
    flags: Vec<String>,
    /// For its server.
    server_flags: Vec<String>,
    /// Its agent's environment variables.
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    fn start_agent(&self, flags: &[&str]) -> Running {
        let mut command = Command::new(program());
        command.arg("node").arg("--state").arg(&self.state).arg("--library").arg(&self.library);
        command.args(flags).args(&self.flags).envs(self.variables.iter().cloned());
        if let Some(url) = &self.answers {
            command.args(["--answers", url.trim_start_matches("http://")]);
        }
        command.args(["--", "--listen", &format!("{}:{}", self.host, self.port), "--tls", "off"]);
        command.args(["--admin", "127.0.0.1:0", "--workers", "1"]).args(&self.server_flags);
        match &self.network {
            Some(network) => network.inside(|| Running::start(&mut command)),
            None => Running::start(&mut command),
        }
    }
}

/// A node: its agent, which has started its server.
pub(crate) struct Node {
    machine: Machine,
    pub(crate) agent: Running,
}

impl Deref for Node {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Node {
    /// The process id of its server.
    pub(crate) fn server(&self) -> Pid {
        self.find_server().unwrap_or_else(|| panic!("{} has no server", self.name))
    }

    pub(crate) fn find_server(&self) -> Option<Pid> {
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

    /// The number of its server's connections, by the server's own figures.
    pub(crate) fn connections(&self) -> u64 {
        self.total("connections")
    }

    /// Its server's figures for all workers together: read in its network, if it has one, because its admin page is on loopback.
    pub(crate) fn total(&self, name: &str) -> u64 {
        let said = std::fs::read_to_string(self.state.join("server.out")).unwrap();
        let admin =
            said.lines().find_map(|line| line.strip_prefix("admin ")?.split_whitespace().next());
        let page = format!("{}status.json", admin.expect("its admin page"));
        let (_, status) = match &self.network {
            Some(network) => network.inside(|| get(&page)),
            None => get(&page),
        };
        let status: Value = serde_json::from_str(&status).unwrap();
        status["total"][name].as_u64().unwrap_or_else(|| panic!("{status}"))
    }

    /// Agent and server die at once, as in a power failure.
    pub(crate) fn power_off(&mut self) {
        let server = self.server();
        self.agent.kill();
        kill_process(server, Signal::KILL).unwrap();
    }

    /// Stops agent and server without ending them.
    pub(crate) fn freeze(&self) {
        self.agent.signal(Signal::STOP);
        kill_process(self.server(), Signal::STOP).unwrap();
    }

    /// Ends the agent and starts it again with more flags. Its server keeps serving.
    pub(crate) fn restart_agent(&mut self, flags: &[&str]) {
        self.agent.kill();
        self.agent = self.machine.start_agent(flags);
    }

    /// Starts the agent again after [`Self::power_off`].
    pub(crate) fn power_on(&mut self) {
        self.agent = self.machine.start_agent(&[]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The server outlives its agent, so it is killed separately.
        self.agent.kill();
        if let Some(server) = self.find_server() {
            let _ = kill_process(server, Signal::KILL);
        }
    }
}

/// A gateway's addresses.
pub(crate) struct Seat {
    name: &'static str,
    host: String,
    public: u16,
    admin: u16,
    machines: u16,
    /// Flags for its store, if that isn't in its folder.
    flags: Vec<String>,
    more: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Seat {
    fn new(name: &'static str, host: &str, stores: Option<&Stores>, more: &[&str]) -> Self {
        let [public, admin, machines] = [(); 3].map(|()| free_port());
        let (flags, variables) =
            stores.map(|stores| (stores.flags(), stores.variables())).unwrap_or_default();
        let (host, more) = (host.to_owned(), owned(more));
        Self { name, host, public, admin, machines, flags, more, variables }
    }

    /// Its address for viewers, without a slash at the end.
    pub(crate) fn url(&self) -> String {
        format!("http://{}:{}", self.host, self.public)
    }

    /// Its address for nodes.
    pub(crate) fn machines(&self) -> String {
        format!("https://{}:{}", self.host, self.machines)
    }

    /// Its address for operators.
    pub(crate) fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin)
    }

    /// Starts it, and waits until it is ready.
    fn start(&self, state: &Path, node_port: u16, more: &[&str]) -> Running {
        let mut command = Command::new(program());
        command.args(["control", "serve", "--name", self.name, "--node-scheme", "http"]);
        command.args(["--node-port", &node_port.to_string()]).arg("--state").arg(state);
        command.args(["--public", &format!("{}:{}", self.host, self.public)]);
        command.args(["--machines", &format!("{}:{}", self.host, self.machines)]);
        command.args(["--admin", &format!("127.0.0.1:{}", self.admin)]).args(more);
        command.args(&self.flags).args(&self.more).envs(self.variables.iter().cloned());
        let gateway = Running::start(&mut command);
        gateway.stdout.wait_for("ready ");
        gateway
    }
}

/// A node's network, and its address there.
pub(crate) type Place = (Arc<Namespace>, String);

/// Optional parts of a fleet.
#[derive(Default)]
pub(crate) struct Extras<'e> {
    /// Nodes serve signed addresses only.
    pub(crate) signed: bool,
    /// Nodes answer viewers themselves.
    pub(crate) answers: bool,
    /// The gateway's address, which is otherwise on loopback, and each node's network and address.
    pub(crate) networks: Option<(&'e str, &'e [Place])>,
    /// More flags for gateways.
    pub(crate) gateway_flags: &'e [&'e str],
    /// More flags for the nodes' agents.
    pub(crate) agent_flags: &'e [&'e str],
    /// More flags for their servers.
    pub(crate) server_flags: &'e [&'e str],
    /// The disk of each node's library, which is otherwise large.
    pub(crate) disk_kibibytes: Option<usize>,
    /// The gateway's clock, and each node's, if they differ from this machine's.
    pub(crate) clocks: Option<(&'e FakeClock, &'e [FakeClock])>,
    /// The fleet's store, if it isn't in the gateway's folder.
    pub(crate) stores: Option<&'e Stores>,
}

/// A gateway, its store and its nodes. The film `film` is published, and all nodes hold it.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) gateway: Running,
    /// Address for viewers, without a slash at the end.
    pub(crate) url: String,
    pub(crate) admin: String,
    pub(crate) folder: TempDir,
    seat: Seat,
    node_port: u16,
    answers_port: Option<u16>,
    agent_flags: Vec<String>,
    server_flags: Vec<String>,
    disk_kibibytes: Option<usize>,
    /// Unmounted after their nodes have ended.
    disks: Vec<SmallDisk>,
    _alone: MutexGuard<'static, ()>,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Fleet {
    /// Starts a fleet whose nodes are at `sites`, with a film of this many segments of two seconds.
    pub(crate) fn start(sites: &[&str], segments: usize) -> Self {
        Self::with(sites, segments, &Extras::default())
    }

    /// As [`Self::start`], with optional parts.
    pub(crate) fn with(sites: &[&str], segments: usize, extras: &Extras<'_>) -> Self {
        let alone = alone();
        let folder = tempfile::tempdir().unwrap();
        film::make_with_record(&folder.path().join("origin"), segments);
        let host = extras.networks.map_or("127.0.0.1", |(gateway, _)| gateway);
        let mut seat = Seat::new("g1", host, extras.stores, extras.gateway_flags);
        let stores = seat.variables.clone();
        seat.variables.extend(extras.clocks.iter().flat_map(|(gateway, _)| gateway.variables()));
        let node_port = free_port();
        let more: &[&str] = if extras.signed { &["--signed"] } else { &[] };
        let gateway = seat.start(&folder.path().join("gateway"), node_port, more);
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let mut fleet = Self {
            nodes: Vec::new(),
            gateway,
            url: seat.url(),
            admin: seat.admin(),
            folder,
            seat,
            node_port,
            answers_port: extras.answers.then(free_port),
            agent_flags: owned(extras.agent_flags),
            server_flags: owned(extras.server_flags),
            disk_kibibytes: extras.disk_kibibytes,
            disks: Vec::new(),
            _alone: alone,
        };
        for (at, site) in sites.iter().enumerate() {
            let on_loopback =
                || (None, format!("127.{}.{number}.{}", 64 + std::process::id() % 64, at + 1));
            let (network, host) = extras.networks.map_or_else(on_loopback, |(_, networks)| {
                let (network, host) = &networks[at];
                (Some(Arc::clone(network)), host.clone())
            });
            let clock = extras.clocks.map(|(_, nodes)| nodes[at].variables());
            let variables = stores.iter().cloned().chain(clock.into_iter().flatten()).collect();
            fleet.add_node(&format!("node-{}", at + 1), site, (network, host), variables);
        }
        fleet.publish();
        fleet
    }

    fn add_node(
        &mut self,
        name: &str,
        site: &str,
        (network, host): (Option<Arc<Namespace>>, String),
        variables: Vec<(&'static str, String)>,
    ) {
        let cluster = format!("{site}-1");
        let invite =
            self.control(&["invite", "--cluster", &cluster, "--site", site, "--region", "r"]);
        let token = invite["token"].as_str().unwrap_or_else(|| panic!("{invite}")).to_owned();
        let (state, library) = (self.path(name), self.path(&format!("{name}/library")));
        let mut join = Command::new(program());
        join.args(["join", &self.seat.machines(), "--token", &token]);
        join.args(["--host", &host, "--name", name, "--ceiling", "1"]).arg("--state").arg(&state);
        let joined = join.envs(variables.iter().cloned()).output().unwrap();
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        if let Some(kibibytes) = self.disk_kibibytes {
            std::fs::create_dir_all(&library).unwrap();
            self.disks.extend(SmallDisk::mount(&library, kibibytes));
        }
        let (port, name, flags) = (self.node_port, name.to_owned(), self.agent_flags.clone());
        let server_flags = self.server_flags.clone();
        let answers = self.answers_port.map(|port| format!("http://{host}:{port}"));
        let machine = Machine {
            name,
            host,
            state,
            library,
            port,
            answers,
            network,
            flags,
            server_flags,
            variables,
        };
        self.nodes.push(Node { agent: machine.start_agent(&[]), machine });
    }

    /// The nodes' port for viewers.
    pub(crate) fn node_port(&self) -> u16 {
        self.node_port
    }

    /// The gateway's address for nodes, without a scheme.
    pub(crate) fn machines(&self) -> String {
        self.seat.machines().trim_start_matches("https://").to_owned()
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

    /// Starts the gateway again on the same addresses.
    pub(crate) fn restart_gateway(&mut self) {
        self.gateway = self.seat.start(&self.path("gateway"), self.node_port, &[]);
    }

    /// Starts another gateway, with the first one's store or with `store`.
    pub(crate) fn start_second(&self, seat: &Seat, store: Option<&str>) -> Running {
        let below = |name: &str| self.path("gateway").join(name).display().to_string();
        let (own, objects) = (below("store"), below("objects"));
        let own = ["--store", store.unwrap_or(&own), "--objects", &objects];
        let more: &[&str] = if seat.flags.is_empty() { &own } else { &[] };
        seat.start(&self.path(seat.name), self.node_port, more)
    }

    /// Addresses for a second gateway.
    pub(crate) fn second_seat(&self) -> Seat {
        self.another_seat("g2", &self.seat.host)
    }

    /// Addresses for another gateway.
    pub(crate) fn another_seat(&self, name: &'static str, host: &str) -> Seat {
        let Seat { flags, more, variables, .. } = &self.seat;
        let (flags, more, variables) = (flags.clone(), more.clone(), variables.clone());
        Seat { flags, more, variables, ..Seat::new(name, host, None, &[]) }
    }

    /// Runs `fullbore control` with `--json`, and returns its output.
    pub(crate) fn control(&self, words: &[&str]) -> Value {
        let ran = self.control_ends(words);
        let text = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    /// As [`Self::control`], whatever the result.
    pub(crate) fn control_ends(&self, words: &[&str]) -> std::process::Output {
        self.control_at(&self.admin, words)
    }

    /// As [`Self::control_ends`], at another gateway.
    pub(crate) fn control_at(&self, admin: &str, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(program());
        command.arg("control").args(words).args(["--admin", admin, "--json"]);
        command.arg("--state").arg(self.path("gateway")).output().unwrap()
    }

    /// curl with the operator's token.
    fn curl(&self, words: &[&str]) -> Command {
        let token = std::fs::read_to_string(self.path("gateway").join("admin.token")).unwrap();
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--fail-with-body", "--max-time", "60"]).args(words);
        curl.args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
        curl
    }

    /// The fleet page's current data.
    pub(crate) fn page(&self) -> Value {
        self.page_at(&self.admin)
    }

    /// The current data of a gateway's page.
    pub(crate) fn page_at(&self, admin: &str) -> Value {
        let mut curl = self.curl(&["--no-buffer", &format!("{admin}/api/v1/fleet")]);
        let mut child = curl.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        let _ = child.kill();
        child.wait().unwrap();
        serde_json::from_str(&data.expect("an event")).unwrap()
    }

    /// A request to the operator's API, and its answer.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut curl = self.curl(&["-X", method]);
        if method != "GET" {
            curl.args(["--data", &body.to_string()]);
        }
        let ran = curl.arg(format!("{}{path}", self.admin)).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The gateway's view of a node.
    pub(crate) fn node(&self, name: &str) -> Value {
        node_of(&self.control(&["nodes"]), name)
    }

    pub(crate) fn state_of(&self, name: &str) -> String {
        state_in(&self.node(name))
    }

    /// A gateway's states of all nodes, in order; nothing while it doesn't answer.
    pub(crate) fn states_at(&self, admin: &str) -> Vec<String> {
        let ran = self.control_at(admin, &["nodes"]);
        let all: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        self.nodes.iter().map(|node| state_in(&node_of(&all, &node.name))).collect()
    }

    /// The number of nodes that hold a title.
    pub(crate) fn holders(&self, title: &str) -> usize {
        let place = self.control(&["where", title]);
        let nodes = place["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.iter().filter(|node| node["holds"] == true).count()
    }

    /// The nodes that a viewer of the film gets; each viewer has an order of its own.
    pub(crate) fn route(&self) -> Vec<String> {
        route_at(&self.url)
    }

    /// Whether all small disks are mounted, which takes root.
    pub(crate) fn has_disks(&self) -> bool {
        self.disk_kibibytes.is_none() || self.disks.len() == self.nodes.len()
    }

    /// Removes the disk of a node's library, as if it had been pulled out.
    pub(crate) fn lose_disk(&mut self, node: usize) {
        let library = &self.nodes[node].library;
        self.disks.retain(|disk| disk.path() != library);
    }

    /// The film's address.
    pub(crate) fn film(&self) -> String {
        format!("{}/play/film/master.m3u8", self.url)
    }
}

/// A node in a gateway's list.
pub(crate) fn node_of(all: &Value, name: &str) -> Value {
    let nodes = all["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    nodes.iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
}

fn state_in(node: &Value) -> String {
    node["state"].as_str().unwrap_or_default().to_owned()
}

/// The nodes that a viewer of the film gets from the gateway or node at `url`.
pub(crate) fn route_at(url: &str) -> Vec<String> {
    let (_, text) = get(&format!("{url}/api/v1/route?title=film"));
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter_map(|node| node["node"].as_str().map(str::to_owned)).collect()
}

/// A GET by curl: the status and the body.
pub(crate) fn get(url: &str) -> (u16, String) {
    let mut curl = Command::new("curl");
    let ran = curl.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", url]).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.parse().unwrap_or(0), body.to_owned())
}
