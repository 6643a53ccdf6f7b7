//! The results of a measuring command, `fullbore load` or `fullbore swarm`.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// The results of a run.
pub struct Ran {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Everything it printed.
    pub stdout: String,
    /// Its errors.
    pub stderr: String,
    /// Its figures; null if it wrote none.
    pub figures: Value,
}

impl Ran {
    /// Lets `run` run the command to its end, with `--json`.
    ///
    /// # Panics
    /// If its output isn't text, or its figures aren't JSON.
    pub fn of(mut command: Command, run: impl FnOnce(&mut Command) -> Output) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("figures.json");
        let Output { status, stdout, stderr } = run(command.arg("--json").arg(&json));
        let figures =
            fs::read(&json).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
        Self {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            figures,
        }
    }

    /// A figure by its path, such as `requests` or `stalls/count`.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, place: &str) -> f64 {
        let found = self.figures.pointer(&format!("/{place}")).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("no {place}: {}\n{}", self.figures, self.stderr))
    }

    /// The number of errors of a kind.
    pub fn errors(&self, kind: &str) -> u64 {
        self.figures["errors"][kind]["count"].as_u64().unwrap_or(0)
    }

    /// Fails the test unless everything went right.
    ///
    /// # Panics
    /// See above.
    pub fn clean(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        assert!(self.figures["clean"] == true && self.stderr.is_empty(), "{}", self.stderr);
        self
    }
}
