//! Whether a node takes viewers.

use fleet::{FleetSnapshot, NotMe, SnapshotNode, State};

use crate::Fleet;

/// Whether a node takes viewers. Earlier is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// It takes new viewers.
    Open,
    /// It is full, or says "not me". Its own viewers stay; new ones come only if no other node has room.
    Closed,
    /// It says that it serves badly. Its viewers leave, and it is named only where fewer than three others are.
    Failing,
    /// It is draining, drained, lost, revoked or not there yet: no answer names it, but to viewers who play from it and can go nowhere else.
    Out,
}

impl Standing {
    pub(crate) fn of(node: &SnapshotNode) -> Self {
        if node.state != State::Serving {
            Self::Out
        } else if node.not_me.iter().any(|reason: &NotMe| reason.moves_viewers()) {
            Self::Failing
        } else if node.full || !node.not_me.is_empty() {
            Self::Closed
        } else {
            Self::Open
        }
    }

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Failing => "failing",
            Self::Out => "out",
        }
    }
}

/// Says of each node whether it is full: from `full_permille` on, and then until its load has fallen to `roomy_permille`. Without the second mark a
/// node at its ceiling would close and open with each heartbeat.
pub(crate) fn mark_full(snapshot: &mut FleetSnapshot, before: Option<&Fleet>) {
    let (full, roomy) = (snapshot.policy.full_permille, snapshot.policy.roomy_permille);
    for node in &mut snapshot.nodes {
        let was_full = node.full || before.is_some_and(|before| before.was_full(&node.name));
        node.full = node.load_permille >= full || (was_full && node.load_permille > roomy);
    }
}
