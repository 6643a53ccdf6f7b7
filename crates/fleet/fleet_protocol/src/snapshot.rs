//! Snapshots: everything that steering needs, which is nodes with their states and titles, and sites with the networks that they reach.

use serde::{Deserialize, Serialize};

use crate::host::check_host;
use crate::{
    Name, NodeKind, NodePlace, OutOfBounds, Prefix, PublishedTitle, ServedAt, SheddingReason, State,
};

/// A gateway's state at one moment. It makes at most one a second. Each has a number, which rises, and is signed by the fleet, so that a node can
/// answer viewers from it when no gateway is reachable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetSnapshot {
    /// The version of this document: 1.
    pub version: u32,
    /// Rises when a backup is restored; a node accepts none of an older epoch.
    pub epoch: u64,
    /// The gateway that made it.
    pub gateway: Name,
    /// Rises with each snapshot of this gateway.
    pub number: u64,
    /// When it was made, by the gateway's clock, since 1970.
    pub made_unix_millis: u64,
    /// How viewers are steered.
    pub policy: SteeringPolicy,
    /// The sites of nodes.
    pub sites: Vec<Site>,
    /// Nodes in any state, by name.
    pub nodes: Vec<SnapshotNode>,
    /// Titles, by path.
    pub titles: Vec<PublishedTitle>,
}

/// How viewers are steered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteeringPolicy {
    /// `http` or `https`.
    pub scheme: String,
    /// The port of all nodes: players change the host in a clone's address, but keep its port.
    pub port: u16,
    /// Lifetime of a steering answer, and the time over which forced moves are spread: at most 60 s.
    pub ttl_seconds: u32,
    /// From this load relative to the ceiling, in thousandths, a node gets no new viewers while another one has room ...
    pub full_permille: u16,
    /// ... until it has fallen to this.
    pub roomy_permille: u16,
}

impl SteeringPolicy {
    /// How viewers reach nodes.
    pub fn served_at(&self) -> ServedAt {
        ServedAt { scheme: self.scheme.clone(), port: self.port }
    }
}

impl Default for SteeringPolicy {
    fn default() -> Self {
        Self {
            scheme: "https".to_owned(),
            port: 443,
            ttl_seconds: 30,
            full_permille: 900,
            roomy_permille: 800,
        }
    }
}

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Its name.
    pub name: Name,
    /// Its region.
    pub region: Name,
    /// Degrees north, if known.
    #[serde(default)]
    pub latitude: Option<f64>,
    /// Degrees east, if known.
    #[serde(default)]
    pub longitude: Option<f64>,
    /// The networks that it reaches: only prefixes within its operator's allow-list.
    pub announced: Vec<Announced>,
}

/// A prefix that a site announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The prefix.
    pub prefix: Prefix,
    /// Number of autonomous systems on the way: fewer are better.
    #[serde(default)]
    pub as_path_length: u8,
    /// Multi-exit discriminator: less is better.
    #[serde(default)]
    pub med: u32,
}

/// A node, as steering sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotNode {
    /// Its permanent name; also the ID of its pathway.
    pub name: Name,
    /// The host of its addresses: a name or an IP address.
    pub host: String,
    /// Its place. `place.site` is one of the snapshot's sites.
    pub place: NodePlace,
    /// Its kind.
    pub kind: NodeKind,
    /// Its state, as determined by the gateway.
    pub state: State,
    /// Its own reasons for accepting no new viewers; empty if it accepts them.
    pub not_me: Vec<SheddingReason>,
    /// Its plausible capacity according to the gateway, which is its weight relative to other nodes of its site. 0 for a node that has never sent a
    /// heartbeat.
    pub ceiling_bits_per_second: u64,
    /// Load relative to the ceiling, in thousandths.
    pub load_permille: u16,
    /// Whether it counted as full when the snapshot was made. The load alone is not enough: between the policy's two thresholds, it depends on the
    /// previous state. `steering::Fleet::new` sets it, so that every reader of the snapshot makes the same decisions.
    #[serde(default)]
    pub full: bool,
    /// The snapshot's titles that it holds in the published version: their indexes in `titles`, ascending. Encoded as a text of runs.
    #[serde(with = "crate::runs")]
    pub holds: Vec<u32>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is not the JSON of a snapshot.
    #[error("{0}")]
    Form(String),
    /// A field is out of its bounds.
    #[error(transparent)]
    Bounds(OutOfBounds),
}

impl FleetSnapshot {
    /// The signature's context.
    pub const CONTEXT: &str = "fullbore-snapshot-1";

    /// Its JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in a snapshot that was checked.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a snapshot is plain JSON")
    }

    /// Parses and checks a snapshot.
    ///
    /// # Errors
    /// If it is not one, or refers to entries that it does not have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let snapshot: Self = serde_json::from_slice(bytes)
            .map_err(|error| SnapshotError::Form(error.to_string()))?;
        snapshot.check().map_err(SnapshotError::Bounds)?;
        Ok(snapshot)
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        let wrong = |text| Err(OutOfBounds(text));
        let policy = &self.policy;
        if self.version != 1 {
            return wrong("version is not 1: it is of another release");
        }
        if !matches!(policy.scheme.as_str(), "http" | "https") {
            return wrong("policy.scheme is neither http nor https");
        }
        if !(1..=60).contains(&policy.ttl_seconds) {
            return wrong("policy.ttl_seconds is not 1 to 60");
        }
        if policy.roomy_permille > policy.full_permille {
            return wrong("policy.roomy_permille is above full_permille");
        }
        if !self.sites.is_sorted_by(|one, next| one.name < next.name) {
            return wrong("sites are not sorted by name, or one is there twice");
        }
        if !self.nodes.is_sorted_by(|one, next| one.name < next.name) {
            return wrong("nodes are not sorted by name, or one is there twice");
        }
        if !self.titles.is_sorted_by(|one, next| one.path < next.path) {
            return wrong("titles are not sorted by path, or one is there twice");
        }
        self.titles.iter().try_for_each(PublishedTitle::check)?;
        self.nodes.iter().try_for_each(|node| self.check_node(node))
    }

    fn check_node(&self, node: &SnapshotNode) -> Result<(), OutOfBounds> {
        if self.sites.binary_search_by(|site| site.name.cmp(&node.place.site)).is_err() {
            return Err(OutOfBounds("a node is at a site that is not there"));
        }
        check_host(&node.host)?;
        if !node.holds.is_sorted_by(|one, next| one < next) {
            return Err(OutOfBounds("a node's titles are not sorted, or one is there twice"));
        }
        if node.holds.last().is_some_and(|last| *last as usize >= self.titles.len()) {
            return Err(OutOfBounds("a node holds a title that is not there"));
        }
        Ok(())
    }
}
