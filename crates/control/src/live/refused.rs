//! Heartbeats that a gateway refuses. They distinguish a silent node from one whose heartbeats are rejected, and one machine from two with one name.

use std::time::Duration;

use crate::clock::Now;

/// How long a refusal explains why nothing is known of a node. An agent that is refused tries again at least every 18 s.
const REFUSAL_HOLDS: Duration = Duration::from_secs(30);

/// Two heartbeats of replaced agents within this time are two machines. One alone may have been under way while its agent was restarted.
const RIVALS_WITHIN: Duration = Duration::from_secs(60);

/// What operators read of two machines that speak as one node.
pub(super) const TWO_MACHINES: &str = "two machines speak as this node: stop the clone, or whatever runs with a copy of the node's state folder, and let it join by an \
     invitation of its own; if there is none, somebody has the node's key: revoke the node";

/// The heartbeats of one node that were refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    last: Option<(Duration, String)>,
    /// When agents spoke that another one had replaced: the last time, and the time before.
    replaced: [Option<Duration>; 2],
    /// What was logged last.
    told_two: bool,
}

impl Refused {
    /// A heartbeat was refused, for this reason.
    pub(super) fn note(&mut self, text: &str, now: Now) {
        self.last = Some((now.uptime, text.to_owned()));
    }

    /// An agent spoke that another one has replaced.
    pub(super) fn note_replaced(&mut self, now: Now) {
        self.replaced = [Some(now.uptime), self.replaced[0]];
    }

    /// Why heartbeats are refused, if some came lately.
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

    /// Whether two machines speak as this node, if that is news for the operator.
    pub(super) fn turn(&mut self, now: Now) -> Option<bool> {
        let are_two = self.are_two(now);
        let is_news = are_two != self.told_two;
        self.told_two = are_two;
        is_news.then_some(are_two)
    }
}
