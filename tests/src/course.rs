//! A run of `fullbore swarm` that a test ends when it has seen enough, by the states that the run writes once a second.

use crate::ran::Ran;
use crate::wait::within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// How long viewers may take to reach a state: players wait for their film's time, so even a fast machine takes a while.
const PATIENCE: Duration = Duration::from_secs(300);

/// Above this lag of its own at p99, the swarm says that viewers waited for it and not for the server (docs/swarm.md).
const LAG_MS_MAX: f64 = 20.0;

/// The states of a run's viewers.
pub struct Course(PathBuf);

impl Course {
    /// The moments so far.
    fn moments(&self) -> Vec<Moment> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| Moment(serde_json::from_str(line).expect("a moment"))).collect()
    }

    /// Waits for a moment that fulfils a condition.
    ///
    /// # Panics
    /// If there is none for five minutes, naming `what` it waited for.
    pub fn until(&self, what: &str, holds: impl Fn(&Moment) -> bool) -> Moment {
        within(PATIENCE, what, || self.moments().pop().filter(|moment| holds(moment)))
    }
}

/// All viewers at one moment.
#[derive(Debug)]
pub struct Moment(Value);

impl Moment {
    /// A number by its name, such as `playing`.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Seconds since the run began.
    ///
    /// # Panics
    /// If the run does not say so.
    pub fn seconds(&self) -> f64 {
        self.0["seconds"].as_f64().expect("when it was")
    }
}

/// Runs `fullbore swarm` until `meanwhile` has returned, and then ends it as Ctrl-C does. So no result depends on the machine's speed. If
/// that is so slow that all viewers reach the end of the film before, the run has ended with them.
///
/// # Panics
/// If it ends before for another reason, or `meanwhile` does.
pub fn swarm_until(mut command: Command, meanwhile: impl FnOnce(&Course)) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let course = Course(folder.path().join("course"));
    command.args(["--duration", "1h", "--course"]).arg(&course.0);
    let ran = Ran::of(command, |command| {
        let viewers = Viewers::begin(command);
        meanwhile(&course);
        viewers.end()
    });
    if ran.code == Some(0) {
        assert_eq!(
            ran.number("sessions/finished"),
            ran.number("sessions/count"),
            "{}",
            ran.figures
        );
    } else {
        assert_eq!(ran.code, Some(130), "{}{}", ran.stdout, ran.stderr);
    }
    ran
}

/// Fails the test if a viewer stalled. If the machine was too busy for the swarm itself, only stalls caused by the servers count.
///
/// # Panics
/// See above.
#[track_caller]
pub fn nobody_stalled(ran: &Ran) {
    let of = |reason| ran.number(&format!("stalls/by_reason/{reason}"));
    let of_servers: f64 = ["silence", "failures", "manifest"].into_iter().map(of).sum();
    assert_eq!(of_servers, 0.0, "{}\n{}", ran.figures, ran.stderr);
    if ran.number("own/lag_ms/p99") <= LAG_MS_MAX {
        assert_eq!(ran.number("stalls/count"), 0.0, "{}\n{}", ran.figures, ran.stderr);
    }
}

/// A process, which ends with its test.
struct Viewers(Option<Child>);

impl Viewers {
    fn begin(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    fn end(mut self) -> Output {
        let child = self.0.take().expect("it is ended once");
        // If it has ended already, its exit code says so.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        child.wait_with_output().unwrap()
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
