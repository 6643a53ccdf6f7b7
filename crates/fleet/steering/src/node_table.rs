//! Nodes sorted by site, so that a site's nodes are adjacent in every list.

use std::collections::HashMap;
use std::ops::Range;

use fleet_protocol::{FleetSnapshot, Name, SnapshotNode, State};

use crate::hash;
use crate::{CeilingClaim, Standing, weigh};

/// The data about a node that decisions need.
#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    /// Its index in the snapshot's `nodes`.
    pub(crate) node: u32,
    pub(crate) site: u32,
    cluster: u32,
    /// `None`: it is in the same failure domain as the rest of its cluster.
    rack: Option<u32>,
    pub(crate) standing: Standing,
    /// Whether it is a candidate for a site's first choice: it has been in service, and may be again.
    pub(crate) is_member: bool,
    pub(crate) is_revoked: bool,
    /// Whether it adds to its site's weight. A node that is revoked, or has never sent a heartbeat, must not attract viewers to its site.
    draws: bool,
    hash: u64,
    weight: f64,
}

/// The required distance between two nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Apart {
    /// Different sites.
    Site,
    /// Different clusters and different racks.
    Cluster,
    /// Different failure domains: another site, cluster or rack.
    Domain,
    /// Different machines.
    Node,
}

impl NodeEntry {
    /// Updates the entry from its node.
    fn take(&mut self, node: &SnapshotNode) {
        self.standing = Standing::of(node);
        self.is_member = !matches!(node.state, State::Joining | State::Revoked);
        self.is_revoked = node.state == State::Revoked;
        let has_spoken = node.state != State::Joining || node.ceiling_bits_per_second > 0;
        self.draws = has_spoken && !self.is_revoked;
    }

    pub(crate) fn is_apart(&self, other: &Self, apart: Apart) -> bool {
        let same_rack = self.rack.is_some() && self.rack == other.rack;
        match apart {
            Apart::Site => self.site != other.site,
            Apart::Cluster => self.cluster != other.cluster && !same_rack,
            Apart::Domain => self.cluster != other.cluster || self.rack != other.rack,
            Apart::Node => self.node != other.node,
        }
    }

    /// The cost of this node for a title and a viewer: in a site, the lowest one wins. `key` comes from [`key`].
    pub(crate) fn cost(&self, key: u64) -> f64 {
        hash::cost(hash::mix(key ^ self.hash), self.weight)
    }
}

/// The part of a cost that does not depend on the node. A title has eight orders of a site's nodes, of which a viewer gets one: so a premiere has
/// several nodes per site from its first second, both nodes of a small site get viewers, and unpopular titles occupy the memory of few nodes.
pub(crate) fn key(title: &str, viewer: u64) -> u64 {
    hash::of_text(title) ^ hash::mix(hash::mix(viewer) >> 61)
}

/// All entries, sorted by site.
#[derive(Debug)]
pub(crate) struct NodeTable {
    entries: Vec<NodeEntry>,
    /// Where each site's entries start, and the end.
    starts: Vec<u32>,
    /// By index in the snapshot's `nodes`.
    of_node: Vec<u32>,
}

/// Numbers names within their sites.
#[derive(Default)]
struct Numbers<'n>(HashMap<(u32, &'n Name), u32>);

impl<'n> Numbers<'n> {
    fn of(&mut self, site: u32, name: &'n Name) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry((site, name)).or_insert(next)
    }
}

/// Nodes' weights. A gateway has already bounded their ceilings; this handles snapshots with missing ones.
fn weights(nodes: &[SnapshotNode], sites: &[u32]) -> Vec<f64> {
    let claim = |(node, site): (&SnapshotNode, &u32)| CeilingClaim {
        site: *site as usize,
        set_bits_per_second: node.ceiling_bits_per_second,
        ..CeilingClaim::default()
    };
    let claims: Vec<CeilingClaim> = nodes.iter().zip(sites).map(claim).collect();
    weigh(&claims).iter().map(|weight| weight.bits_per_second.max(1) as f64).collect()
}

impl NodeTable {
    /// # Panics
    /// If a node's site is not in the snapshot, which [`FleetSnapshot::check`] refuses.
    pub(crate) fn new(snapshot: &FleetSnapshot) -> Self {
        let site_of = |node: &SnapshotNode| {
            let found = snapshot.sites.binary_search_by(|site| site.name.cmp(&node.place.site));
            found.expect("a checked snapshot has each node's site") as u32
        };
        let (mut clusters, mut racks) = (Numbers::default(), Numbers::default());
        let sites: Vec<u32> = snapshot.nodes.iter().map(site_of).collect();
        let weights = weights(&snapshot.nodes, &sites);
        let mut entries: Vec<NodeEntry> = Vec::with_capacity(snapshot.nodes.len());
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let site = sites[index];
            let mut entry = NodeEntry {
                node: index as u32,
                site,
                cluster: clusters.of(site, &node.place.cluster),
                rack: node.place.rack.as_ref().map(|rack| racks.of(site, rack)),
                standing: Standing::Out,
                is_member: false,
                is_revoked: false,
                draws: false,
                hash: hash::of_text(node.name.as_str()),
                weight: weights[index],
            };
            entry.take(node);
            entries.push(entry);
        }
        entries.sort_by_key(|entry| (entry.site, entry.node));
        let start_of = |site: usize| entries.partition_point(|entry| (entry.site as usize) < site);
        let starts = (0..=snapshot.sites.len()).map(|site| start_of(site) as u32).collect();
        let mut of_node = vec![0; entries.len()];
        for (index, entry) in entries.iter().enumerate() {
            of_node[entry.node as usize] = index as u32;
        }
        Self { entries, starts, of_node }
    }

    /// Updates the entries from a snapshot with the same nodes at the same indexes.
    pub(crate) fn refresh(&mut self, snapshot: &FleetSnapshot) {
        for entry in &mut self.entries {
            entry.take(&snapshot.nodes[entry.node as usize]);
        }
    }

    pub(crate) fn at(&self, entry: u32) -> &NodeEntry {
        &self.entries[entry as usize]
    }

    pub(crate) fn of_node(&self, node: usize) -> u32 {
        self.of_node[node]
    }

    pub(crate) fn range(&self, site: usize) -> Range<u32> {
        self.starts[site]..self.starts[site + 1]
    }

    pub(crate) fn in_site(&self, site: usize) -> &[NodeEntry] {
        let range = self.range(site);
        &self.entries[range.start as usize..range.end as usize]
    }

    /// The total weight of a site's nodes.
    pub(crate) fn weight(&self, site: usize) -> f64 {
        self.in_site(site).iter().filter(|entry| entry.draws).map(|entry| entry.weight).sum()
    }

    /// Whether both have the same nodes at the same sites, in the same order.
    pub(crate) fn has_order_of(&self, other: &Self) -> bool {
        self.of_node == other.of_node && self.starts == other.starts
    }
}
