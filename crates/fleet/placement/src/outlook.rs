//! The limiting resource of each site under a plan: its room, or its nodes' network.

use fleet_protocol::Name;

use crate::forecast::Forecast;
use crate::input::PlacementInput;
use crate::topology::FleetTopology;

/// A site under a plan: its resources, and its viewers' expected demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteOutlook {
    /// The site.
    pub site: Name,
    /// The room for titles on all its nodes, in bytes.
    pub room_bytes: u64,
    /// The bytes that they hold under the plan.
    pub held_bytes: u64,
    /// The most that all its nodes may send.
    pub ceiling_bits_per_second: u64,
    /// The bytes that its viewers are expected to watch in a day.
    pub watched_bytes: u64,
    /// The part of that which is of titles that the site holds under the plan.
    pub near_bytes: u64,
    /// Bytes of the titles that would be worth a first copy at the site, but have none there.
    pub lacking_bytes: u64,
}

/// `holds` lists the nodes' titles, in the order of `input.nodes`.
pub(crate) fn sites(
    input: &PlacementInput,
    topology: &FleetTopology,
    forecast: &Forecast,
    holds: &[Vec<u32>],
) -> Vec<SiteOutlook> {
    let site = |at: usize| {
        let nodes = topology.nodes_of(at);
        let mut is_held = vec![false; input.titles.len()];
        let mut outlook = SiteOutlook {
            site: topology.site_names[at].clone(),
            room_bytes: 0,
            held_bytes: 0,
            ceiling_bits_per_second: 0,
            watched_bytes: 0,
            near_bytes: 0,
            lacking_bytes: 0,
        };
        for node in nodes {
            let of = &input.nodes[node];
            add(&mut outlook.room_bytes, of.room_bytes);
            add(&mut outlook.ceiling_bits_per_second, of.ceiling_bits_per_second);
            for title in &holds[node] {
                is_held[*title as usize] = true;
                add(&mut outlook.held_bytes, forecast.size(*title));
            }
        }
        for (title, is_held) in (0u32..).zip(is_held) {
            let bytes = forecast.bytes(topology, at, title);
            let size = forecast.size(title);
            add(&mut outlook.watched_bytes, bytes);
            if is_held {
                add(&mut outlook.near_bytes, bytes);
            } else if forecast.is_worth(bytes, title, input.policy.worth_permille) {
                add(&mut outlook.lacking_bytes, size);
            }
        }
        outlook
    };
    (0..topology.sites()).map(site).collect()
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}
