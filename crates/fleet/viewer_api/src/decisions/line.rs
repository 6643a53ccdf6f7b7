//! Lines of the log.

use fleet_protocol::{FleetSnapshot, SheddingReason, SnapshotNode, State};
use serde::{Deserialize, Serialize};
use steering::Logged;

/// A line of the log, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A full snapshot.
    Snapshot(FleetSnapshot),
    /// The next snapshot, as the difference from the previous one in the file.
    Change(Change),
    /// A decision, based on one of the snapshots before it.
    Decision(Logged),
}

/// The difference between two consecutive snapshots. The nodes' places, the sites and the titles are the same in both.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    number: u64,
    made_unix_millis: u64,
    nodes: Vec<ChangedNode>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ChangedNode {
    /// Its index in the snapshot.
    place: usize,
    state: State,
    not_me: Vec<SheddingReason>,
    ceiling_bits_per_second: u64,
    load_permille: u16,
    full: bool,
    /// Present only if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holds: Option<Vec<u32>>,
}

impl Change {
    /// The difference from `before` to `after`, if it can be expressed as a change of nodes.
    pub(super) fn between(before: &FleetSnapshot, after: &FleetSnapshot) -> Option<Self> {
        let is_same_node = |(one, next): (&SnapshotNode, &SnapshotNode)| {
            (&one.name, &one.host, &one.place, one.kind)
                == (&next.name, &next.host, &next.place, next.kind)
        };
        let is_same_world = before.epoch == after.epoch
            && before.gateway == after.gateway
            && before.policy == after.policy
            && before.sites == after.sites
            && before.titles == after.titles
            && before.nodes.len() == after.nodes.len()
            && before.nodes.iter().zip(&after.nodes).all(is_same_node);
        if !is_same_world {
            return None;
        }
        let pairs = before.nodes.iter().zip(&after.nodes).enumerate();
        let changed = pairs.filter(|(_, (one, next))| one != next);
        Some(Self {
            number: after.number,
            made_unix_millis: after.made_unix_millis,
            nodes: changed.map(|(place, (one, next))| ChangedNode::of(place, one, next)).collect(),
        })
    }

    /// Turns `snapshot` into the next one; `None` if it does not have such a node.
    pub(super) fn apply(self, snapshot: &mut FleetSnapshot) -> Option<()> {
        snapshot.number = self.number;
        snapshot.made_unix_millis = self.made_unix_millis;
        for changed in self.nodes {
            let node = snapshot.nodes.get_mut(changed.place)?;
            node.state = changed.state;
            node.not_me = changed.not_me;
            node.ceiling_bits_per_second = changed.ceiling_bits_per_second;
            node.load_permille = changed.load_permille;
            node.full = changed.full;
            if let Some(holds) = changed.holds {
                node.holds = holds;
            }
        }
        Some(())
    }
}

impl ChangedNode {
    fn of(place: usize, before: &SnapshotNode, after: &SnapshotNode) -> Self {
        Self {
            place,
            state: after.state,
            not_me: after.not_me.clone(),
            ceiling_bits_per_second: after.ceiling_bits_per_second,
            load_permille: after.load_permille,
            full: after.full,
            holds: (before.holds != after.holds).then(|| after.holds.clone()),
        }
    }
}
