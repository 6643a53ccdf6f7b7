//! What a plan says that nodes hold: the manifests of all clusters, put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::{Digest, Name, PublishedTitle};
use placement::{ClusterManifest, Why};

/// Which nodes hold which titles, and why.
#[derive(Clone, Debug, Default)]
pub struct PlacedTitles {
    nodes: BTreeMap<Name, PlacedNode>,
    /// By title: nodes that shall hold it.
    copies: Vec<u32>,
    /// Every manifest of the plan is known.
    is_whole: bool,
    /// When titles were last placed by what is watched, since 1970.
    pub planned_unix_seconds: u64,
}

/// A copy that a node shall hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedCopy {
    /// The title's place among the published ones.
    pub title: u32,
    /// Why.
    pub why: Why,
}

#[derive(Clone, Debug)]
struct PlacedNode {
    /// By title.
    copies: Vec<PlacedCopy>,
    /// Of their places.
    digest: Digest,
}

impl Default for PlacedNode {
    fn default() -> Self {
        Self { copies: Vec::new(), digest: Digest::of(&[]) }
    }
}

impl PlacedTitles {
    /// By manifests, of `titles`, which are sorted by path. What is no longer published is left out. `is_whole`: these are all manifests of the plan.
    /// The first manifest that has a node speaks for it.
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

    /// Whether it is known what the plan has for a node, if only that it has nothing.
    pub fn knows(&self, node: &Name) -> bool {
        self.is_whole || self.has(node)
    }

    /// Whether the plan has this node. One that it has not keeps what it holds until the plan has it.
    pub fn has(&self, node: &Name) -> bool {
        self.nodes.contains_key(node)
    }

    /// The nodes that the plan has.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        self.nodes.keys()
    }

    /// What a node shall hold, by title.
    pub fn of(&self, node: &Name) -> &[PlacedCopy] {
        self.nodes.get(node).map_or(&[], |node| &node.copies)
    }

    /// The copy of a title that a node shall hold, if it shall.
    pub fn copy(&self, node: &Name, title: u32) -> Option<PlacedCopy> {
        let copies = self.of(node);
        let found = copies.binary_search_by_key(&title, |copy| copy.title).ok()?;
        copies.get(found).copied()
    }

    /// How many nodes shall hold a title.
    pub fn copies(&self, title: u32) -> u32 {
        self.copies.get(title as usize).copied().unwrap_or(0)
    }

    /// The nodes that shall hold a title.
    pub fn holders(&self, title: u32) -> impl Iterator<Item = &Name> {
        let has = move |node: &PlacedNode| {
            node.copies.binary_search_by_key(&title, |copy| copy.title).is_ok()
        };
        self.nodes.iter().filter(move |(_, node)| has(node)).map(|(name, _)| name)
    }

    /// Titles that no node shall hold: they were published since, or found no room.
    pub fn unplaced(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.copies).filter(|(_, copies)| **copies == 0).map(|(title, _)| title)
    }

    /// Whether the same nodes hold the same titles, for whatever reason.
    pub fn is_same(&self, other: &Self) -> bool {
        let told = |node: &(&Name, &PlacedNode)| (node.0.clone(), node.1.digest);
        self.nodes.iter().map(|node| told(&node)).eq(other.nodes.iter().map(|node| told(&node)))
    }

    /// What tells a node that it shall hold something else, if `everything` is the digest of what all nodes hold without a plan.
    pub(super) fn digest_of(&self, node: &Name, everything: &Digest) -> Digest {
        let own = self.nodes.get(node).map(|node| node.digest.to_string()).unwrap_or_default();
        Digest::of(format!("{everything} {own}").as_bytes())
    }
}

/// Gives a node a place, unless it has one.
fn is_new(nodes: &mut BTreeMap<Name, PlacedNode>, name: &Name) -> bool {
    let is_new = !nodes.contains_key(name);
    if is_new {
        nodes.insert(name.clone(), PlacedNode::default());
    }
    is_new
}
