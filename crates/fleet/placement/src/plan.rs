//! The plan.

use std::collections::HashSet;

use fleet_protocol::Name;
use serde::{Deserialize, Serialize};

use crate::bits::Bits;
use crate::copy_table::{Brought, CopyTable};
use crate::forecast::Forecast;
use crate::input::{PlacementError, PlacementInput};
use crate::manifest::{ClusterManifest, ManifestTitle};
use crate::moves::Moves;
use crate::outlook::{self, SiteOutlook};
use crate::topology::FleetTopology;
use crate::{floor, wanted};

/// The reason for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// Required by a pin.
    Pin,
    /// Needed for the floor: there are too few copies in different failure domains.
    Floor,
    /// Viewers are expected to watch it there.
    Demand,
    /// It was there already, and nothing needs its room. Copies are never made for this reason.
    Spare,
}

/// A title that a node should fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The node's index in [`Plan::nodes`].
    pub node: usize,
    /// The title's index in [`Plan::titles`].
    pub title: usize,
    /// The bytes to fetch.
    pub bytes: u64,
    /// The reason.
    pub why: Why,
    /// Which copy at its site this is, from 1.
    pub copy: u16,
    /// The bytes that viewers of its site are expected to watch of it in a day. Copies at one site share it.
    pub watched_bytes: u64,
}

/// The titles of each node, and the changes.
#[derive(Debug)]
pub struct Plan {
    input: PlacementInput,
    topology: FleetTopology,
    forecast: Forecast,
    holds: Vec<Vec<u32>>,
    kept: Vec<Bits>,
    /// Copies for a pin: node and title.
    pinned: HashSet<(u32, u32)>,
    /// Moves for pins and floors.
    pub(crate) urgent: Vec<Brought>,
    /// Moves for demand, by site, most wanted first.
    pub(crate) wanted: Vec<Vec<Brought>>,
    /// Copies that pins require and for which no room or no churn was left.
    pub pins_unmet: u64,
    /// Copies that floors require and for which no room or no churn was left.
    pub floors_unmet: u64,
    /// The bytes expected to be watched in a day.
    pub watched_bytes: u128,
    /// The part of that at sites that held the title before.
    pub near_before_bytes: u128,
    /// The part of that at sites that hold the title under this plan. Steering's first choice is there, unless it is full or unhealthy.
    pub near_after_bytes: u128,
}

/// Makes a plan.
///
/// # Errors
/// If names occur twice, or a list refers to an unknown title.
pub fn plan(input: PlacementInput) -> Result<Plan, PlacementError> {
    let input = input.settle()?;
    let topology = FleetTopology::new(&input.nodes);
    let forecast = Forecast::new(&input, &topology);
    let mut copy_table = CopyTable::new(&input, &topology, &forecast);
    let (_, before) = near(&input, &topology, &forecast, &copy_table);
    let pins_unmet = floor::pins(&input, &topology, &mut copy_table);
    let floors_unmet = floor::floors(&input, &topology, &mut copy_table);
    wanted::place(&input, &topology, &forecast, &mut copy_table);
    let (watched_bytes, after) = near(&input, &topology, &forecast, &copy_table);
    // Free the rest of the planning state before the lists are made: both are large.
    let CopyTable { held, kept, pinned, urgent, wanted, .. } = { copy_table };
    let holds = listed(&topology, input.titles.len(), &held);
    drop(held);
    Ok(Plan {
        input,
        topology,
        forecast,
        holds,
        kept,
        pinned,
        urgent,
        wanted,
        pins_unmet,
        floors_unmet,
        watched_bytes,
        near_before_bytes: before,
        near_after_bytes: after,
    })
}

/// The titles of each node, in ascending order.
fn listed(topology: &FleetTopology, titles: usize, held: &[Bits]) -> Vec<Vec<u32>> {
    let titles = 0..titles as u32;
    let mut holds = Vec::with_capacity(topology.spots.len());
    for (site, held) in held.iter().enumerate() {
        let mut counts = vec![0; topology.nodes_of(site).len()];
        titles.clone().flat_map(|title| held.nodes(title)).for_each(|seat| counts[seat] += 1);
        let mut lists: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        for title in titles.clone() {
            held.nodes(title).for_each(|seat| lists[seat].push(title));
        }
        holds.append(&mut lists);
    }
    holds
}

/// The bytes expected to be watched, and the part of them at sites that hold the title.
fn near(
    input: &PlacementInput,
    topology: &FleetTopology,
    forecast: &Forecast,
    copy_table: &CopyTable<'_>,
) -> (u128, u128) {
    let (mut watched, mut near) = (0, 0);
    for site in 0..topology.sites() {
        for title in 0..input.titles.len() as u32 {
            let bytes = u128::from(forecast.bytes(topology, site, title));
            watched += bytes;
            near += if copy_table.copies_at(site, title) > 0 { bytes } else { 0 };
        }
    }
    (watched, near)
}

