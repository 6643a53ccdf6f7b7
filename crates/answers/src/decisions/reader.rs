//! Makes logged decisions again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use fleet::FleetSnapshot;
use serde::Serialize;
use steering::{Fleet, Logged};

use super::line::Line;
use super::writer::files;

/// A decision may be logged a little after the next snapshots are.
const SNAPSHOTS_KEPT: usize = 8;

/// Longest line: a whole snapshot of a large fleet.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Differences that are told; all are counted.
const DIFFERENCES_MAX: usize = 100;

/// What replaying a log found.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Decisions that came out the same.
    pub same: u64,
    /// Decisions that came out otherwise.
    pub different: u64,
    /// Decisions whose snapshot the log has no more.
    pub without_snapshot: u64,
    /// Lines that cannot be read. The last line of a file that a crash cut off is one.
    pub broken_lines: u64,
    /// Some of the decisions that came out otherwise.
    pub differences: Vec<Difference>,
}

/// A decision that came out otherwise.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// As it was logged.
    pub logged: Logged,
    /// The nodes that came out now.
    pub now: Vec<String>,
    /// Why no decision could be made, if none could.
    pub error: Option<String>,
}

/// Replays all decisions in the log at `folder` that `is_wanted`.
///
/// # Errors
/// If the log cannot be read.
pub fn replay_all(folder: &Path, is_wanted: impl Fn(&Logged) -> bool) -> io::Result<Replayed> {
    replay_while(folder, || true, is_wanted)
}

/// As [`replay_all`], as long as `goes_on` says so, which is asked before each line. A log may have a gigabyte.
///
/// # Errors
/// If the log cannot be read, or if it did not go on: [`io::ErrorKind::Interrupted`].
pub fn replay_while(
    folder: &Path,
    goes_on: impl Fn() -> bool,
    is_wanted: impl Fn(&Logged) -> bool,
) -> io::Result<Replayed> {
    let mut replayed = Replayed::default();
    for (path, _) in files(folder)? {
        match File::open(&path) {
            Ok(file) => replay_file(file, &goes_on, &is_wanted, &mut replayed)?,
            // The oldest file may go while this runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(replayed)
}

fn replay_file(
    file: File,
    goes_on: &impl Fn() -> bool,
    is_wanted: &impl Fn(&Logged) -> bool,
    replayed: &mut Replayed,
) -> io::Result<()> {
    let mut snapshots = Snapshots::default();
    let mut lines = BufReader::new(file);
    let mut text = Vec::new();
    loop {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        text.clear();
        if io::Read::take(&mut lines, LINE_BYTES_MAX as u64).read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        match serde_json::from_slice(&text) {
            Ok(Line::Snapshot(snapshot)) => snapshots.push(snapshot),
            Ok(Line::Change(change)) => {
                let next = snapshots.newest().cloned().and_then(|mut next| {
                    change.apply(&mut next)?;
                    Some(next)
                });
                match next {
                    Some(next) => snapshots.push(next),
                    None => replayed.broken_lines += 1,
                }
            }
            Ok(Line::Decision(logged)) if is_wanted(&logged) => {
                replay_one(logged, &mut snapshots, replayed);
            }
            Ok(Line::Decision(_)) => {}
            Err(_) => replayed.broken_lines += 1,
        }
    }
}

fn replay_one(logged: Logged, snapshots: &mut Snapshots, replayed: &mut Replayed) {
    let Some(fleet) = snapshots.fleet(&logged) else {
        replayed.without_snapshot += 1;
        return;
    };
    let (now, error) = match steering::replay(&fleet, &logged) {
        Ok(decision) if logged.agrees_with(&fleet, &decision) => {
            replayed.same += 1;
            return;
        }
        Ok(decision) => {
            let name = |node: usize| fleet.snapshot().nodes[node].name.to_string();
            (decision.ranked.iter().map(|ranked| name(ranked.node)).collect(), None)
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    replayed.different += 1;
    if replayed.differences.len() < DIFFERENCES_MAX {
        replayed.differences.push(Difference { logged, now, error });
    }
}

/// The newest snapshots of a file. Most are never asked for, so each is indexed when it is.
#[derive(Default)]
struct Snapshots(VecDeque<(FleetSnapshot, Option<Arc<Fleet>>)>);

impl Snapshots {
    fn push(&mut self, snapshot: FleetSnapshot) {
        if self.0.len() == SNAPSHOTS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((snapshot, None));
    }

    fn newest(&self) -> Option<&FleetSnapshot> {
        self.0.back().map(|(snapshot, _)| snapshot)
    }

    /// The snapshot that a decision was made from. A node has those of several gateways, each of which counts its own.
    fn fleet(&mut self, logged: &Logged) -> Option<Arc<Fleet>> {
        let of = (logged.epoch, &logged.gateway, logged.snapshot);
        let is_of = |one: &FleetSnapshot| (one.epoch, &one.gateway, one.number) == of;
        let found = self.0.iter_mut().rev().find(|(snapshot, _)| is_of(snapshot))?;
        if found.1.is_none() {
            // A snapshot that is no longer in bounds is as good as none.
            found.1 = Fleet::new(found.0.clone(), None).ok().map(Arc::new);
        }
        found.1.clone()
    }
}
