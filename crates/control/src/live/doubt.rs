//! When many nodes fall silent at once, it is rather the gateway that has gone deaf.
//!
//! A node that misses two heartbeats (10 s) is *late*. If more than a third of the nodes, and at least two, became late within 30 s, the gateway
//! doubts itself: none of them is lost for its silence until fewer than that are silent, or until the operator says that the silence is real.
//! It looks at late nodes because the first would be lost after 15 s, before the others' time is up: heartbeats are spread over 5 s.
//!
//! Why more than a third: a site of a fleet of three sites may well be cut off, and then its nodes are lost.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::Name;

/// Two heartbeats and their jitter.
pub(super) const LATE: Duration = Duration::from_secs(10);

/// Nodes that become late within this time of one another become late at once.
const AT_ONCE: Duration = Duration::from_secs(30);

/// How long a node has been silent, of those that have ever spoken and are not revoked.
pub(super) struct Silence<'n> {
    pub(super) node: &'n Name,
    pub(super) silence: Duration,
}

/// Whom the gateway does not hear, and does not believe silent.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Since when, by uptime.
    since: Option<Duration>,
    nodes: BTreeSet<Name>,
    /// Their silence is real, says the operator.
    believed: BTreeSet<Name>,
}

impl Doubt {
    /// Whether the gateway doubts itself.
    pub(super) fn is_held(&self) -> bool {
        self.since.is_some()
    }

    /// Since when, by uptime.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Whether the silence of `node` means nothing.
    pub(super) fn is_about(&self, node: &Name) -> bool {
        self.is_held() && self.nodes.contains(node)
    }

    /// How many nodes it is about.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The operator says that those who are silent are dead.
    pub(super) fn believe(&mut self) {
        self.believed.append(&mut self.nodes);
        self.since = None;
    }

    /// Looks at everybody's silence.
    pub(super) fn look<'n>(&mut self, now: Duration, silences: impl Iterator<Item = Silence<'n>>) {
        let (mut late, mut expected) = (BTreeSet::new(), 0);
        for Silence { node, silence } in silences {
            if silence < LATE {
                expected += 1;
                self.believed.remove(node);
            } else if self.nodes.contains(node) || silence < LATE + AT_ONCE {
                expected += 1;
                late.insert(node);
            }
        }
        late.retain(|node| !self.believed.contains(*node));
        let are_many = late.len() >= 2 && late.len() * 3 > expected;
        self.nodes = if are_many { late.into_iter().cloned().collect() } else { BTreeSet::new() };
        self.since = are_many.then(|| self.since.unwrap_or(now));
    }
}
