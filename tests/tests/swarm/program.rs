//! Running `fullbore swarm`.

use fullbore_tests::program;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

/// What a run left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its figures; null if it wrote none.
    pub(crate) figures: Value,
}

impl Ran {
    /// A number by its pointer, such as `/stalls/count`.
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let found = self.figures.pointer(pointer).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("no {pointer}: {}\n{}", self.figures, self.stderr))
    }

    /// How many requests failed in this way.
    pub(crate) fn errors(&self, kind: &str) -> u64 {
        self.figures["errors"][kind]["count"].as_u64().unwrap_or(0)
    }

    /// Fails the test unless everything went right.
    pub(crate) fn clean(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        assert!(self.figures["clean"] == true && self.stderr.is_empty(), "{}", self.stderr);
        self
    }
}

/// The command with the flags in `words`.
pub(crate) fn command(words: &str, urls: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["swarm", "--threads", "1"]).args(words.split_whitespace()).args(urls);
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn swarm(words: &str, urls: &[&str]) -> Ran {
    finish(words, urls, |command| command.output().unwrap())
}

/// Runs it to its end, and does `meanwhile` as soon as it has begun.
pub(crate) fn swarm_while(words: &str, urls: &[&str], meanwhile: impl FnOnce()) -> Ran {
    finish(words, urls, |command| {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        meanwhile();
        child.wait_with_output().unwrap()
    })
}

fn finish(words: &str, urls: &[&str], run: impl FnOnce(&mut Command) -> Output) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let mut command = command(words, urls);
    let Output { status, stdout, stderr } = run(command.arg("--json").arg(&json));
    let figures =
        fs::read(&json).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
        figures,
    }
}
