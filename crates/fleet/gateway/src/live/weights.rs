//! Nodes' weights for steering and plans, with an explanation where a weight differs from the node's own figure.

use std::collections::HashMap;

use fleet_protocol::{Name, NodeKind};
use placement::PlacementNode;
use steering::{CLAIM_MEDIANS_MAX, CeilingClaim, NodeWeight, Scope, WeightBasis, weigh};

use super::core::Core;
use super::node::LiveNode;
use super::world::WantedNode;

/// Free space and bytes sent count up to this many times the usual amount. Disks and peaks vary more than network cards do.
const USUAL_TIMES_MAX: u64 = CLAIM_MEDIANS_MAX * CLAIM_MEDIANS_MAX;

/// A single node could choose the median of fewer nodes than this.
const KNOWN_MIN: usize = 3;

/// The weight of each node, in the order of the world's nodes.
pub(super) fn of(core: &Core) -> Vec<NodeWeight> {
    let sites: HashMap<&Name, usize> = core.world.sites.keys().zip(0..).collect();
    let claim = |(name, wanted): (&Name, &WantedNode)| CeilingClaim {
        // A node with an unknown site is compared with others of that kind.
        site: sites.get(&wanted.place.site).copied().unwrap_or(usize::MAX),
        stated_bits_per_second: core.nodes.get(name).map_or(0, LiveNode::stated_bits_per_second),
        set_bits_per_second: wanted.ceiling_bits_per_second.unwrap_or(0),
        is_revoked: wanted.is_revoked,
    };
    weigh(&core.world.nodes.iter().map(claim).collect::<Vec<_>>())
}

/// The most that a node can have sent per second, as a bound on its reports of what viewers took; `None` if unknown.
pub(super) fn credible_bits_per_second(live: &LiveNode, wanted: &WantedNode) -> Option<u64> {
    let stated = live.ceiling_bits_per_second(wanted);
    let Some(weight) = live.weight.filter(|weight| weight.bits_per_second > 0) else {
        return (stated > 0).then_some(stated);
    };
    let times = |times| weight.bits_per_second.saturating_mul(times);
    Some(match weight.basis {
        WeightBasis::Stated | WeightBasis::Set => stated,
        WeightBasis::Capped(_) => stated.min(times(USUAL_TIMES_MAX / CLAIM_MEDIANS_MAX)),
        WeightBasis::Usual(_) | WeightBasis::Unknown => times(USUAL_TIMES_MAX),
    })
}

/// The bound on a weight, in words for operators; `None` if the node's own figure counts.
pub(super) fn note(live: &LiveNode, wanted: &WantedNode, weight: NodeWeight) -> Option<String> {
    let counts = gigabits(weight.bits_per_second);
    let stated = match live.stated_bits_per_second() {
        0 => "states no ceiling".to_owned(),
        stated => format!("states a ceiling of {} Gb/s", gigabits(stated)),
    };
    let by = match weight.basis {
        _ if wanted.is_revoked || !live.has_spoken() => return None,
        WeightBasis::Stated | WeightBasis::Unknown => return None,
        WeightBasis::Set => "as set by the operator".to_owned(),
        WeightBasis::Usual(scope) => format!("the median of its {}", words(scope)),
        WeightBasis::Capped(scope) => {
            let of = words(scope);
            format!("{CLAIM_MEDIANS_MAX} times the median of its {of}, unless you set its ceiling")
        }
    };
    Some(format!("{stated}: counts as {counts} Gb/s, {by}"))
}

/// The notes of all nodes that have one, by name.
pub(super) fn notes(core: &Core) -> Vec<(Name, String)> {
    let nodes = core.world.nodes.iter().zip(of(core));
    let noted = nodes.filter_map(|((name, wanted), weight)| {
        Some((name.clone(), note(core.nodes.get(name)?, wanted, weight)?))
    });
    noted.collect()
}

fn words(scope: Scope) -> &'static str {
    match scope {
        Scope::Site => "site",
        Scope::Fleet => "fleet",
    }
}

fn gigabits(bits: u64) -> String {
    format!("{:.1}", bits as f64 / 1e9)
}

/// Caps the free space of nodes that report far more than others of their kind: a plan would put every title on such a node. Each keeps the space
/// for what it holds. Returns a sentence for each of them.
pub(super) fn bound_rooms(nodes: &mut [PlacementNode], held: &[u64]) -> Vec<String> {
    let usual = |kind: NodeKind| {
        let own = nodes.iter().filter(|node| node.kind == kind);
        let mut rooms: Vec<u64> = own.map(|node| node.room_bytes).collect();
        rooms.sort_unstable();
        let median = rooms.get(rooms.len().saturating_sub(1) / 2).copied();
        // If most disks are full, a node with free space is welcome, so there is no cap.
        median.filter(|room| rooms.len() >= KNOWN_MIN && *room > 0)
    };
    let kinds = [NodeKind::Storage, NodeKind::Flash, NodeKind::Global];
    let usual: Vec<_> = kinds.into_iter().filter_map(|kind| Some((kind, usual(kind)?))).collect();
    let mut notes = Vec::new();
    for (node, held) in nodes.iter_mut().zip(held) {
        let Some((_, usual)) = usual.iter().find(|(kind, _)| *kind == node.kind) else { continue };
        let most = usual.saturating_mul(USUAL_TIMES_MAX).max(*held);
        if node.room_bytes > most {
            let terabytes = |bytes: u64| bytes as f64 / 1e12;
            notes.push(format!(
                "{} reports room for {:.1} TB: the plan counts {:.1} TB, {USUAL_TIMES_MAX} times the median of its kind",
                node.name,
                terabytes(node.room_bytes),
                terabytes(most)
            ));
            node.room_bytes = most;
        }
    }
    notes
}
