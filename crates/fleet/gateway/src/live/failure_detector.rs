//! Failure detection for the gateway itself: when many nodes fall silent at once, its own connection may be the cause.
//!
//! A node that misses two heartbeats (10 s) is *late*. If more than a third of the nodes, and at least two, become late within 30 s, the gateway
//! distrusts its own connection: it declares none of them lost until fewer are silent, or until the operator confirms that the silence is real. It
//! looks at late nodes because the first would be lost after 15 s, before the others' time is up: heartbeats are spread over 5 s.
//!
//! Why more than a third: in a fleet of three sites, one site may well be cut off, and then its nodes are lost.
//!
//! In a small fleet, two nodes are more than a third, and two may well die at once. So the gateway asks the remaining nodes whether they can reach
//! the silent ones ([`WitnessReports`]). The doubt about a node ends when it sends a heartbeat, when the others can't reach it either, or when the
//! operator confirms that it is dead. A node that the others can reach serves its viewers, and keeps its state.
//!
//! Viewers' requests are not evidence: anyone can send a steering request that names a pathway, and a node without viewers gets none.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet_protocol::{Name, Sighting};

use super::witness_reports::WitnessReports;

/// Two heartbeats and their jitter.
pub(super) const LATE: Duration = Duration::from_secs(10);

/// Nodes that become late within this time of each other count as late at once.
const AT_ONCE: Duration = Duration::from_secs(30);

/// How long a node has been silent. Nodes that are revoked or have never sent a heartbeat are not included.
pub(super) struct Silence<'n> {
    pub(super) node: &'n Name,
    pub(super) silence: Duration,
}

/// The silent nodes that the gateway does not declare lost yet.
#[derive(Debug, Default)]
pub(super) struct FailureDetector {
    /// Start of the doubt, by uptime.
    since: Option<Duration>,
    nodes: BTreeSet<Name>,
    /// Confirmed dead by the operator or the other nodes.
    believed: BTreeSet<Name>,
    /// The other nodes' reports.
    witness_reports: WitnessReports,
}

impl FailureDetector {
    /// Whether the gateway distrusts its own connection.
    pub(super) fn is_held(&self) -> bool {
        self.since.is_some()
    }

    /// Start of the doubt, by uptime.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Whether the silence of `node` is inconclusive.
    pub(super) fn is_about(&self, node: &Name) -> bool {
        self.is_held() && self.nodes.contains(node)
    }

    /// Number of nodes in doubt.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Declares the silent nodes dead, on the operator's word.
    pub(super) fn believe(&mut self) {
        self.believed.append(&mut self.nodes);
        self.since = None;
    }

    /// The silent nodes that this one should try to reach.
    pub(super) fn asks(&self, witness: &Name, now: Duration) -> Vec<Name> {
        super::witness_reports::asks(&self.nodes, witness, now)
    }

    /// Records a node's report on which of the silent nodes it reaches.
    pub(super) fn note(&mut self, witness: &Name, sightings: &[Sighting], now: Duration) {
        for Sighting { node, is_reached } in sightings {
            if self.nodes.contains(node) && node != witness {
                self.witness_reports.note(witness, node, *is_reached, now);
            }
        }
    }

    /// Number of the silent nodes that the others reach.
    pub(super) fn reached(&self, now: Duration) -> usize {
        self.nodes.iter().filter(|node| self.witness_reports.is_reached(node, now)).count()
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
        let is_dead = |node: &Name| self.witness_reports.is_unreached(node, heard, now);
        let dead: Vec<Name> = late.iter().copied().filter(|node| is_dead(node)).cloned().collect();
        self.believed.extend(dead.iter().cloned());
        late.retain(|node| !self.believed.contains(*node));
        let are_many = late.len() >= 2 && late.len() * 3 > expected;
        self.nodes = if are_many { late.into_iter().cloned().collect() } else { BTreeSet::new() };
        self.since = are_many.then(|| self.since.unwrap_or(now));
        self.witness_reports.keep(&self.nodes, now);
        dead
    }
}
