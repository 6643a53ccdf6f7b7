//! A gateway with its store in its folder crashes while operators write. Every acknowledged change is there when it has started again,
//! with its line in the audit log; a change whose answer was cut off is there with its line, or neither of them is.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_tests::{free_port, program, until};
use serde_json::{Value, json};

use crate::ground::{Crash, Ground};
use crate::{Process, draws, long, run, until_a_drawn_moment};

/// Operators who write at the same time.
const WRITERS: usize = 3;

/// The longest time from the start of writing to a crash.
const MILLIS_MAX: u64 = 400;

/// A crash interrupts one start in four, up to 300 ms after it began, so often before the gateway is ready.
const STARTS_CUT: usize = 4;
const START_MILLIS_MAX: u64 = 300;

/// A gateway's addresses and its state folder.
pub(crate) struct Seat {
    public: u16,
    admin: u16,
    machines: u16,
    state: PathBuf,
    /// Read once: its disk may fail.
    token: OnceLock<String>,
}

impl Seat {
    pub(crate) fn new(state: PathBuf) -> Self {
        Self {
            public: free_port(),
            admin: free_port(),
            machines: free_port(),
            state,
            token: OnceLock::new(),
        }
    }

    pub(crate) fn command(&self, node_port: u16) -> Command {
        let at = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(program());
        command.args(["control", "serve", "--name", "g1", "--node-scheme", "http"]);
        command.args(["--node-port", &node_port.to_string()]).arg("--state").arg(&self.state);
        command.args(["--public", &at(self.public), "--admin", &at(self.admin)]);
        command.args(["--machines", &at(self.machines)]);
        command
    }

    /// Starts a gateway, and waits until it is ready.
    pub(crate) fn start(&self, node_port: u16) -> Process {
        let gateway = Process::start(&mut self.command(node_port));
        gateway.stdout.wait_for("ready ");
        gateway
    }

    /// Its address for nodes.
    pub(crate) fn machines(&self) -> String {
        format!("https://127.0.0.1:{}", self.machines)
    }

    fn token(&self) -> &str {
        let read = || std::fs::read_to_string(self.state.join("admin.token")).unwrap();
        self.token.get_or_init(read).trim()
    }

    /// Runs `fullbore control`; its output if it went well.
    pub(crate) fn control(&self, words: &[&str]) -> Option<Value> {
        let (admin, state) = (format!("http://127.0.0.1:{}", self.admin), &self.state);
        let at = ["--admin", &admin, "--state", state.to_str().unwrap(), "--json"];
        let text = run(&[&["control"], words, &at].concat(), state.parent().unwrap())?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// A request of the operator's API. Nothing if the answer is not whole, because the gateway ended.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.admin)).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (token, length) = (self.token(), body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: g1\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let lower = head.to_ascii_lowercase();
        let length =
            lower.split("content-length: ").nth(1)?.lines().next()?.parse::<usize>().ok()?;
        if body.len() != length {
            return None;
        }
        // Once the disk has failed, it may report that.
        if head.starts_with("HTTP/1.1 5") {
            return None;
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{method} {path}: {answer}");
        Some(serde_json::from_str(body).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).unwrap_or_else(|| panic!("{path} was not answered"))
    }

    fn list(&self, path: &str, name: &str) -> Vec<Value> {
        self.get(path)[name].as_array().unwrap().clone()
    }
}

/// A requested change.
struct Change {
    /// The changed setting, and its new value.
    key: String,
    value: Value,
    /// The line in the audit log: the action, and the end of its subject or its detail.
    what: &'static str,
    named: String,
    is_acknowledged: bool,
}

impl Change {
    fn is_in(&self, line: &Value) -> bool {
        let ends = |field: &str| line[field].as_str().is_some_and(|it| it.ends_with(&self.named));
        line["what"] == self.what && (ends("subject") || ends("detail"))
    }
}

/// An operator who changes his own records, one after the other.
struct Writer<'s> {
    seat: &'s Seat,
    library: &'s Path,
    draws: fastrand::Rng,
    name: String,
    count: usize,
    operators: Vec<String>,
    titles: Vec<String>,
    changes: Vec<Change>,
    /// All writers' acknowledged changes.
    acknowledged: &'s AtomicUsize,
}

