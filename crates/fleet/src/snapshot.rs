//! All that steering needs: who is there, in which state, with which titles, and whom each site reaches.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::host::check_host;
use crate::{
    Name, NodeKind, NodePlace, NotMe, OutOfBounds, Prefix, PublishedTitle, ServedAt, State,
};

/// What a gateway knows at one moment. It makes at most one a second. Each has a number, which rises, and is signed by the fleet, so that a node can
/// answer viewers from it when no gateway is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetSnapshot {
    /// The version of this form: 1.
    pub version: u32,
    /// Rises when a backup is restored; a node takes none of an older epoch.
    pub epoch: u64,
    /// Who made it.
    pub gateway: Name,
    /// Rises with each snapshot of this gateway.
    pub number: u64,
    /// When it was made, by the gateway's clock, since 1970.
    pub made_unix_millis: u64,
    /// How viewers are answered.
    pub policy: SteeringPolicy,
    /// Where nodes are.
    pub sites: Vec<Site>,
    /// Nodes, whatever their state, by name.
    pub nodes: Vec<SnapshotNode>,
    /// Titles, by path.
    pub titles: Vec<PublishedTitle>,
}

/// How viewers are answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteeringPolicy {
    /// `http` or `https`.
    pub scheme: String,
    /// The port of all nodes: players change the host of a clone's address, and keep its port.
    pub port: u16,
    /// How long a steering answer holds, and over how long forced moves are spread: at most 60 s.
    pub ttl_seconds: u32,
    /// From this load beside ceiling on, in thousandths, a node gets no new viewers while another has room ...
    pub full_permille: u16,
    /// ... until it has fallen to this.
    pub roomy_permille: u16,
}

impl SteeringPolicy {
    /// How viewers come to nodes.
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
    /// The region that it is in.
    pub region: Name,
    /// Degrees north, if known.
    #[serde(default)]
    pub latitude: Option<f64>,
    /// Degrees east, if known.
    #[serde(default)]
    pub longitude: Option<f64>,
    /// Whom it reaches: only prefixes within its operator's allow-list are here.
    pub announced: Vec<Announced>,
}

/// A prefix that a site announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The prefix.
    pub prefix: Prefix,
    /// Autonomous systems on the way: fewer are better.
    #[serde(default)]
    pub as_path_length: u8,
    /// Multi-exit discriminator: less is better.
    #[serde(default)]
    pub med: u32,
}

/// A node, as steering sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotNode {
    /// Its name, for ever; also the id of its pathway.
    pub name: Name,
    /// The host of its addresses: a name or an IP address.
    pub host: String,
    /// Where it is. `place.site` is one of the snapshot's sites.
    pub place: NodePlace,
    /// What it is built for.
    pub kind: NodeKind,
    /// What the gateway takes it for.
    pub state: State,
    /// Why it takes no new viewers by its own judgement; empty if it does.
    pub not_me: Vec<NotMe>,
    /// What it may carry, as far as the gateway believes it: its weight next to others of its site. 0 for a node that has never spoken.
    pub ceiling_bits_per_second: u64,
    /// Load beside ceiling, in thousandths.
    pub load_permille: u16,
    /// Whether it counted as full when the snapshot was made. The load alone does not tell: between the policy's two marks it depends on what was
    /// before. `steering::Fleet::new` sets it, so that whoever has the snapshot, later or elsewhere, decides alike.
    #[serde(default)]
    pub full: bool,
    /// Which of the snapshot's titles it holds in the published version, by their places in `titles`, rising. Written as a text of runs.
    #[serde(with = "crate::runs")]
    pub holds: Vec<u32>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// It is not the JSON of a snapshot.
    Form(String),
    /// A field is out of its bounds.
    Bounds(OutOfBounds),
}

impl Display for SnapshotError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(why) => f.write_str(why),
            Self::Bounds(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl FleetSnapshot {
    /// What its signature is made for.
    pub const CONTEXT: &str = "fullbore-snapshot-1";

    /// Its JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in a snapshot that was checked.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a snapshot is plain JSON")
    }

    /// Reads and checks a snapshot.
    ///
    /// # Errors
    /// If it is none, or refers to what is not in it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let snapshot: Self = serde_json::from_slice(bytes)
            .map_err(|error| SnapshotError::Form(error.to_string()))?;
        snapshot.check().map_err(SnapshotError::Bounds)?;
        Ok(snapshot)
    }

    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
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
