//! Joining: a machine's request, the answer, and the data that every node has about its fleet.

use serde::{Deserialize, Serialize};

use crate::host::{check_host, check_node_host};
use crate::{Digest, Name, NodeKind, NodePlace, OutOfBounds, PublicKey};

/// Most gateways that a node sends heartbeats to.
pub const GATEWAYS_MAX: usize = 5;

/// Longest text of an invitation's token: three fields of hex digits take 146.
const TOKEN_BYTES_MAX: usize = 256;

/// Longest certificate signing request, as PEM. One for P-256 takes about 400 bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// Longest text of public keys for tokens: enough for hundreds of keys.
const TOKEN_KEYS_BYTES_MAX: usize = 64 * 1024;

/// Sent once, without a certificate, by a machine with an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The version of this document: 1.
    pub version: u32,
    /// The invitation's token.
    pub token: String,
    /// The requested name.
    pub node: Name,
    /// The host of its addresses for viewers.
    pub host: String,
    /// The most that the machine may send; 0 if it is not set.
    pub ceiling_bits_per_second: u64,
    /// A certificate signing request for the name, as PEM.
    pub request: String,
}

/// The answer to a machine that may join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// The version of this document: 1.
    pub version: u32,
    /// Its name.
    pub node: Name,
    /// Its place in the fleet.
    pub place: NodePlace,
    /// Its kind, according to the fleet.
    pub kind: NodeKind,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// The certificate of the fleet's authority, as PEM. The machine checks it against the invitation's fingerprint.
    pub authority: String,
    /// The data that every node has.
    pub keys: Keys,
    /// The gateway's clock, since 1970.
    pub now_unix_millis: u64,
}

/// Sent by a node when two thirds of its certificate's lifetime are over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest {
    /// The version of this document: 1.
    pub version: u32,
    /// A certificate signing request for the node's own name, as PEM.
    pub request: String,
}

/// A node's new certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewAnswer {
    /// The version of this document: 1.
    pub version: u32,
    /// The certificate, as PEM.
    pub certificate: String,
}

/// The data that every node has about its fleet: trusted keys, and gateways' addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The version of this document: 1.
    pub version: u32,
    /// The fleet's epoch, which rises when a backup is restored.
    #[serde(default)]
    pub epoch: u64,
    /// The store's revision of the last change of a key in [`tokens`](Self::tokens); it rises within an epoch.
    #[serde(default)]
    pub revision: u64,
    /// Keys that sign snapshots. There are several during a roll.
    pub snapshots: Vec<PublicKey>,
    /// Public keys for viewers' tokens: the text of a key file that `fullbore serve` reads.
    pub tokens: String,
    /// Gateways' addresses for machines: `https://HOST:PORT`, at most [`GATEWAYS_MAX`].
    pub gateways: Vec<String>,
}

impl Keys {
    /// Its digest.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("keys are plain JSON"))
    }

    /// Whether these keys are older than `other`: a gateway that cannot reach the store may have old ones.
    pub fn are_older_than(&self, other: &Self) -> bool {
        (self.epoch, self.revision) < (other.epoch, other.revision)
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        check_version(self.version)?;
        if self.snapshots.len() > 16 {
            return Err(OutOfBounds("snapshots has more than 16 keys"));
        }
        if self.tokens.len() > TOKEN_KEYS_BYTES_MAX {
            return Err(OutOfBounds("tokens is longer than 64 KiB"));
        }
        check_gateways(&self.gateways)
    }
}

/// Checks that these can be the addresses of a fleet's gateways.
///
/// # Errors
/// The fault.
pub fn check_gateways(gateways: &[String]) -> Result<(), OutOfBounds> {
    if gateways.is_empty() || gateways.len() > GATEWAYS_MAX {
        return Err(OutOfBounds("gateways are not 1 to 5"));
    }
    let is_address = |address: &String| {
        let host = address.strip_prefix("https://").unwrap_or_default();
        check_host(host).is_ok()
    };
    if !gateways.iter().all(is_address) {
        return Err(OutOfBounds("a gateway's address is not https://HOST:PORT"));
    }
    Ok(())
}

impl JoinRequest {
    /// Checks the constraints that serde does not. The token and the signing request are checked elsewhere.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        check_version(self.version)?;
        if self.token.len() > TOKEN_BYTES_MAX {
            return Err(OutOfBounds("token is longer than 256 bytes"));
        }
        check_node_host(&self.host)?;
        check_request(&self.request)
    }
}

impl JoinAnswer {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        check_version(self.version)?;
        self.keys.check()
    }
}

impl RenewRequest {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        check_version(self.version)?;
        check_request(&self.request)
    }
}

fn check_version(version: u32) -> Result<(), OutOfBounds> {
    if version == 1 {
        return Ok(());
    }
    Err(OutOfBounds("version is not 1: gateway and node are of different releases"))
}

fn check_request(pem: &str) -> Result<(), OutOfBounds> {
    if pem.len() > REQUEST_BYTES_MAX {
        return Err(OutOfBounds("request is longer than 4096 bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Keys, check_gateways};

    #[test]
    fn gateways_are_one_to_five_https_addresses() {
        let gateways = |texts: &[&str]| {
            check_gateways(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert!(
            gateways(&["https://10.0.0.1:8702", "https://[::1]:1", "https://g.example"]).is_ok()
        );
        for bad in ["", "http://a:1", "https://", "https://a/b", "https://a b", "https://a@b"] {
            assert!(gateways(&[bad]).is_err(), "{bad}");
        }
        assert!(gateways(&[]).is_err());
        assert!(gateways(&["https://a"; 6]).is_err());
    }

    #[test]
    fn a_gateway_more_is_other_keys() {
        let keys = Keys { version: 1, ..Keys::default() };
        let more = Keys { gateways: vec!["https://a:1".to_owned()], ..keys.clone() };
        assert_ne!(keys.digest(), more.digest());
        assert!(keys.check().is_err() && more.check().is_ok());
    }

    #[test]
    fn a_restored_backup_s_keys_are_newer_than_all_before_it() {
        let keys = |epoch, revision| Keys { version: 1, epoch, revision, ..Keys::default() };
        assert!(keys(1, 6).are_older_than(&keys(1, 7)) && keys(1, 7).are_older_than(&keys(2, 3)));
        assert!(!keys(1, 7).are_older_than(&keys(1, 7)), "gateways may have changed");
        assert!(!keys(2, 3).are_older_than(&keys(1, 7)));
    }
}
