//! The titles that nodes hold by a plan: the manifests of all clusters, combined.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_protocol::{Digest, Name, PublishedTitle};
use placement::{ClusterManifest, Why};

/// Which nodes hold which titles, and why.
#[derive(Clone, Debug, Default)]
pub struct PlacedTitles {
    nodes: BTreeMap<Name, PlacedNode>,
    /// By title: the number of nodes that should hold it.
    copies: Vec<u32>,
    /// Whether every manifest of the plan is known.
    is_whole: bool,
    /// When demand was last used to place titles, since 1970.
    pub planned_unix_seconds: u64,
}

/// A copy that a node should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedCopy {
    /// The title's index among the published ones.
    pub title: u32,
    /// The reason.
    pub why: Why,
}

#[derive(Clone, Debug)]
struct PlacedNode {
    /// Sorted by title.
    copies: Vec<PlacedCopy>,
    /// The digest of those titles' indexes.
    digest: Digest,
}

impl Default for PlacedNode {
    fn default() -> Self {
        Self { copies: Vec::new(), digest: Digest::of(&[]) }
    }
}

impl PlacedTitles {
    /// Combines manifests for `titles`, which are sorted by path. Titles that are no longer published are left out. `is_whole`: these are all
    /// manifests of the plan. For a node in several manifests, the first one counts.
    pub fn new(
        manifests: &[Arc<ClusterManifest>],
        titles: &[PublishedTitle],
        is_whole: bool,
        planned_unix_seconds: u64,
    ) -> Self {
        let mut nodes: BTreeMap<Name, PlacedNode> = BTreeMap::new();
        for manifest in manifests {
            let own: Vec<bool> =
                manifest.nodes.iter().map(|name| is_new(&mut nodes, name)).collect();
            for title in &manifest.titles {
                let place = titles.binary_search_by(|known| known.path.cmp(&title.path));
                let Ok(place) = place else { continue };
                for (at, why) in title.on.iter().zip(&title.why) {
                    let at = *at as usize;
                    let Some(name) = manifest.nodes.get(at).filter(|_| own[at]) else { continue };
                    // A fleet has fewer than 2^32 titles.
                    let copy = PlacedCopy { title: place as u32, why: *why };
                    nodes.entry(name.clone()).or_default().copies.push(copy);
                }
            }
        }
        let mut copies = vec![0; titles.len()];
        for node in nodes.values_mut() {
            node.copies.sort_unstable();
            node.copies.dedup_by_key(|copy| copy.title);
            let places = node.copies.iter().flat_map(|copy| copy.title.to_le_bytes());
            node.digest = Digest::of(&places.collect::<Vec<_>>());
            node.copies.iter().for_each(|copy| copies[copy.title as usize] += 1);
        }
        Self { nodes, copies, is_whole, planned_unix_seconds }
    }

    /// Whether every manifest of the plan is known.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the plan's list for a node is known, even if it is empty.
    pub fn knows(&self, node: &Name) -> bool {
        self.is_whole || self.has(node)
    }

    /// Whether the plan includes this node. A node outside the plan keeps what it holds until a plan includes it.
    pub fn has(&self, node: &Name) -> bool {
        self.nodes.contains_key(node)
    }

    /// The nodes in the plan.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        self.nodes.keys()
    }

    /// The copies that a node should hold, by title.
    pub fn of(&self, node: &Name) -> &[PlacedCopy] {
        self.nodes.get(node).map_or(&[], |node| &node.copies)
    }

    /// The copy of a title that a node should hold, if it should.
    pub fn copy(&self, node: &Name, title: u32) -> Option<PlacedCopy> {
        let copies = self.of(node);
        let found = copies.binary_search_by_key(&title, |copy| copy.title).ok()?;
        copies.get(found).copied()
    }

    /// The number of nodes that should hold a title.
    pub fn copies(&self, title: u32) -> u32 {
        self.copies.get(title as usize).copied().unwrap_or(0)
    }

    /// The nodes that should hold a title.
    pub fn holders(&self, title: u32) -> impl Iterator<Item = &Name> {
        let has = move |node: &PlacedNode| {
            node.copies.binary_search_by_key(&title, |copy| copy.title).is_ok()
        };
        self.nodes.iter().filter(move |(_, node)| has(node)).map(|(name, _)| name)
    }

    /// Titles that no node should hold: they were published later, or found no room.
    pub fn unplaced(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.copies).filter(|(_, copies)| **copies == 0).map(|(title, _)| title)
    }

    /// Whether the same nodes hold the same titles, regardless of the reasons.
    pub fn is_same(&self, other: &Self) -> bool {
        let told = |node: &(&Name, &PlacedNode)| (node.0.clone(), node.1.digest);
        self.nodes.iter().map(|node| told(&node)).eq(other.nodes.iter().map(|node| told(&node)))
    }

    /// A digest that changes when a node's list does. `everything` is the digest of the list for every node without a plan.
    pub(super) fn digest_of(&self, node: &Name, everything: &Digest) -> Digest {
        let own = self.nodes.get(node).map(|node| node.digest.to_string()).unwrap_or_default();
        Digest::of(format!("{everything} {own}").as_bytes())
    }
}

/// Adds a node, unless it is present already.
fn is_new(nodes: &mut BTreeMap<Name, PlacedNode>, name: &Name) -> bool {
    let is_new = !nodes.contains_key(name);
    if is_new {
        nodes.insert(name.clone(), PlacedNode::default());
    }
    is_new
}
