//! Facts that a fleet must not forget: revocations and withdrawals. Every node keeps a signed copy, so that a fleet whose store was lost and
//! restored from an old backup gets them back. The list only grows, so an old copy does no harm.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{Desired, HeldTitle, Name, OutOfBounds, PublicKey, Signed, UnsignedError};

/// Bytes of a signature (RFC 8032, section 5.1.6).
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Revoked machines and withdrawn versions. The signature covers its JSON, which is generated again to verify it, so unknown fields are refused
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetTombstones {
    /// The fleet's epoch when it was signed.
    pub epoch: u64,
    /// Revoked nodes.
    pub revoked: Vec<Name>,
    /// Withdrawn versions of titles.
    pub withdrawn: Vec<HeldTitle>,
}

/// A node's copy, in the form in which it is sent back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedTombstones {
    /// The version of this document: 1.
    pub version: u32,
    /// The fleet's list.
    pub gone: FleetTombstones,
    /// Its signature.
    pub signature: Vec<u8>,
}

impl FleetTombstones {
    /// The signature's context.
    pub const CONTEXT: &str = "fullbore-gone-1";

    /// Its JSON, which is what gets signed.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is plain JSON")
    }
}

impl ReturnedTombstones {
    /// The list that a node got last; `None` if the fleet has not signed it.
    pub fn of(desired: &Desired) -> Option<Self> {
        let Desired { epoch, revoked, withdrawn, signature, .. } = desired.clone();
        let gone = FleetTombstones { epoch, revoked, withdrawn };
        (!signature.is_empty()).then_some(Self { version: 1, gone, signature })
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
        self.gone.withdrawn.iter().try_for_each(|held| check_path(&held.path))
    }

    /// The fleet's list, if the signature is valid.
    ///
    /// # Errors
    /// If the fleet did not sign it.
    pub fn open(&self, key: &PublicKey) -> Result<&FleetTombstones, UnsignedError> {
        let signed = Signed { bytes: self.gone.to_bytes(), signature: self.signature.clone() };
        key.open(FleetTombstones::CONTEXT, &signed).map(|_| &self.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digest, SigningKey};

    #[test]
    fn a_node_gives_back_what_the_fleet_said_and_nothing_else() {
        let (key, _) = SigningKey::draw().expect("a key");
        let held = HeldTitle { path: "a".to_owned(), version: Digest::of(b"a") };
        let (revoked, withdrawn) = (vec!["n1".parse().expect("a name")], vec![held]);
        let gone =
            FleetTombstones { epoch: 3, revoked: revoked.clone(), withdrawn: withdrawn.clone() };
        let signature = key.sign(FleetTombstones::CONTEXT, gone.to_bytes()).signature;
        let desired = Desired { epoch: 3, withdrawn, revoked, signature, ..Desired::default() };
        let kept = ReturnedTombstones::of(&desired).expect("it is signed");
        assert_eq!(kept.open(&key.public()), Ok(&gone));
        let sent = serde_json::to_vec(&kept).expect("JSON");
        let mut read: ReturnedTombstones = serde_json::from_slice(&sent).expect("the same");
        assert!(read.check().is_ok() && read.open(&key.public()).is_ok());
        read.gone.revoked.push("n2".parse().expect("a name"));
        assert!(read.open(&key.public()).is_err(), "a node cannot revoke another");
        assert_eq!(ReturnedTombstones::of(&Desired::default()), None);
    }
}
