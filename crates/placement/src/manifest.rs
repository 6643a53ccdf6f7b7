//! What a cluster shall hold.

use fleet::{Digest, Name};
use serde::{Deserialize, Serialize};

use crate::plan::Why;

/// What the nodes of a cluster shall hold. It never changes: another plan makes another manifest, with another digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterManifest {
    /// The version of this form: 1.
    pub version: u32,
    /// The cluster's site.
    pub site: Name,
    /// The cluster.
    pub cluster: Name,
    /// Its nodes, sorted.
    pub nodes: Vec<Name>,
    /// What they shall hold, by path.
    pub titles: Vec<ManifestTitle>,
}

/// A title of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTitle {
    /// Its path.
    pub path: String,
    /// Who shall hold a copy: places in the manifest's `nodes`, rising.
    pub on: Vec<u32>,
    /// Why each of them shall, in the same order.
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

    /// Reads one.
    ///
    /// # Errors
    /// If it is none, or names a node that is not in it.
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
            Some(title) => Err(format!("what it says of {} is not whole", title.path)),
        }
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }
}
