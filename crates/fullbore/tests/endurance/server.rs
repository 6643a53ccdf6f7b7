//! The program itself, in a process of its own, and what the kernel and its own counters say about it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes, on a machine that has other things to do too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How to start a server.
pub(crate) struct Start {
    /// The program.
    pub(crate) program: PathBuf,
    /// The library.
    pub(crate) library: PathBuf,
    /// Further flags.
    pub(crate) flags: Vec<String>,
    /// The configuration file's text.
    pub(crate) config: String,
}

impl Start {
    /// The program that was built with this test, with its defaults.
    pub(crate) fn new(library: &Path) -> Self {
        Self {
            program: env!("CARGO_BIN_EXE_fullbore").into(),
            library: library.to_owned(),
            flags: Vec::new(),
            config: String::new(),
        }
    }
}

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    /// Where it serves.
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
    said: Arc<Mutex<String>>,
    _state: TempDir,
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(start: &Start) -> Self {
        let state = TempDir::new().expect("a folder for the server's state");
        let config = state.path().join("fullbore.toml");
        fs::write(&config, &start.config).expect("the configuration is written");
        let mut child = Command::new(&start.program)
            .arg("serve")
            .arg(&start.library)
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state"])
            .arg(state.path())
            .arg("--config")
            .arg(&config)
            .args(&start.flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let said = Arc::new(Mutex::new(String::new()));
        keep(&said, child.stderr.take().expect("piped"));
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = address_after(&mut lines, "ready ", &said);
        let admin = address_after(&mut lines, "admin ", &said);
        thread::spawn(move || lines.for_each(drop));
        Self { child, address, admin, said, _state: state }
    }

    /// What it wrote to standard error so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("the thread that fills it cannot panic").clone()
    }

    /// One of its numbers, summed over its workers and over all labels.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let text = self.metrics().expect("the admin listener answers");
        let wanted = format!("fullbore_{name}");
        assert!(text.contains(&wanted), "no {name} in {text}");
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(wanted.as_str())?;
            let value = rest.starts_with([' ', '{']).then_some(rest)?.rsplit(' ').next()?;
            value.parse::<u64>().ok()
        });
        values.sum()
    }

    /// Waits until every worker has told its numbers anew: it does so once a second.
    pub(crate) fn wait_for_news(&self) {
        let before = self.told();
        eventually("every worker tells its numbers", || {
            let now = self.told();
            before.iter().zip(&now).all(|(before, now)| before != now)
        });
    }

    /// What each worker has used of its processor, which telling its numbers alone changes.
    fn told(&self) -> Vec<String> {
        let text = self.metrics().expect("the admin listener answers");
        let of_workers = text.lines().filter(|line| line.starts_with("fullbore_worker_cpu_"));
        of_workers.map(str::to_owned).collect()
    }

    fn metrics(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// File descriptors that it has open.
    pub(crate) fn descriptors(&self) -> usize {
        self.proc("fd").read_dir().expect("the server runs").count()
    }

    /// Leases that it holds on files, as the kernel lists them.
    pub(crate) fn leases(&self) -> usize {
        let locks = fs::read_to_string("/proc/locks").expect("the kernel tells");
        let pid = self.pid().to_string();
        // 1: LEASE  ACTIVE    READ  1234 08:01:42 0 EOF
        let leases = locks.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        leases
            .filter(|words| words.get(1) == Some(&"LEASE") && words.get(4) == Some(&&*pid))
            .count()
    }

    /// Memory of its own that is resident, in bytes: what it wrote to, not the program's pages on disk, nor the
    /// files that it serves.
    pub(crate) fn own_memory_bytes(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// All that is resident, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A field of its `/proc/PID/status` that is of memory, in bytes.
    pub(crate) fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(self.proc("status")).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("the kernel tells what a process has resident") * 1024
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Lets it drain, and returns what it said. Its exit must be clean: a leak checker reports by the exit code.
    pub(crate) fn finish(mut self) -> String {
        self.signal("TERM");
        let mut ended = None;
        eventually("the server ends when asked to", || {
            ended = self.child.try_wait().expect("it is our child");
            ended.is_some()
        });
        let said = self.said();
        assert!(ended.is_some_and(|status| status.success()), "it ended with {ended:?}: {said}");
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep(said: &Arc<Mutex<String>>, from: impl Read + Send + 'static) {
    let said = Arc::clone(said);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut said = said.lock().expect("no holder of this lock can panic");
            said.push_str(&line);
            said.push('\n');
        }
    });
}

fn address_after(
    lines: &mut impl Iterator<Item = io::Result<String>>,
    prefix: &str,
    said: &Mutex<String>,
) -> SocketAddr {
    for line in lines.map_while(Result::ok) {
        if let Some(rest) = line.strip_prefix(prefix) {
            let address = rest.split('/').nth(2).unwrap_or_default();
            return address.parse().unwrap_or_else(|_| panic!("no address in {line:?}"));
        }
    }
    panic!("the server never said {prefix:?}: {}", said.lock().expect("cannot be poisoned"));
}

/// Waits until `holds`, and fails with `what` if it never does.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
