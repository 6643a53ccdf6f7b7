//! The order of a site's nodes for a title, with which placement puts copies where steering looks for them.

use crate::hash;

/// Number of orders of a site's nodes that viewers follow: see `node_table::key`.
const ORDERS: u64 = 8;

/// A node's input to hashing.
#[derive(Clone, Copy, Debug)]
pub struct HashedNode {
    hash: u64,
    weight: f64,
}

impl HashedNode {
    /// `name` is the node's; its ceiling is its weight, as in a snapshot.
    pub fn new(name: &str, ceiling_bits_per_second: u64) -> Self {
        Self { hash: hash::of_text(name), weight: ceiling_bits_per_second.max(1) as f64 }
    }
}

/// The nodes of a site, in the order in which they should get copies of one title.
///
/// Each viewer follows one of eight orders of the title. Here, nodes are sorted by their lowest cost in all eight, so the first copy goes to a node
/// that is already the first choice of some viewers, and so on: a further copy takes viewers from the previous nodes and moves none between them.
#[derive(Clone, Copy, Debug)]
pub struct TitleOrder(u64);

impl TitleOrder {
    /// The order for a title, by its path.
    pub fn new(title: &str) -> Self {
        Self(hash::of_text(title))
    }

    /// The node with the lowest cost gets the first copy. Never NaN, never negative.
    pub fn cost(self, node: HashedNode) -> f64 {
        let keys = (0..ORDERS).map(|order| hash::mix(self.0 ^ hash::mix(order) ^ node.hash));
        hash::cost(keys.max().unwrap_or_default(), node.weight).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::{HashedNode, TitleOrder};
    use crate::{hash, node_table};

    #[test]
    fn the_first_node_is_the_first_choice_of_some_viewers() {
        let names: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
        for title in (0..200).map(|number| format!("films/{number}")) {
            let by_cost = |costs: Vec<f64>| {
                (0..12).min_by(|one: &usize, two: &usize| costs[*one].total_cmp(&costs[*two]))
            };
            let order = TitleOrder::new(&title);
            let node = |name: &String| HashedNode::new(name, 1000);
            let first = by_cost(names.iter().map(|name| order.cost(node(name))).collect());
            let chosen = |viewer: u64| {
                let key = |name: &String| {
                    hash::mix(node_table::key(&title, viewer) ^ hash::of_text(name))
                };
                by_cost(names.iter().map(|name| hash::cost(key(name), 1000.0)).collect())
            };
            assert!((0..200).any(|viewer| chosen(viewer) == first), "{title}");
        }
    }
}
