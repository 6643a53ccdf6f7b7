//! What a cluster shall hold.

use fleet::{Digest, Name};
use serde::{Deserialize, Serialize};

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
}

impl ClusterManifest {
    /// Its JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest is plain JSON")
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }
}
