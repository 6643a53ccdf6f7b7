//! The plan.

use fleet::Name;
use serde::{Deserialize, Serialize};

use crate::bits::Bits;
use crate::forecast::Forecast;
use crate::ground::Ground;
use crate::input::{PlacementError, PlacementInput};
use crate::manifest::{ClusterManifest, ManifestTitle};
use crate::shelves::{Brought, Shelves};
use crate::{floor, wanted};

/// Why a copy is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// A pin wants it there.
    Pin,
    /// There are too few copies in different failure domains.
    Floor,
    /// Viewers are expected to watch it there.
    Demand,
}

/// A title that a node shall bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// Its place in [`Plan::nodes`].
    pub node: usize,
    /// Its place in [`Plan::titles`].
    pub title: usize,
    /// What must be brought.
    pub bytes: u64,
    /// Why.
    pub why: Why,
    /// Which copy at its site it is, from 1.
    pub copy: u16,
    /// What viewers of its site are expected to watch of it in a day. Copies at one site share it.
    pub watched_bytes: u64,
}

/// What each node shall hold, and what changes.
#[derive(Debug)]
pub struct Plan {
    input: PlacementInput,
    ground: Ground,
    forecast: Forecast,
    holds: Vec<Vec<u32>>,
    kept: Bits,
    brought: Vec<Brought>,
    /// Copies that pins want and that found no room, or no churn was left for them.
    pub pins_unmet: u64,
    /// Copies that floors want and that found no room, or no churn was left for them.
    pub floors_unmet: u64,
    /// What is expected to be watched in a day.
    pub watched_bytes: u128,
    /// How much of it at sites that held the title before.
    pub near_before_bytes: u128,
    /// How much of it at sites that hold the title by this plan. Steering's first choice is there, unless it is full or unwell.
    pub near_after_bytes: u128,
}

/// Plans who shall hold what.
///
/// # Errors
/// If names are there twice, or a list refers to what is not there.
pub fn plan(input: PlacementInput) -> Result<Plan, PlacementError> {
    let input = input.settle()?;
    let ground = Ground::new(&input.nodes);
    let forecast = Forecast::new(&input, &ground);
    let mut shelves = Shelves::new(&input, &ground, &forecast);
    let (_, before) = near(&input, &ground, &forecast, &shelves);
    let pins_unmet = floor::pins(&input, &ground, &mut shelves);
    let floors_unmet = floor::floors(&input, &ground, &mut shelves);
    wanted::place(&input, &ground, &forecast, &mut shelves);
    let (watched_bytes, after) = near(&input, &ground, &forecast, &shelves);
    let holds = (0..input.nodes.len()).map(|node| shelves.held.row(node)).collect();
    let Shelves { kept, brought, .. } = shelves;
    Ok(Plan {
        input,
        ground,
        forecast,
        holds,
        kept,
        brought,
        pins_unmet,
        floors_unmet,
        watched_bytes,
        near_before_bytes: before,
        near_after_bytes: after,
    })
}

/// What is expected to be watched, and how much of it at sites that hold the title.
fn near(
    input: &PlacementInput,
    ground: &Ground,
    forecast: &Forecast,
    shelves: &Shelves<'_>,
) -> (u128, u128) {
    let (mut watched, mut near) = (0, 0);
    for site in 0..ground.sites() {
        for title in 0..input.titles.len() as u32 {
            let bytes = u128::from(forecast.bytes(ground, site, title));
            watched += bytes;
            near += if shelves.copies_at(site, title) > 0 { bytes } else { 0 };
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

    /// What a node shall hold: places of titles, rising.
    pub fn holds(&self, node: usize) -> &[u32] {
        &self.holds[node]
    }

    /// Whether a node holds a title for a pin or for the floor: nothing displaces it.
    pub fn is_kept(&self, node: usize, title: u32) -> bool {
        self.kept.has(node, title)
    }

    /// What must be brought, the most urgent first: bring them in this order.
    pub fn moves(&self) -> impl ExactSizeIterator<Item = PlannedMove> {
        self.brought.iter().map(|brought| {
            let site = self.ground.spots[brought.node as usize].site as usize;
            PlannedMove {
                node: brought.node as usize,
                title: brought.title as usize,
                bytes: self.forecast.size(brought.title),
                why: brought.why,
                copy: brought.copy,
                watched_bytes: self.forecast.bytes(&self.ground, site, brought.title),
            }
        })
    }

    /// Bytes of all moves.
    pub fn moved_bytes(&self) -> u128 {
        self.moves().map(|step| u128::from(step.bytes)).sum()
    }

    /// What a node held and shall not hold any more.
    pub fn dropped(&self, node: usize) -> impl Iterator<Item = u32> {
        let held = self.input.nodes[node].holds.iter().copied();
        held.filter(move |title| self.holds[node].binary_search(title).is_err())
    }

    /// The manifests of all clusters, by site and cluster.
    pub fn manifests(&self) -> impl Iterator<Item = ClusterManifest> {
        let mut clusters: Vec<(u32, &Name, Vec<usize>)> = Vec::new();
        let mut order: Vec<usize> = (0..self.input.nodes.len()).collect();
        let place =
            |node: usize| (self.ground.spots[node].site, &self.input.nodes[node].place.cluster);
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
        };
        ClusterManifest {
            version: 1,
            site: self.ground.site_names[site as usize].clone(),
            cluster: cluster.clone(),
            nodes: nodes.iter().map(|node| self.input.nodes[*node].name.clone()).collect(),
            titles: held.chunk_by(|one, next| one.0 == next.0).map(title).collect(),
        }
    }
}
