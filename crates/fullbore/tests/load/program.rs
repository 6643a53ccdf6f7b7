//! Running the program: as a server that ends with the test, and as the load.

use fullbore_tests::{Server, program};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
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

/// Serves a library with one worker, and the flags in `words`.
pub(crate) fn serve(library: &Path, words: &str) -> Server {
    Server::start(library, &format!("--workers 1 {words}"))
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
    let mut command = Command::new(program());
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