impl Writer<'_> {
    /// Makes changes until an answer is missing.
    fn write(&mut self) {
        while self.change() {}
    }

    /// Requests one change, and returns whether it was acknowledged.
    fn change(&mut self) -> bool {
        self.count += 1;
        let own = format!("{}-{}", self.name, self.count);
        let (seat, draw) = (self.seat, self.draws.u32(..6));
        let post = |path: &str, body: Value| seat.ask("POST", path, &body).is_some();
        match draw {
            0 => {
                self.begin(&format!("invite/c{own}"), json!(true), "invite", &format!("c{own}"));
                let place = json!({ "cluster": format!("c{own}"), "site": "s", "region": "r" });
                self.end(post("/api/v1/invites", place))
            }
            1 => {
                let id = format!("o{own}");
                self.begin(&format!("operator/{id}"), json!("active"), "add-operator", &id);
                let is_done = post("/api/v1/operators", json!({ "id": id, "role": "read" }));
                self.operators.extend(is_done.then_some(id));
                self.end(is_done)
            }
            2 if !self.operators.is_empty() => {
                let id = self.operators.swap_remove(self.draws.usize(..self.operators.len()));
                self.begin(&format!("operator/{id}"), json!("revoked"), "revoke-operator", &id);
                let path = format!("/api/v1/operators/{id}/revoke");
                self.end(post(&path, json!({ "reason": "a test" })))
            }
            3 => {
                let title = format!("t{own}");
                self.begin(&format!("title/{title}"), json!(true), "publish", &title);
                let folder = self.library.join(&title);
                std::fs::create_dir(&folder).unwrap();
                fullbore_tests::make_title(&folder, own.as_bytes()).unwrap();
                let library = self.library.to_str().unwrap();
                let is_done = seat.control(&["publish", &title, "--library", library]).is_some();
                self.titles.extend(is_done.then_some(title));
                self.end(is_done)
            }
            4 if !self.titles.is_empty() => {
                let title = self.titles.swap_remove(self.draws.usize(..self.titles.len()));
                self.begin(&format!("title/{title}"), json!(false), "withdraw", &title);
                self.end(post("/api/v1/titles/withdraw", json!({ "title": title })))
            }
            _ => {
                let (site, latitude) = (format!("s{}", self.name), (self.count % 90) as f64);
                self.begin(&format!("site/{site}"), json!(latitude), "site", &site);
                let body = json!({ "region": "r", "latitude": latitude, "longitude": 0.0 });
                self.end(seat.ask("PUT", &format!("/api/v1/sites/{site}"), &body).is_some())
            }
        }
    }

    fn begin(&mut self, key: &str, value: Value, what: &'static str, named: &str) {
        let (key, named) = (key.to_owned(), named.to_owned());
        self.changes.push(Change { key, value, what, named, is_acknowledged: false });
    }

    fn end(&mut self, is_acknowledged: bool) -> bool {
        self.changes.last_mut().unwrap().is_acknowledged = is_acknowledged;
        self.acknowledged.fetch_add(usize::from(is_acknowledged), Ordering::Relaxed);
        is_acknowledged
    }
}

/// The state that a gateway must have.
#[derive(Default)]
struct Expected {
    values: BTreeMap<String, Value>,
    /// The newest line of the audit log that was checked.
    newest: Value,
    acknowledged: usize,
    cut: usize,
}

impl Expected {
    /// Adds a writer's changes, by the `lines` of the audit log that came meanwhile.
    fn add(&mut self, changes: Vec<Change>, lines: &[Value]) {
        for at in 0..changes.len() {
            let change = &changes[at];
            let same = |other: &&Change| (other.what, &other.named) == (change.what, &change.named);
            let asked = changes[..=at].iter().filter(same).count();
            let found = lines.iter().filter(|line| change.is_in(line)).count();
            let what = (change.what, &change.key);
            if change.is_acknowledged {
                assert!(found >= asked, "{what:?} was acknowledged and is not in the audit log");
                self.acknowledged += 1;
            } else {
                // The last one of its writer: its line says whether it was done.
                assert!(found <= asked, "{what:?} is in the audit log too often: {lines:?}");
                self.cut += 1;
            }
            if change.is_acknowledged || found == asked {
                self.values.insert(change.key.clone(), change.value.clone());
            } else if change.key.starts_with("title/") {
                self.values.entry(change.key.clone()).or_insert(json!(false));
            }
        }
    }

