//! Runs third-party programs.

use std::io::Write;
use std::process::{Command, Stdio};

/// Limit on a tool's time, in seconds: otherwise it would block the suite.
const SECONDS_MAX: &str = "600";

/// The result of a tool.
#[derive(Debug)]
pub struct Ran {
    /// Whether it exited with 0.
    pub success: bool,
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Whether all `tools` (program, Debian package) are installed. If not, reports that loudly; the caller then skips its
/// test.
pub fn are_here(tools: &[(&str, &str)]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|(name, _)| !is_here(name)).collect();
    for (name, package) in &missing {
        skip(&format!("there is no {name} on this machine: apt install {package}"));
    }
    missing.is_empty()
}

/// Reports that a test is skipped and why, directly on standard error: a passing test's `eprintln!` output is hidden.
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // If standard error is closed, the message is lost, which is fine.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

fn is_here(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A command line of `name` that is ended if it takes too long.
pub fn command(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", SECONDS_MAX, name]).stdin(Stdio::null());
    command
}

/// Runs it to its end.
///
/// # Panics
/// If it cannot be started.
pub fn run(command: &mut Command) -> Ran {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        success: output.status.success(),
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
