//! Locations of sites, for viewers whose address no site announces, and for those whose own site cannot serve them.

use std::collections::HashMap;

use fleet_protocol::Site;

use crate::hash;
use crate::node_table::NodeTable;

/// Most neighbours of a site that are ordered by distance; further sites follow by region. A tenth of a fleet of a thousand sites has a copy of
/// almost any title.
const NEIGHBOURS_MAX: usize = 64;

/// Number of precomputed orders of all sites, of which each viewer gets one: enough to spread viewers evenly over sites, and few enough to compute
/// in advance.
const ORDERS: usize = 64;

/// Kilometres per radian on a sphere of the earth's mean radius.
const EARTH_RADIUS_KM: f64 = 6371.0;

/// A site's location.
#[derive(Clone, Debug, PartialEq)]
struct Spot {
    name: String,
    region: String,
    /// Position on the unit sphere.
    at: Option<[f64; 3]>,
    weight: f64,
}

/// A neighbour of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Neighbour {
    pub(crate) site: u32,
    /// `None`: its location is unknown, but it is in the same region.
    pub(crate) km: Option<f32>,
}

/// Orders of sites. It changes only when sites or ceilings do, and when a node is revoked.
#[derive(Debug)]
pub(crate) struct Geography {
    spots: Vec<Spot>,
    neighbours: Vec<Box<[Neighbour]>>,
    regions: HashMap<String, [Box<[u32]>; ORDERS]>,
    anywhere: [Box<[u32]>; ORDERS],
}

impl Spot {
    fn new(site: &Site, weight: f64) -> Self {
        let at = site.latitude.zip(site.longitude).map(|(latitude, longitude)| {
            let (north, east) = (latitude.to_radians(), longitude.to_radians());
            [north.cos() * east.cos(), north.cos() * east.sin(), north.sin()]
        });
        let region = site.region.as_str().to_owned();
        Self { name: site.name.as_str().to_owned(), region, at, weight }
    }

    /// Squared length of the straight line through the earth, which sorts sites like their distance and is cheaper to compute.
    fn chord(&self, other: &Self) -> Option<f64> {
        let (one, other) = (self.at?, other.at?);
        Some(one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum())
    }
}

fn km(chord: f64) -> f32 {
    (2.0 * (chord.sqrt() / 2.0).min(1.0).asin() * EARTH_RADIUS_KM) as f32
}

/// The nearest sites to `from`: first those in its region, by distance if known.
fn neighbours(spots: &[Spot], from: usize) -> Box<[Neighbour]> {
    let own = &spots[from];
    let mut found: Vec<(bool, bool, f64, u64, u32)> = Vec::new();
    for (site, other) in spots.iter().enumerate() {
        let (chord, abroad) = (own.chord(other), other.region != own.region);
        if site == from || other.weight == 0.0 || (abroad && chord.is_none()) {
            continue;
        }
        let spread = hash::of_text(&other.name) ^ hash::of_text(&own.name);
        found.push((abroad, chord.is_none(), chord.unwrap_or(0.0), hash::mix(spread), site as u32));
    }
    let order = |one: &(bool, bool, f64, u64, u32), next: &(bool, bool, f64, u64, u32)| {
        let distance = one.2.total_cmp(&next.2);
        (one.0, one.1)
            .cmp(&(next.0, next.1))
            .then(distance)
            .then((one.3, one.4).cmp(&(next.3, next.4)))
    };
    if found.len() > NEIGHBOURS_MAX {
        found.select_nth_unstable_by(NEIGHBOURS_MAX, order);
        found.truncate(NEIGHBOURS_MAX);
    }
    found.sort_unstable_by(order);
    let neighbour = |(_, unknown, chord, _, site): (_, bool, f64, _, u32)| Neighbour {
        site,
        km: (!unknown).then(|| km(chord)),
    };
    found.into_iter().map(neighbour).collect()
}

/// The sites in the order with number `order`, by weighted rendezvous hashing: each site comes first in its share of the orders.
fn ordered(spots: &[Spot], sites: &[u32], order: usize) -> Box<[u32]> {
    let cost = |site: u32| {
        let spot = &spots[site as usize];
        hash::cost(hash::mix(hash::of_text(&spot.name) ^ hash::mix(order as u64)), spot.weight)
    };
    let mut costs: Vec<(f64, u32)> = sites.iter().map(|site| (cost(*site), *site)).collect();
    costs.sort_unstable_by(|one, next| one.0.total_cmp(&next.0).then(one.1.cmp(&next.1)));
    costs.into_iter().map(|(_, site)| site).collect()
}

fn orders(spots: &[Spot], sites: &[u32]) -> [Box<[u32]>; ORDERS] {
    std::array::from_fn(|order| ordered(spots, sites, order))
}

fn spots(sites: &[Site], node_table: &NodeTable) -> Vec<Spot> {
    sites
        .iter()
        .enumerate()
        .map(|(number, site)| Spot::new(site, node_table.weight(number)))
        .collect()
}

impl Geography {
    pub(crate) fn new(sites: &[Site], node_table: &NodeTable) -> Self {
        let spots = spots(sites, node_table);
        let with_nodes: Vec<u32> =
            (0..spots.len() as u32).filter(|site| spots[*site as usize].weight > 0.0).collect();
        let mut by_region: HashMap<String, Vec<u32>> = HashMap::new();
        for site in &with_nodes {
            by_region.entry(spots[*site as usize].region.clone()).or_default().push(*site);
        }
        Self {
            neighbours: (0..spots.len()).map(|site| neighbours(&spots, site)).collect(),
            regions: by_region
                .into_iter()
                .map(|(region, sites)| (region, orders(&spots, &sites)))
                .collect(),
            anywhere: orders(&spots, &with_nodes),
            spots,
        }
    }

    /// Whether it is still valid for these sites and nodes.
    pub(crate) fn is_of(&self, sites: &[Site], node_table: &NodeTable) -> bool {
        self.spots == spots(sites, node_table)
    }

    pub(crate) fn neighbours(&self, site: usize) -> &[Neighbour] {
        &self.neighbours[site]
    }

    pub(crate) fn region_of(&self, site: usize) -> &str {
        &self.spots[site].region
    }

    /// The sites of a region, in the viewer's order.
    pub(crate) fn in_region(&self, region: &str, viewer: u64) -> &[u32] {
        self.regions.get(region).map_or(&[], |orders| &orders[order_of(viewer)])
    }

    /// All sites, in the viewer's order.
    pub(crate) fn anywhere(&self, viewer: u64) -> &[u32] {
        &self.anywhere[order_of(viewer)]
    }
}

fn order_of(viewer: u64) -> usize {
    // Other bits than for the choice of a site's nodes, or all viewers of a site would prefer the same nodes.
    hash::mix(hash::mix(viewer)) as usize % ORDERS
}
