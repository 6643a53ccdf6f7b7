//! Recognizing a node's own certificates: after the loss of a store, a name may be used twice, while certificates of its first holder are still
//! valid.

use identity::NodeCertificate;

/// When a node joined, and its certificates as recorded in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedNode {
    /// When it joined, since 1970.
    pub unix_seconds: u64,
    /// Serial numbers of the certificates issued to it, newest last.
    pub serials: Vec<String>,
}

impl JoinedNode {
    /// Whether a certificate with this name, signed by the fleet, is this node's.
    ///
    /// A backup lacks the serial numbers of certificates renewed since it was made, and nodes go on using those after a restore. So certificates
    /// issued since the node joined count as its own, too; earlier ones belong to another machine, which had the name before.
    pub fn owns(&self, certificate: &NodeCertificate) -> bool {
        self.serials.iter().any(|serial| serial == certificate.serial.as_str())
            || certificate.issued_unix_seconds >= self.unix_seconds
    }
}
