//! Heartbeats that a gateway refuses. They distinguish a silent node from one whose heartbeats are rejected, and one machine from two with one
//! name.

use std::time::Duration;

use crate::clock::Now;

/// How long a refusal serves as the reason why a node's state is unknown. A refused agent retries at least every 18 s.
const REFUSAL_HOLDS: Duration = Duration::from_secs(30);

/// Two heartbeats of replaced agents within this time indicate two machines. A single one may have been in flight while its agent was restarted.
const RIVALS_WITHIN: Duration = Duration::from_secs(60);

/// The message for operators when two machines speak as one node.
pub(super) const TWO_MACHINES: &str = "two machines speak as this node: stop the clone, or the program that runs with a copy of the node's state folder, and let it join by an \
     invitation of its own; if there is none, the node's key was stolen: revoke the node";

/// A node's refused heartbeats.
#[derive(Debug, Default)]
pub(super) struct Refused {
    last: Option<(Duration, String)>,
    /// Times of heartbeats from replaced agents: the last one, and the one before.
    replaced: [Option<Duration>; 2],
    /// The finding logged last.
    told_two: bool,
}

impl Refused {
    /// Records a refused heartbeat, with the reason.
    pub(super) fn note(&mut self, text: &str, now: Now) {
        self.last = Some((now.uptime, text.to_owned()));
    }

    /// Records a heartbeat from a replaced agent.
    pub(super) fn note_replaced(&mut self, now: Now) {
        self.replaced = [Some(now.uptime), self.replaced[0]];
    }

    /// The reason of the last refusal, if it is recent.
    pub(super) fn reason(&self, now: Now) -> Option<&str> {
        let (at, text) = self.last.as_ref()?;
        (now.uptime.saturating_sub(*at) < REFUSAL_HOLDS).then_some(text.as_str())
    }

    /// Whether two machines speak as this node.
    pub(super) fn are_two(&self, now: Now) -> bool {
        let is_recent = |at: &Option<Duration>| {
            at.is_some_and(|at| now.uptime.saturating_sub(at) < RIVALS_WITHIN)
        };
        self.replaced.iter().all(is_recent)
    }

    /// Returns whether two machines speak as this node, if that has changed since it was last logged.
    pub(super) fn turn(&mut self, now: Now) -> Option<bool> {
        let are_two = self.are_two(now);
        let is_news = are_two != self.told_two;
        self.told_two = are_two;
        is_news.then_some(are_two)
    }
}
