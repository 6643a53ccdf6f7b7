//! Makes again what a box decided, from the logs in its state folder: where it sent viewers, and what it said of itself.

use std::io;
use std::path::Path;

use answers::decisions::{Replayed, replay_all};
use fleet::Condition;
use serde::Serialize;
use steering::Logged;

use crate::answering::DECISIONS;
use crate::condition::turns::{self, Turn};

/// Differences that are told; all are counted.
const DIFFERENCES_MAX: usize = 100;

/// What replaying a box's logs found.
#[derive(Debug, Default, Serialize)]
pub struct NodeReplayed {
    /// Answers to viewers, if it gave any.
    pub answers: Replayed,
    /// What it said of itself.
    pub conditions: ConditionsReplayed,
}

impl NodeReplayed {
    /// How many came out otherwise.
    pub fn different(&self) -> u64 {
        self.answers.different + self.conditions.different
    }
}

/// What replaying the turns of its control loop found.
#[derive(Debug, Default, Serialize)]
pub struct ConditionsReplayed {
    /// Turns that came out the same.
    pub same: u64,
    /// Turns that came out otherwise.
    pub different: u64,
    /// Lines that cannot be read.
    pub broken_lines: u64,
    /// Some of those that came out otherwise.
    pub differences: Vec<ConditionDifference>,
}

/// A turn that came out otherwise.
#[derive(Debug, Serialize)]
pub struct ConditionDifference {
    /// When it was, since 1970.
    pub time_unix_seconds: u64,
    /// What the box said.
    pub logged: Condition,
    /// What it would say now.
    pub now: Condition,
}

/// Makes everything again since a time, in seconds since 1970, that is in the logs of the agent's state folder `state`. Of answers to viewers,
/// only those of `title`, if one is named. The agent may run meanwhile; the last second may be missing then.
///
/// # Errors
/// If a log cannot be read. One that is not there is empty.
pub fn replay(state: &Path, since: u64, title: Option<&str>) -> io::Result<NodeReplayed> {
    let is_wanted = |logged: &Logged| {
        logged.time_unix_seconds >= since && title.is_none_or(|title| title == logged.title)
    };
    let answers = match replay_all(&state.join(DECISIONS), is_wanted) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Replayed::default(),
        replayed => replayed?,
    };
    let mut conditions = ConditionsReplayed::default();
    turns::read_all(state, |turn| match turn {
        Some(turn) if turn.time_unix_seconds >= since => conditions.take(turn),
        Some(_) => {}
        None => conditions.broken_lines += 1,
    })?;
    Ok(NodeReplayed { answers, conditions })
}

impl ConditionsReplayed {
    fn take(&mut self, turn: Turn) {
        let now = turn.again();
        if now == turn.condition {
            self.same += 1;
            return;
        }
        self.different += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            let (time_unix_seconds, logged) = (turn.time_unix_seconds, turn.condition);
            self.differences.push(ConditionDifference { time_unix_seconds, logged, now });
        }
    }
}
