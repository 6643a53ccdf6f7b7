//! `fullbore serve --route bypass` in a namespace, with a TAP of its own.

use super::space::Space;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// For whatever is waited for: generous, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server's addresses.
pub(crate) const V4: &str = "192.0.2.2";
pub(crate) const V6: &str = "2001:db8:2::2";
pub(crate) const PORT: u16 = 8443;

/// A library, and a folder for everything else.
pub(crate) struct Room {
    folder: TempDir,
    /// The bytes of `film.mp4`.
    pub(crate) film: Vec<u8>,
    /// What the servers' configurations say of their device.
    pub(crate) device: String,
}

impl Room {
    /// With a film of so many bytes.
    pub(crate) fn new(film_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut film = Vec::with_capacity(film_bytes + 8);
        while film.len() < film_bytes {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            film.extend_from_slice(&(state ^ (state >> 33)).to_le_bytes());
        }
        film.truncate(film_bytes);
        fs::create_dir(folder.path().join("library")).unwrap();
        fs::write(folder.path().join("library/film.mp4"), &film).unwrap();
        Self { folder, film, device: tap(1500) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration that every server here has, with `more` at its end.
    pub(crate) fn config(&self, more: &str) -> PathBuf {
        let path = self.path("fullbore.toml");
        let text = format!("workers = 1\n{more}\n[bypass]\n{}", self.device);
        fs::write(&path, text).unwrap();
        path
    }
}

/// A TAP with packets of so many bytes, and the kernel's addresses at its other end.
pub(crate) fn tap(mtu_bytes: u32) -> String {
    format!(
        "addresses = [\"{V4}\", \"{V6}\"]\nmtu_bytes = {mtu_bytes}\n\
         kernel_addresses = [\"192.0.2.1/24\", \"2001:db8:2::1/64\"]\n"
    )
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    said: Arc<Mutex<String>>,
    admin: String,
    space: Arc<Space>,
    scheme: &'static str,
}

impl Server {
    /// Starts one in `space`; `arguments` go after the common ones, and `config` at the head of its configuration.
    pub(crate) fn start(space: &Arc<Space>, room: &Room, arguments: &[&str], config: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
        command.arg("serve").arg(room.path("library")).args(["--route", "bypass"]);
        command.args(["--admin", "127.0.0.1:0", "--state"]).arg(room.path("state"));
        command.arg("--config").arg(room.config(config)).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = space.run(move || command.spawn()).expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().unwrap(), &said);
        collect(child.stderr.take().unwrap(), &said);
        let scheme = if arguments.contains(&"off") { "http" } else { "https" };
        let space = Arc::clone(space);
        let mut server = Self { child, said, admin: String::new(), space, scheme };
        server.wait_for("admin  ");
        let said = server.said();
        let admin = said.lines().find(|line| line.starts_with("admin"));
        let url = admin.and_then(|line| line.split_ascii_whitespace().nth(1)).unwrap_or_default();
        server.admin = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        server
    }

    /// The film's URL, over IPv4.
    pub(crate) fn url(&self) -> String {
        self.url_at(V4)
    }

    /// The same over IPv6.
    pub(crate) fn url_v6(&self) -> String {
        self.url_at(&format!("[{V6}]"))
    }

    /// The same at another host.
    pub(crate) fn url_at(&self, host: &str) -> String {
        format!("{}://{host}:{PORT}/film.mp4", self.scheme)
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// What each thread's status says after `field`.
    pub(crate) fn of_every_thread(&self, field: &str) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // The kernel's own workers for the ring come and go; one that has gone has no status.
        let statuses = threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
        let values = statuses.map(|status| {
            let line = status.lines().find(|line| line.starts_with(&format!("{field}:")));
            line.expect("the kernel says so").split_ascii_whitespace().nth(1).unwrap().to_owned()
        });
        values.collect()
    }

    /// Descriptors that it has open.
    pub(crate) fn descriptors(&self) -> u64 {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count() as u64
    }

    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.said().contains(words) {
            let has_ended = self.child.try_wait().unwrap();
            assert!(has_ended.is_none(), "it ended: {}", self.said());
            assert!(Instant::now() < deadline, "no {words:?} in {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What /metrics says.
    pub(crate) fn metrics(&self) -> String {
        let admin = self.admin.clone();
        self.space.run(move || {
            let mut stream = TcpStream::connect(&admin).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let head =
                format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        })
    }

    /// One number of /metrics, by its name and labels after `fullbore_`; 0 where it is not there. Some of them are up to a
    /// second old.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let start = format!("fullbore_{name} ");
        let line = metrics.lines().find(|line| line.starts_with(&start));
        line.map_or(0, |line| line[start.len()..].trim().parse().unwrap())
    }

    /// Waits until a number of /metrics has come to at least `least`.
    #[track_caller]
    pub(crate) fn await_number(&self, name: &str, least: u64) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let number = self.number(name);
            if number >= least {
                return number;
            }
            assert!(Instant::now() < deadline, "{name} did not reach {least}:\n{}", self.metrics());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Kills it without a chance to tidy up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in an orderly way, and fails if it does not end well.
    #[track_caller]
    pub(crate) fn end(self) {
        self.signal(Signal::TERM);
        self.await_end();
    }

    /// It was told to end: waits until it has, and fails if it does not end well.
    #[track_caller]
    pub(crate) fn await_end(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(from: impl Read + Send + 'static, into: &Arc<Mutex<String>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            into.lock().unwrap().push_str(&format!("{line}\n"));
        }
    });
}
