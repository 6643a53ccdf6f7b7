//! Replaying logged decisions.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use fleet_protocol::FleetSnapshot;
use serde::Serialize;
use steering::{Fleet, Logged};

use super::line::Line;
use super::writer::files;

/// Snapshots to remember: a decision may be logged slightly later than the next snapshots.
const SNAPSHOTS_KEPT: usize = 8;

/// Longest line: a full snapshot of a large fleet.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Most differences that are returned; all are counted.
const DIFFERENCES_MAX: usize = 100;

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Decisions with the same result.
    pub same: u64,
    /// Decisions with another result.
    pub different: u64,
    /// Decisions whose snapshot is no longer in the log.
    pub without_snapshot: u64,
    /// Unreadable lines. The last line of a file that a crash cut off counts as one.
    pub broken_lines: u64,
    /// Some of the decisions with another result.
    pub differences: Vec<Difference>,
}

/// A decision with another result.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The logged decision.
    pub logged: Logged,
    /// The nodes of the replayed decision.
    pub now: Vec<String>,
    /// Why no decision was possible, if it was not.
    pub error: Option<String>,
}

/// Replays the decisions in the log at `folder` for which `is_wanted` is true.
///
/// # Errors
/// If the log cannot be read.
pub fn replay_all(folder: &Path, is_wanted: impl Fn(&Logged) -> bool) -> io::Result<Replayed> {
    replay_while(folder, || true, is_wanted)
}

/// Like [`replay_all`], while `goes_on` returns true, which is called before each line. A log may have a gigabyte.
///
/// # Errors
/// If the log cannot be read, or if `goes_on` returned false: [`io::ErrorKind::Interrupted`].
pub fn replay_while(
    folder: &Path,
    goes_on: impl Fn() -> bool,
    is_wanted: impl Fn(&Logged) -> bool,
) -> io::Result<Replayed> {
    let mut replayed = Replayed::default();
    for (path, _) in files(folder)? {
        match File::open(&path) {
            Ok(file) => replay_file(file, &goes_on, &is_wanted, &mut replayed)?,
            // The oldest file may be removed while this runs.
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

/// The newest snapshots of a file. Most are never needed, so each is indexed on first use.
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

    /// The snapshot that a decision was based on. A node's log has snapshots of several gateways, each with its own numbers.
    fn fleet(&mut self, logged: &Logged) -> Option<Arc<Fleet>> {
        let of = (logged.epoch, &logged.gateway, logged.snapshot);
        let is_of = |one: &FleetSnapshot| (one.epoch, &one.gateway, one.number) == of;
        let found = self.0.iter_mut().rev().find(|(snapshot, _)| is_of(snapshot))?;
        if found.1.is_none() {
            // A snapshot that violates today's bounds counts as missing.
            found.1 = Fleet::new(found.0.clone(), None).ok().map(Arc::new);
        }
        found.1.clone()
    }
}
