//! The input for placement: nodes, titles, and each region's expected demand.

use fleet_protocol::{Name, NodeKind, PublishedTitle, SnapshotNode, WatchCount};
use placement::{PlacementInput, PlacementNode, PlacementTitle, RegionDemand, TitleDemand};

use crate::day::STEP_BYTES;
use crate::newcomers::{NewTitles, Newcomers};
use crate::world::{PLAYS_PER_NODE, World};

/// Bytes that a node may take in one window: 1.2 Gb/s for storage, 0.4 and 0.3 Gb/s for the others, whatever else they do.
pub(crate) fn window_bytes(kind: NodeKind) -> u64 {
    match kind {
        NodeKind::Storage => 6_500_000_000_000,
        NodeKind::Flash => 1_350_000_000_000,
        NodeKind::Global => 2_100_000_000_000,
    }
}

/// Knowledge of the day itself, in addition to the world.
#[derive(Clone, Copy)]
pub(crate) struct Today<'t> {
    /// Nodes with their titles.
    pub(crate) held: &'t [SnapshotNode],
    /// Titles with false counts in one region's feed.
    pub(crate) lies: &'t [u32],
    pub(crate) churn_bytes_max: u64,
    /// How much is known about new titles.
    pub(crate) new: NewTitles,
    /// The day's seed, from which new titles get their series.
    pub(crate) seed: u64,
}

/// The input for placement: for the day itself, or with what was known the day before.
pub(crate) fn input(world: &World, today: Option<Today<'_>>) -> PlacementInput {
    let titles = today.map_or(world.known, |_| world.titles.len());
    let nodes =
        (0..world.sites.len()).flat_map(|site| world.nodes_of(site).map(move |n| (site, n)));
    let nodes = nodes.map(|(site, at)| {
        let node = &world.nodes[at];
        PlacementNode {
            name: node.name.clone(),
            place: node.place.clone(),
            region: world.sites[site].region.clone(),
            kind: node.kind,
            room_bytes: world.rooms[at],
            ceiling_bits_per_second: node.ceiling_bits_per_second,
            fill_bytes_max: today.map(|_| window_bytes(node.kind)),
            holds: today.map_or_else(Vec::new, |today| today.held[at].holds.clone()),
        }
    });
    let title = |title: &PublishedTitle| PlacementTitle {
        path: title.path.clone(),
        bytes: title.bytes,
        pins: Vec::new(),
    };
    let mut input = PlacementInput {
        titles: world.titles[..titles].iter().map(title).collect(),
        nodes: nodes.collect(),
        demand: demand(world, titles, today),
        ..Default::default()
    };
    input.policy.churn_bytes_max = today.map(|today| today.churn_bytes_max);
    input
}

/// Each region's expected demand. The first region's feed has false counts for some titles.
fn demand(world: &World, titles: usize, today: Option<Today<'_>>) -> Vec<RegionDemand> {
    let lies = today.map_or(&[][..], |today| today.lies);
    let plays = world.nodes.len() as u128 * u128::from(PLAYS_PER_NODE);
    let (all_sites, all_titles) =
        (world.site_sums.last().copied().unwrap_or(1).max(1), world.wanted_sum().max(1));
    let mut regions: Vec<(Name, u64)> = Vec::new();
    let mut before = 0;
    for (site, sum) in world.sites.iter().zip(&world.site_sums) {
        match regions.last_mut() {
            Some((region, weight)) if *region == site.region => *weight += sum - before,
            _ => regions.push((site.region.clone(), sum - before)),
        }
        before = *sum;
    }
    let watched = |weight: u64, title: u32, times: u128| {
        let part = u128::from(world.share(title as usize)) * u128::from(weight);
        let thousandths = part / u128::from(all_sites) * plays * 1000 / u128::from(all_titles);
        WatchCount {
            starts: (thousandths * times / 1000) as u64,
            bytes: (thousandths * times * u128::from(STEP_BYTES) * 9 / 1000) as u64,
        }
    };
    let new = today.map_or(NewTitles::Known, |today| today.new);
    let newcomers = match (new, today) {
        (NewTitles::Series, Some(today)) => {
            let day = |weight, title| watched(weight, title, 1);
            Newcomers::by_series(world, today.seed, &regions, day)
        }
        _ => Newcomers::default(),
    };
    let of = |(at, (region, weight)): (usize, (Name, u64))| {
        let demand = |title: u32| {
            let is_new = title as usize >= world.known;
            let count = match is_new && new != NewTitles::Known {
                true => newcomers.of(at, title),
                false if at == 0 && lies.contains(&title) => watched(weight, title, 1000),
                false => watched(weight, title, 1),
            };
            TitleDemand { title, starts: count.starts, bytes: count.bytes }
        };
        RegionDemand { region, titles: (0..titles as u32).map(demand).collect() }
    };
    regions.into_iter().enumerate().map(of).collect()
}
