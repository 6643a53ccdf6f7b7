//! When many nodes fall silent at once, the gateway itself may have gone deaf.
//!
//! A node that misses two heartbeats (10 s) is *late*. If more than a third of the nodes, and at least two, became late within 30 s, the gateway
//! doubts itself: none of them is lost for its silence until fewer than that are silent, or until the operator says that the silence is real.
//! It looks at late nodes because the first would be lost after 15 s, before the others' time is up: heartbeats are spread over 5 s.
//!
//! Why more than a third: a site of a fleet of three sites may well be cut off, and then its nodes are lost.
//!
//! In a small fleet two nodes are more than a third, and two may well die at once. So the gateway asks the nodes that still beat whether they can
//! reach the silent ones ([`Opinions`]). The doubt about a node ends when it beats, when the others can't reach it either, or when the operator
//! confirms that it is dead. A node that the others can reach serves its viewers, and keeps its state.
//!
//! Viewers are not asked: anybody may send a steering request that names a pathway, and a node without viewers gets none.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::{Name, Sighting};

use super::opinions::Opinions;

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
    /// Confirmed dead by the operator or the other nodes.
    believed: BTreeSet<Name>,
    /// The other nodes' reports.
    opinions: Opinions,
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

    /// The silent nodes that this one should try to reach.
    pub(super) fn asks(&self, witness: &Name, now: Duration) -> Vec<Name> {
        super::opinions::asks(&self.nodes, witness, now)
    }

    /// Records a node's report on whether it reaches those.
    pub(super) fn note(&mut self, witness: &Name, sightings: &[Sighting], now: Duration) {
        for Sighting { node, is_reached } in sightings {
            if self.nodes.contains(node) && node != witness {
                self.opinions.note(witness, node, *is_reached, now);
            }
        }
    }

    /// How many of the silent nodes the others reach.
    pub(super) fn reached(&self, now: Duration) -> usize {
        self.nodes.iter().filter(|node| self.opinions.is_reached(node, now)).count()
    }

    /// Checks which nodes are silent. Returns those that the others can't reach either, unless that was known.
    pub(super) fn look<'n>(
        &mut self,
        now: Duration,
        silences: impl Iterator<Item = Silence<'n>>,
    ) -> Vec<Name> {
        let (mut late, mut expected, mut heard) = (BTreeSet::new(), 0, 0);
        for Silence { node, silence } in silences {
            if silence < LATE {
                (expected, heard) = (expected + 1, heard + 1);
                self.believed.remove(node);
            } else if self.nodes.contains(node) || silence < LATE + AT_ONCE {
                expected += 1;
                late.insert(node);
            }
        }
        let is_dead = |node: &Name| self.opinions.is_unreached(node, heard, now);
        let dead: Vec<Name> = late.iter().copied().filter(|node| is_dead(node)).cloned().collect();
        self.believed.extend(dead.iter().cloned());
        late.retain(|node| !self.believed.contains(*node));
        let are_many = late.len() >= 2 && late.len() * 3 > expected;
        self.nodes = if are_many { late.into_iter().cloned().collect() } else { BTreeSet::new() };
        self.since = are_many.then(|| self.since.unwrap_or(now));
        self.opinions.keep(&self.nodes, now);
        dead
    }
}
