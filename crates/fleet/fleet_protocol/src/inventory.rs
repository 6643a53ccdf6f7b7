//! Inventories: the titles that a node holds, and those that it should hold.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::tombstones::SIGNATURE_BYTES;
use crate::{Digest, HeldTitle, Name, OutOfBounds, PublishedTitle};

/// Most titles of one node.
const TITLES_MAX: usize = 100_000;

/// The complete versions on a node, sorted. Its digest is that of its JSON, as computed by [`Inventory::digest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The version of this document: 1.
    pub version: u32,
    /// The node.
    pub node: Name,
    /// The versions that it holds, sorted, without duplicates.
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

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
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

/// The list of what a node should hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    /// The fleet's epoch, which rises when a backup is restored.
    pub epoch: u64,
    /// The store's revision of the last change of a title or the plan; it rises within an epoch.
    pub revision: u64,
    /// The titles that it should hold, by path.
    pub titles: Vec<PublishedTitle>,
    /// Those that it fetches immediately, even outside its windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_once: Vec<HeldTitle>,
    /// Versions that it must not serve any more, even if its library has them: it removes these and sends a receipt for each.
    pub withdrawn: Vec<HeldTitle>,
    /// Revoked nodes. It keeps the list for the fleet ([`FleetTombstones`](crate::FleetTombstones)).
    #[serde(default)]
    pub revoked: Vec<Name>,
    /// The fleet's signature of the [`FleetTombstones`](crate::FleetTombstones) in this; empty if the fleet has not signed it.
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

    /// Whether this list is older than `other`: a gateway that cannot reach the store may have an old one.
    pub fn is_older_than(&self, other: &Self) -> bool {
        (self.epoch, self.revision) < (other.epoch, other.revision)
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.signature.len() > SIGNATURE_BYTES {
            return Err(OutOfBounds("signature has more than 64 bytes"));
        }
        self.titles.iter().try_for_each(PublishedTitle::check)?;
        self.withdrawn.iter().chain(&self.at_once).try_for_each(|held| check_path(&held.path))
    }
}
