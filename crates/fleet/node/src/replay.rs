//! Replays a box's decisions from the logs in its state folder: where it sent viewers, and the condition that it reported.

use std::io;
use std::path::Path;

use fleet_protocol::Condition;
use serde::Serialize;
use steering::Logged;
use viewer_api::decisions::{Replayed, replay_all};

use crate::answering::DECISIONS;
use crate::condition::change_log::{self, ConditionChange};

/// The most differences to list; all are counted.
const DIFFERENCES_MAX: usize = 100;

/// The result of replaying a box's logs.
#[derive(Debug, Default, Serialize)]
pub struct NodeReplayed {
    /// Answers to viewers, if there were any.
    pub answers: Replayed,
    /// Reported conditions.
    pub conditions: ConditionsReplayed,
}

impl NodeReplayed {
    /// The number of results that differ.
    pub fn different(&self) -> u64 {
        self.answers.different + self.conditions.different
    }
}

/// The result of replaying the turns of its control loop.
#[derive(Debug, Default, Serialize)]
pub struct ConditionsReplayed {
    /// Turns with the same result.
    pub same: u64,
    /// Turns with another result.
    pub different: u64,
    /// Unreadable lines.
    pub broken_lines: u64,
    /// Some of the turns with another result.
    pub differences: Vec<ConditionDifference>,
}

/// A turn with another result.
#[derive(Debug, Serialize)]
pub struct ConditionDifference {
    /// When it was, in seconds since 1970.
    pub time_unix_seconds: u64,
    /// The logged condition.
    pub logged: Condition,
    /// The condition that the loop computes now.
    pub now: Condition,
}

/// Replays everything in the logs of the agent's state folder `state` since a time, in seconds since 1970; of the answers to viewers, only
/// those about `title`, if given. The agent may run meanwhile; the last second may be missing then.
///
/// # Errors
/// If a log cannot be read. A missing log counts as empty.
pub fn replay(state: &Path, since: u64, title: Option<&str>) -> io::Result<NodeReplayed> {
    let is_wanted = |logged: &Logged| {
        logged.time_unix_seconds >= since && title.is_none_or(|title| title == logged.title)
    };
    let answers = match replay_all(&state.join(DECISIONS), is_wanted) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Replayed::default(),
        replayed => replayed?,
    };
    let mut conditions = ConditionsReplayed::default();
    change_log::read_all(state, |change| match change {
        Some(change) if change.time_unix_seconds >= since => conditions.take(change),
        Some(_) => {}
        None => conditions.broken_lines += 1,
    })?;
    Ok(NodeReplayed { answers, conditions })
}

impl ConditionsReplayed {
    fn take(&mut self, change: ConditionChange) {
        let now = change.again();
        if now == change.condition {
            self.same += 1;
            return;
        }
        self.different += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            let (time_unix_seconds, logged) = (change.time_unix_seconds, change.condition);
            self.differences.push(ConditionDifference { time_unix_seconds, logged, now });
        }
    }
}
