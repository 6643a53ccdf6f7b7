//! Builds a [`FleetSnapshot`] from a gateway's state.

use fleet_protocol::{FleetSnapshot, Name, Site, SnapshotNode};
use steering::NodeWeight;

use super::core::Core;
use super::node::LiveNode;
use super::world::WantedNode;
use crate::clock::Now;

/// Marks a version in the shelf that is not a title of the snapshot.
const NONE: u32 = u32::MAX;

/// Builds the snapshot. `weights` are in the order of the world's nodes.
pub(super) fn of(core: &Core, weights: &[NodeWeight], number: u64, now: Now) -> FleetSnapshot {
    let world = &core.world;
    let places = places(core);
    let node = |((name, wanted), weight): ((&Name, &WantedNode), &NodeWeight)| {
        core.nodes.get(name).map(|live| node(core, name, wanted, (live, *weight), &places))
    };
    FleetSnapshot {
        version: 1,
        epoch: world.epoch,
        gateway: core.gateway.clone(),
        number,
        made_unix_millis: now.unix_millis,
        policy: world.policy.clone(),
        sites: world.sites.values().map(|one| site(core, one)).collect(),
        nodes: world.nodes.iter().zip(weights).filter_map(node).collect(),
        titles: world.titles.clone(),
    }
}

fn site(core: &Core, site: &Site) -> Site {
    Site {
        name: site.name.clone(),
        region: site.region.clone(),
        latitude: site.latitude,
        longitude: site.longitude,
        announced: core.feeds.announced(site).to_vec(),
    }
}

/// For each number in the shelf, the index of its title in the snapshot.
pub(super) fn places(core: &Core) -> Vec<u32> {
    let mut places = vec![NONE; core.held_versions.numbers()];
    for (place, title) in core.world.titles.iter().enumerate() {
        if let Some(number) = core.held_versions.number(&title.held()) {
            // A fleet has fewer than 2^32 titles.
            places[number as usize] = place as u32;
        }
    }
    places
}

fn node(
    core: &Core,
    name: &Name,
    wanted: &WantedNode,
    (live, weight): (&LiveNode, NodeWeight),
    places: &[u32],
) -> SnapshotNode {
    SnapshotNode {
        name: name.clone(),
        host: wanted.host.clone(),
        place: wanted.place.clone(),
        kind: wanted.kind,
        state: core.state_of(name),
        not_me: live.not_me().to_vec(),
        // 0 tells nodes that this one has never sent a heartbeat.
        ceiling_bits_per_second: match live.has_spoken() {
            true => weight.bits_per_second,
            false => 0,
        },
        load_permille: live.load_permille(wanted),
        // Set by `steering::Fleet::new`.
        full: false,
        holds: holds(live, places),
    }
}

/// The published titles that a node holds: their indexes, ascending.
pub(super) fn holds(live: &LiveNode, places: &[u32]) -> Vec<u32> {
    let held = live.held.iter().map(|number| places[*number as usize]);
    let mut holds: Vec<_> = held.filter(|place| *place != NONE).collect();
    holds.sort_unstable();
    holds
}
