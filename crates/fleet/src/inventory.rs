//! What a node holds, and what it shall hold.

use serde::{Deserialize, Serialize};

use crate::gone::SIGNATURE_BYTES;
use crate::title::check_path;
use crate::{Digest, HeldTitle, Name, OutOfBounds, PublishedTitle};

/// Most titles of one node.
const TITLES_MAX: usize = 100_000;

/// The complete versions on a node, sorted. Its digest is that of its JSON, as [`Inventory::digest`] makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The version of this form: 1.
    pub version: u32,
    /// Whose it is.
    pub node: Name,
    /// What it holds, sorted, nothing twice.
    pub held: Vec<HeldTitle>,
}

impl Inventory {
    /// The inventory of `node`.
    pub fn new(node: Name, mut held: Vec<HeldTitle>) -> Self {
        held.sort();
        held.dedup();
        Self { version: 1, node, held }
    }

    /// Its digest.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("an inventory is plain JSON"))
    }

    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.version != 1 {
            return Err(OutOfBounds(
                "version is not 1: gateway and node are of different releases",
            ));
        }
        if self.held.len() > TITLES_MAX {
            return Err(OutOfBounds("there are more than 100000 titles"));
        }
        if !self.held.is_sorted_by(|one, next| one < next) {
            return Err(OutOfBounds("held is not sorted, or has something twice"));
        }
        self.held.iter().try_for_each(|held| check_path(&held.path))
    }
}

/// What a node shall hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    /// Of the fleet: rises when a backup is restored.
    pub epoch: u64,
    /// The store's revision at which a title or the plan last changed; rises within an epoch.
    pub revision: u64,
    /// What it shall hold, by path.
    pub titles: Vec<PublishedTitle>,
    /// Those of them that it brings at once, whatever its windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_once: Vec<HeldTitle>,
    /// What it must not serve any more, whatever lies in its library: it removes these and sends a receipt for each.
    pub withdrawn: Vec<HeldTitle>,
    /// Nodes that may not take part any more: it keeps that for the fleet ([`Gone`](crate::Gone)).
    #[serde(default)]
    pub revoked: Vec<Name>,
    /// The fleet's signature of the [`Gone`](crate::Gone) in this; empty if it has not signed.
    #[serde(default)]
    pub signature: Vec<u8>,
}

impl Desired {
    /// Its digest.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("it is plain JSON"))
    }

    /// Whether this was wanted before `other` was: a gateway that cannot reach the store may know no better.
    pub fn is_older_than(&self, other: &Self) -> bool {
        (self.epoch, self.revision) < (other.epoch, other.revision)
    }

    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.signature.len() > SIGNATURE_BYTES {
            return Err(OutOfBounds("signature has more than 64 bytes"));
        }
        self.titles.iter().try_for_each(PublishedTitle::check)?;
        self.withdrawn.iter().chain(&self.at_once).try_for_each(|held| check_path(&held.path))
    }
}