impl Plan {
    /// Names of nodes, by site.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Name> {
        self.input.nodes.iter().map(|node| &node.name)
    }

    /// Paths of titles, sorted.
    pub fn titles(&self) -> impl ExactSizeIterator<Item = &str> {
        self.input.titles.iter().map(|title| title.path.as_str())
    }

    /// The titles of a node: their indexes, ascending.
    pub fn holds(&self, node: usize) -> &[u32] {
        &self.holds[node]
    }

    /// Whether a node holds a title for a pin or for the floor: nothing displaces it.
    pub fn is_kept(&self, node: usize, title: u32) -> bool {
        let (site, seat) = self.topology.seat(node);
        self.kept[site].has(title, seat)
    }

    /// The reason for a title on a node that is assigned to hold it.
    pub fn why(&self, node: usize, title: u32) -> Why {
        let site = self.topology.seat(node).0;
        let is_watched = || self.forecast.bytes(&self.topology, site, title) > 0;
        match (self.pinned.contains(&(node as u32, title)), self.is_kept(node, title)) {
            (true, _) => Why::Pin,
            (false, true) => Why::Floor,
            (false, false) if is_watched() => Why::Demand,
            (false, false) => Why::Spare,
        }
    }

    /// The resources and the demand of each site, in the order of sites.
    pub fn sites(&self) -> Vec<SiteOutlook> {
        outlook::sites(&self.input, &self.topology, &self.forecast, &self.holds)
    }

    /// The moves, most urgent first: carry them out in this order.
    pub fn moves(&self) -> impl ExactSizeIterator<Item = PlannedMove> {
        Moves::new(self)
    }

    pub(crate) fn planned(&self, brought: &Brought) -> PlannedMove {
        let site = self.topology.seat(brought.node as usize).0;
        PlannedMove {
            node: brought.node as usize,
            title: brought.title as usize,
            bytes: self.forecast.size(brought.title),
            why: brought.why,
            copy: brought.copy,
            watched_bytes: self.forecast.bytes(&self.topology, site, brought.title),
        }
    }

    /// The value of a move for demand, per byte.
    pub(crate) fn score(&self, brought: &Brought) -> u64 {
        let site = self.topology.seat(brought.node as usize).0;
        self.forecast.score(&self.topology, site, brought.title, brought.copy)
    }

    /// The bytes of all moves.
    pub fn moved_bytes(&self) -> u128 {
        let all = self.urgent.iter().chain(self.wanted.iter().flatten());
        all.map(|brought| u128::from(self.forecast.size(brought.title))).sum()
    }

    /// The titles that a node held and is no longer assigned.
    pub fn dropped(&self, node: usize) -> impl Iterator<Item = u32> {
        let mut stays = self.holds[node].iter().peekable();
        self.input.nodes[node].holds.iter().copied().filter(move |title| {
            // Both are in ascending order.
            while stays.next_if(|next| **next < *title).is_some() {}
            stays.peek().copied() != Some(title)
        })
    }

    /// The manifests of all clusters, by site and cluster.
    pub fn manifests(&self) -> impl Iterator<Item = ClusterManifest> {
        let mut clusters: Vec<(u32, &Name, Vec<usize>)> = Vec::new();
        let mut order: Vec<usize> = (0..self.input.nodes.len()).collect();
        let place =
            |node: usize| (self.topology.spots[node].site, &self.input.nodes[node].place.cluster);
        order.sort_by_key(|node| place(*node));
        for node in order {
            let (site, cluster) = place(node);
            match clusters.last_mut() {
                Some(last) if (last.0, last.1) == (site, cluster) => last.2.push(node),
                _ => clusters.push((site, cluster, vec![node])),
            }
        }
        clusters.into_iter().map(|(site, cluster, nodes)| self.manifest(site, cluster, &nodes))
    }

    fn manifest(&self, site: u32, cluster: &Name, nodes: &[usize]) -> ClusterManifest {
        let mut held: Vec<(u32, u32)> = Vec::new();
        for (at, node) in (0..).zip(nodes) {
            held.extend(self.holds[*node].iter().map(|title| (*title, at)));
        }
        held.sort_unstable();
        let title = |same: &[(u32, u32)]| ManifestTitle {
            path: self.input.titles[same[0].0 as usize].path.clone(),
            on: same.iter().map(|(_, on)| *on).collect(),
            why: same.iter().map(|(title, on)| self.why(nodes[*on as usize], *title)).collect(),
        };
        ClusterManifest {
            version: 1,
            site: self.topology.site_names[site as usize].clone(),
            cluster: cluster.clone(),
            nodes: nodes.iter().map(|node| self.input.nodes[*node].name.clone()).collect(),
            titles: held.chunk_by(|one, next| one.0 == next.0).map(title).collect(),
        }
    }
}
