//! Whether a node accepts viewers.

use fleet_protocol::{FleetSnapshot, SheddingReason, SnapshotNode, State};

use crate::Fleet;

/// Whether a node accepts viewers. Earlier is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// It accepts new viewers.
    Open,
    /// It is full, or reports "not me". Its present viewers stay; new ones are sent there only if no other node has room.
    Closed,
    /// It reports a serious fault. Its viewers leave, and it is in an answer only if there are fewer than three others.
    Failing,
    /// It is draining, drained, lost, revoked or still joining: it is in no answer, except to viewers who play from it and have no alternative.
    Out,
}

impl Standing {
    pub(crate) fn of(node: &SnapshotNode) -> Self {
        if node.state != State::Serving {
            Self::Out
        } else if node.not_me.iter().any(|reason: &SheddingReason| reason.moves_viewers()) {
            Self::Failing
        } else if node.full || !node.not_me.is_empty() {
            Self::Closed
        } else {
            Self::Open
        }
    }

    /// Its name in all texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Failing => "failing",
            Self::Out => "out",
        }
    }
}

/// Determines for each node whether it is full: from `full_permille` on, and then until its load has fallen to `roomy_permille`. Without the second
/// threshold, a node at its ceiling would close and open with each heartbeat.
pub(crate) fn mark_full(snapshot: &mut FleetSnapshot, before: Option<&Fleet>) {
    let (full, roomy) = (snapshot.policy.full_permille, snapshot.policy.roomy_permille);
    for node in &mut snapshot.nodes {
        let was_full = node.full || before.is_some_and(|before| before.was_full(&node.name));
        node.full = node.load_permille >= full || (was_full && node.load_permille > roomy);
    }
}
