//! Crash consistency: acknowledged data is there after a crash, and everything starts again without help.
//!
//! Two kinds of crash ([`ground::Crash`]): SIGKILL, and a power failure, after which an ext4 filesystem has only synced data. Both come at
//! random moments, even while the program starts. `FULLBORE_SEED` repeats the random numbers of a run, which prints its seed, but not the
//! kernel's scheduling. `FULLBORE_CRASHES` sets the number of crashes of each long test, 250 by default. With those of an edge
//! (`tests/tests/edge/crashes.rs`) there are seven such tests.
//!
//! [`synced`] shows a thing that the crashes can't: each name is synced with its folder. A journaling filesystem writes out the names
//! in all folders when one is synced.

mod commands;
mod gateway;
mod ground;
mod node;
mod synced;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fullbore_tests::{Said, Signal, program};
use rustix::process::{Pid, kill_process};

/// Crashes of a long test.
fn long() -> usize {
    let crashes = std::env::var("FULLBORE_CRASHES").ok();
    crashes.map_or(250, |count| count.parse().expect("FULLBORE_CRASHES is a number"))
}

/// Random numbers from a seed, which is printed.
fn draws() -> fastrand::Rng {
    let seed = std::env::var("FULLBORE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("FULLBORE_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Lets a random time pass, after which a program crashes.
fn until_a_drawn_moment(draws: &mut fastrand::Rng, millis_max: u64) {
    // sleeps: the moment of the crash is random, whatever is under way then
    std::thread::sleep(Duration::from_millis(draws.u64(..millis_max)));
}

/// Runs `fullbore` with these words to its end, and returns what it printed if it went well.
fn run(words: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(program());
    let ran = command.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    ran.status.success().then(|| String::from_utf8(ran.stdout).unwrap())
}

/// A process. Killed when dropped.
struct Process {
    child: Child,
    stdout: Said,
    stderr: Said,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Said::listen(child.stdout.take().unwrap());
        let stderr = Said::listen(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn end(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has logged that it can't continue.
    fn has_panicked(&self) -> bool {
        self.stderr.line_with("panicked").is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("it said: {:#?}\n{:#?}", self.stdout.lines(), self.stderr.lines());
        }
    }
}
