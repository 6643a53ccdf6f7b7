//! The index of a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use fleet_protocol::{FleetSnapshot, Name, SnapshotError};

use crate::Standing;
use crate::geography::Geography;
use crate::holders::Holders;
use crate::node_table::NodeTable;
use crate::reach::Reach;
use crate::standing::mark_full;

/// An indexed snapshot, for questions. It is immutable; share it in an [`Arc`].
#[derive(Debug)]
pub struct Fleet {
    pub(crate) snapshot: FleetSnapshot,
    pub(crate) node_table: NodeTable,
    names: Arc<Names>,
    pub(crate) holders: Arc<Holders>,
    reach: Arc<Reach>,
    pub(crate) geography: Arc<Geography>,
}

/// Indexes of names in the snapshot.
#[derive(Debug, Default)]
struct Names {
    nodes: HashMap<String, u32>,
    titles: HashMap<String, u32>,
}

impl Names {
    fn new(snapshot: &FleetSnapshot) -> Self {
        let nodes = snapshot.nodes.iter().map(|node| node.name.as_str().to_owned());
        let titles = snapshot.titles.iter().map(|title| title.path.clone());
        Self { nodes: nodes.zip(0..).collect(), titles: titles.zip(0..).collect() }
    }
}

impl Fleet {
    /// Indexes a snapshot. `before` is the previous snapshot of the same gateway, if there is one: nodes that were full stay full until they are
    /// roomy, and unchanged parts of the index are shared.
    ///
    /// It marks full nodes in the snapshot. So sign and save the result of [`snapshot`](Self::snapshot): then nodes and replays make the gateway's
    /// decisions without `before`.
    ///
    /// # Errors
    /// If the snapshot violates its bounds.
    pub fn new(mut snapshot: FleetSnapshot, before: Option<&Self>) -> Result<Self, SnapshotError> {
        snapshot.check().map_err(SnapshotError::Bounds)?;
        mark_full(&mut snapshot, before);
        let node_table = NodeTable::new(&snapshot);
        let names = before
            .filter(|before| before.has_names_of(&snapshot))
            .map_or_else(|| Arc::new(Names::new(&snapshot)), |before| before.names.clone());
        let holders =
            before.filter(|before| before.has_holders_of(&snapshot, &node_table)).map_or_else(
                || Arc::new(Holders::new(&snapshot, &node_table)),
                |before| before.holders.clone(),
            );
        let reach = before
            .filter(|before| before.has_routes_of(&snapshot))
            .map_or_else(|| Arc::new(Reach::new(&snapshot.sites)), |before| before.reach.clone());
        let geography = before
            .filter(|before| before.geography.is_of(&snapshot.sites, &node_table))
            .map_or_else(
                || Arc::new(Geography::new(&snapshot.sites, &node_table)),
                |before| before.geography.clone(),
            );
        Ok(Self { snapshot, node_table, names, holders, reach, geography })
    }

    /// The snapshot, with full nodes marked.
    pub fn snapshot(&self) -> &FleetSnapshot {
        &self.snapshot
    }

    /// A node's index in the snapshot's `nodes`.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.names.nodes.get(name).map(|node| *node as usize)
    }

    /// A title's index in the snapshot's `titles`.
    pub fn title(&self, path: &str) -> Option<usize> {
        self.names.titles.get(path).map(|title| *title as usize)
    }

    /// Whether a node holds a title; both are indexes in the snapshot.
    pub fn holds(&self, node: usize, title: usize) -> bool {
        self.holders.of(title).binary_search(&self.node_table.of_node(node)).is_ok()
    }

    /// Whether a node accepts viewers.
    pub fn standing(&self, node: usize) -> Standing {
        self.node_table.at(self.node_table.of_node(node)).standing
    }

    pub(crate) fn was_full(&self, name: &Name) -> bool {
        self.node(name.as_str()).is_some_and(|node| self.snapshot.nodes[node].full)
    }

    pub(crate) fn node_table(&self) -> &NodeTable {
        &self.node_table
    }

    pub(crate) fn holders(&self) -> &Holders {
        &self.holders
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) fn geography(&self) -> &Geography {
        &self.geography
    }

    fn has_names_of(&self, next: &FleetSnapshot) -> bool {
        let nodes = |snapshot: &FleetSnapshot| snapshot.nodes.len();
        nodes(&self.snapshot) == nodes(next)
            && self.snapshot.titles.len() == next.titles.len()
            && self.snapshot.nodes.iter().zip(&next.nodes).all(|(one, next)| one.name == next.name)
            && self
                .snapshot
                .titles
                .iter()
                .zip(&next.titles)
                .all(|(one, next)| one.path == next.path)
    }

    fn has_holders_of(&self, next: &FleetSnapshot, node_table: &NodeTable) -> bool {
        self.snapshot.titles.len() == next.titles.len()
            && self.node_table.has_order_of(node_table)
            && self
                .snapshot
                .nodes
                .iter()
                .zip(&next.nodes)
                .all(|(one, next)| one.holds == next.holds)
    }

    fn has_routes_of(&self, next: &FleetSnapshot) -> bool {
        let (own, next) = (&self.snapshot.sites, &next.sites);
        own.len() == next.len()
            && own.iter().zip(next).all(|(one, next)| one.announced == next.announced)
    }
}
