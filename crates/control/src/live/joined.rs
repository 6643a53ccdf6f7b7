//! By which certificates a node is itself: names may be used twice if a store was lost, and certificates of the first holder are still signed.

use identity::NodeCertificate;

/// When a node joined, and the certificates that the store knows it to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedNode {
    /// When it joined, since 1970.
    pub unix_seconds: u64,
    /// Serial numbers of the certificates that it got, the newest last.
    pub serials: Vec<String>,
}

impl JoinedNode {
    /// Whether a certificate of this name, which the fleet has signed, is this node's.
    ///
    /// A backup lacks the serial numbers of what was renewed since it was made, and nodes go on after a restore. So what was issued since the node
    /// joined is its own, too; what was issued before is another machine's, which had the name before.
    pub fn owns(&self, certificate: &NodeCertificate) -> bool {
        self.serials.iter().any(|serial| serial == certificate.serial.as_str())
            || certificate.issued_unix_seconds >= self.unix_seconds
    }
}
