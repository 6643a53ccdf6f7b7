//! Running the program: as a server that ends with the test, and as the load.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Bytes of each film of [`library`].
pub(crate) const FILM_BYTES: usize = 3_000_001;

/// A folder with `films` films, `0.mp4` and so on, whose bytes tell where they belong.
pub(crate) fn library(films: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for film in 0..films {
        let bytes: Vec<u8> =
            (0..FILM_BYTES).map(|offset| ((offset * 7 + film * 31) >> 3) as u8).collect();
        fs::write(folder.path().join(format!("{film}.mp4")), bytes).unwrap();
    }
    folder
}

/// `fullbore serve`.
pub(crate) struct Server {
    child: Child,
    /// Where it serves, without a slash at the end.
    pub(crate) url: String,
    admin: String,
    state: TempDir,
}

impl Server {
    pub(crate) fn start(library: &Path, flags: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
        command.arg("serve").arg(library).args(["--listen", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--admin", "127.0.0.1:0", "--state"]).arg(state.path()).args(flags);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().expect("it says that it is ready").unwrap();
        let url = ready.strip_prefix("ready ").expect(&ready).trim_end_matches('/').to_owned();
        let admin = lines.by_ref().flatten().find_map(|line| {
            let rest = line.strip_prefix("admin     http://")?;
            rest.split_once('/').map(|(address, _)| address.to_owned())
        });
        let admin = admin.expect("it says where its counters are");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url, admin, state }
    }

    /// One of its own counters.
    pub(crate) fn counter(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Its certificate, PEM.
    pub(crate) fn certificate(&self) -> String {
        self.state.path().join("self-signed-cert.pem").to_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a run of `fullbore load` left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its figures; null if it wrote none.
    pub(crate) figures: Value,
}

impl Ran {
    /// How many errors of a kind there were.
    pub(crate) fn errors(&self, kind: &str) -> u64 {
        self.figures["errors"][kind]["count"].as_u64().unwrap_or(0)
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.figures[name].as_f64().unwrap_or_else(|| panic!("no {name}: {}", self.figures))
    }

    /// Fails the test unless everything went right.
    pub(crate) fn clean(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        assert!(self.figures["clean"] == true && self.stderr.is_empty(), "{}", self.stderr);
        self
    }
}

/// The command, short and without a ramp.
pub(crate) fn command(words: &str, urls: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
    command.arg("load").args(words.split_whitespace()).args(urls);
    for (flag, value) in [("--duration", "1s"), ("--ramp", "0"), ("--threads", "1")] {
        if !words.contains(flag) {
            command.args([flag, value]);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end, with the flags in `words`.
pub(crate) fn load(words: &str, urls: &[String]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let Output { status, stdout, stderr } =
        command(words, urls).arg("--json").arg(&json).output().unwrap();
    let figures =
        fs::read(&json).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
        figures,
    }
}

/// Says that a test is not run and why, past the test harness, which keeps what a passing test says.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {:?}: {why}", std::thread::current().name());
}
