//! The titles assigned to a cluster.

use fleet_protocol::{Digest, Name};
use serde::{Deserialize, Serialize};

use crate::plan::Why;

/// The titles assigned to the nodes of a cluster. Manifests are immutable: another plan makes another manifest, with another digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterManifest {
    /// The version of this format: 1.
    pub version: u32,
    /// The cluster's site.
    pub site: Name,
    /// The cluster.
    pub cluster: Name,
    /// Its nodes, sorted.
    pub nodes: Vec<Name>,
    /// Its titles, sorted by path.
    pub titles: Vec<ManifestTitle>,
}

/// A title of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTitle {
    /// Its path.
    pub path: String,
    /// The nodes that hold a copy: indexes into the manifest's `nodes`, ascending.
    pub on: Vec<u32>,
    /// The reason for each of these copies, in the same order.
    pub why: Vec<Why>,
}

impl ClusterManifest {
    /// Its JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest is plain JSON")
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// If it is invalid, or refers to a node that is not in it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if read.version != 1 {
            return Err(format!("it has version {}: update this gateway", read.version));
        }
        let nodes = read.nodes.len() as u64;
        let is_whole = |title: &ManifestTitle| {
            title.on.len() == title.why.len() && title.on.iter().all(|at| u64::from(*at) < nodes)
        };
        match read.titles.iter().find(|title| !is_whole(title)) {
            None => Ok(read),
            Some(title) => Err(format!("its entry for {} is incomplete", title.path)),
        }
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }
}