    /// Compares the gateway with the expected state.
    fn check(&mut self, seat: &Seat, writers: &mut [Writer<'_>]) {
        let lines = seat.list("/api/v1/audit?limit=10000", "lines");
        let new: Vec<_> = lines.iter().take_while(|line| **line != self.newest).cloned().collect();
        self.newest = lines.first().cloned().unwrap_or_default();
        for writer in writers {
            self.add(std::mem::take(&mut writer.changes), &new);
        }
        let mut values: BTreeMap<_, _> = BTreeMap::new();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for invite in seat.list("/api/v1/invites", "invites") {
            values.insert(format!("invite/{}", text(&invite["place"]["cluster"])), json!(true));
        }
        for operator in seat.list("/api/v1/operators", "operators") {
            let state = if operator["revoked"].is_null() { "active" } else { "revoked" };
            values.insert(format!("operator/{}", text(&operator["id"])), json!(state));
        }
        for site in seat.list("/api/v1/sites", "sites") {
            values.insert(format!("site/{}", text(&site["name"])), site["latitude"].clone());
        }
        values.retain(|key, _| key != "site/s" && key != "operator/admin");
        let is_title = |(key, _): &(&String, &Value)| key.starts_with("title/");
        let expected: BTreeMap<_, _> = self
            .values
            .iter()
            .filter(|it| !is_title(it))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(values, expected);
        // The gateway reads viewers' answers from the store a moment after its start.
        let titles: Vec<_> = self.values.iter().filter(is_title).collect();
        until("the published titles, and no other", || {
            let listed = seat.list("/api/v1/titles?limit=10000", "titles");
            let listed: Vec<_> = listed.iter().filter(|one| one["state"] != "withdrawn").collect();
            let is_listed = |key: &str| listed.iter().any(|one| key[6..] == one["title"]);
            titles.iter().all(|(key, is_there)| is_listed(key) == **is_there)
                && listed.len() == titles.iter().filter(|(_, is_there)| **is_there == true).count()
        });
    }
}

/// Crashes a gateway this often.
fn crash(crash: Crash, times: usize) {
    let Some(ground) = Ground::new(crash) else { return };
    let mut draws = draws();
    let library = tempfile::tempdir().unwrap();
    let (seat, port) = (Seat::new(ground.path().join("gateway")), free_port());
    let acknowledged = AtomicUsize::new(0);
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|at| Writer {
            seat: &seat,
            library: library.path(),
            draws: draws.fork(),
            name: at.to_string(),
            count: 0,
            operators: Vec::new(),
            titles: Vec::new(),
            changes: Vec::new(),
            acknowledged: &acknowledged,
        })
        .collect();
    let mut expected = Expected::default();
    // Its first start makes the fleet.
    let mut gateway = seat.start(port);
    for number in 0..times {
        expected.check(&seat, &mut writers);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(move || writer.write());
            }
            if number + 1 == times {
                // On a slow machine, all crashes so far may have come before the first answer.
                until("an acknowledged change", || acknowledged.load(Ordering::Relaxed) > 0);
            }
            until_a_drawn_moment(&mut draws, MILLIS_MAX);
            ground.crash(|| gateway.kill());
        });
        assert!(!gateway.has_panicked(), "crash {number}");
        while draws.usize(..STARTS_CUT) == 0 {
            let mut cut = Process::start(&mut seat.command(port));
            until_a_drawn_moment(&mut draws, START_MILLIS_MAX);
            ground.crash(|| cut.kill());
        }
        gateway = seat.start(port);
    }
    expected.check(&seat, &mut writers);
    // All documents of all titles are read and compared with their checksums.
    let backup = library.path().join("backup");
    let state = seat.state.join("store");
    let objects = seat.state.join("objects");
    let words = ["control", "backup", backup.to_str().unwrap(), "--store", state.to_str().unwrap()];
    let made =
        run(&[&words[..], &["--objects", objects.to_str().unwrap()]].concat(), ground.path());
    assert!(made.is_some(), "a backup can be made of it");
    gateway.end();
    let Expected { acknowledged, cut, .. } = expected;
    eprintln!("{times} times {crash:?}: {acknowledged} changes kept, {cut} more were cut off");
    assert!(acknowledged > 0);
}

#[test]
fn a_gateway_that_is_killed_keeps_what_it_acknowledged() {
    crash(Crash::Kill, 6);
}

#[test]
fn a_gateway_whose_power_fails_keeps_what_it_acknowledged() {
    crash(Crash::PowerFailure, 6);
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn a_gateway_that_is_killed_keeps_what_it_acknowledged_at_length() {
    crash(Crash::Kill, long());
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn a_gateway_whose_power_fails_keeps_what_it_acknowledged_at_length() {
    crash(Crash::PowerFailure, long());
}
