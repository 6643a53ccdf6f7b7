//! The location of nodes: sites, regions, and failure domains.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use fleet_protocol::{Name, NodeKind};
use steering::{CeilingClaim, HashedNode, weigh};

use crate::input::PlacementNode;

/// A node, with its locations as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) site: u32,
    pub(crate) cluster: u32,
    /// Site, cluster and rack.
    pub(crate) domain: u32,
    pub(crate) kind: NodeKind,
    pub(crate) hashed: HashedNode,
}

/// Degrees of separation between two copies, farthest first.
pub(crate) const LEVELS: [fn(&Spot, &Spot) -> bool; 4] = [
    |one, two| one.site != two.site,
    |one, two| one.cluster != two.cluster,
    |one, two| one.domain != two.domain,
    |_, _| true,
];

#[derive(Debug)]
pub(crate) struct FleetTopology {
    pub(crate) spots: Vec<Spot>,
    /// The number of sites, clusters, racks and machines, as in [`LEVELS`].
    pub(crate) places: [usize; LEVELS.len()],
    /// The first node of each site, and the end.
    starts: Vec<u32>,
    pub(crate) site_names: Vec<Name>,
    pub(crate) regions: Vec<Name>,
    pub(crate) region_of: Vec<u32>,
    /// The sum of the weights of a site's nodes, at least 1.
    pub(crate) site_weight: Vec<u64>,
    pub(crate) region_weight: Vec<u128>,
}

/// Numbers keys in the order of their first occurrence.
fn number<K: Hash + Eq>(known: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = known.len() as u32;
    *known.entry(key).or_insert(next)
}

/// The weights of nodes, as in steering: a node without a ceiling gets the usual weight. `nodes` are sorted by site.
fn weights(nodes: &[PlacementNode]) -> Vec<u64> {
    let sites = nodes.chunk_by(|one, next| one.place.site == next.place.site).enumerate();
    let claims = sites.flat_map(|(site, own)| {
        own.iter().map(move |node| CeilingClaim {
            site,
            set_bits_per_second: node.ceiling_bits_per_second,
            ..CeilingClaim::default()
        })
    });
    let claims: Vec<CeilingClaim> = claims.collect();
    weigh(&claims).iter().map(|weight| weight.bits_per_second.max(1)).collect()
}

impl FleetTopology {
    /// `nodes` are sorted by site.
    pub(crate) fn new(nodes: &[PlacementNode]) -> Self {
        let mut regions: Vec<Name> = nodes.iter().map(|node| node.region.clone()).collect();
        regions.sort();
        regions.dedup();
        let (mut clusters, mut domains) = (HashMap::new(), HashMap::new());
        let mut topology = Self {
            spots: Vec::with_capacity(nodes.len()),
            places: [0; LEVELS.len()],
            starts: Vec::new(),
            site_names: Vec::new(),
            region_weight: vec![0; regions.len()],
            regions,
            region_of: Vec::new(),
            site_weight: Vec::new(),
        };
        let weights = weights(nodes);
        for (node, node_weight) in nodes.iter().zip(weights) {
            if topology.site_names.last() != Some(&node.place.site) {
                topology.starts.push(topology.spots.len() as u32);
                topology.site_names.push(node.place.site.clone());
                topology.region_of.push(topology.region(&node.region).unwrap_or(0) as u32);
                topology.site_weight.push(0);
            }
            let site = topology.site_names.len() as u32 - 1;
            let weight = &mut topology.site_weight[site as usize];
            *weight = weight.saturating_add(node_weight);
            topology.spots.push(Spot {
                site,
                cluster: number(&mut clusters, (site, &node.place.cluster)),
                domain: number(&mut domains, (site, &node.place.cluster, &node.place.rack)),
                kind: node.kind,
                hashed: HashedNode::new(node.name.as_str(), node_weight),
            });
        }
        topology.starts.push(topology.spots.len() as u32);
        topology.places = [topology.sites(), clusters.len(), domains.len(), nodes.len()];
        for (site, region) in topology.region_of.iter().enumerate() {
            topology.region_weight[*region as usize] += u128::from(topology.site_weight[site]);
        }
        topology
    }

    pub(crate) fn sites(&self) -> usize {
        self.site_names.len()
    }

    pub(crate) fn nodes_of(&self, site: usize) -> Range<usize> {
        self.starts[site] as usize..self.starts[site + 1] as usize
    }

    /// A node's site, and its index there.
    pub(crate) fn seat(&self, node: usize) -> (usize, usize) {
        let site = self.spots[node].site as usize;
        (site, node - self.starts[site] as usize)
    }

    pub(crate) fn region(&self, name: &Name) -> Option<usize> {
        self.regions.binary_search(name).ok()
    }
}
