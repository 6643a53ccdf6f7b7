//! A node's certificate for viewers, issued by an external authority for a key that never leaves the node.
//!
//! The node sends a request, which the fleet stores. An operator with an account at an authority gets it signed and uploads the chain, and the node
//! fetches that. Both sides exchange digests of what they have, so nothing is sent twice.

use serde::{Deserialize, Serialize};

use crate::{Digest, Name, OutOfBounds};

/// Ample for a request for one host, which has less than 1 KiB.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Ample for a chain, which has a few KiB.
pub const CHAIN_BYTES_MAX: usize = 64 << 10;

/// A node's request for a certificate for viewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerRequest {
    /// The version of this document: 1.
    pub version: u32,
    /// The sender. A name other than the one in its certificate is refused.
    pub node: Name,
    /// A PKCS #10 request for the node's host, in PEM.
    pub request: String,
}

/// The chain that an authority issued for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerChain {
    /// The version of this document: 1.
    pub version: u32,
    /// Certificates in PEM, the node's first.
    pub chain: String,
}

/// Digests of the request and the chain that the fleet has, in the answer to a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerDigests {
    /// Digest of the node's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Digest>,
    /// Digest of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
}

const VERSION_IS_NOT_1: OutOfBounds =
    OutOfBounds("version is not 1: gateway and node are of different releases");

impl ViewerRequest {
    /// Checks the constraints that serde does not. It does not check that this is a certificate request.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self.version {
            1 if self.request.len() <= REQUEST_BYTES_MAX => Ok(()),
            1 => Err(OutOfBounds("the request is longer than 8 KiB")),
            _ => Err(VERSION_IS_NOT_1),
        }
    }
}

impl ViewerChain {
    /// Checks the constraints that serde does not. It does not check that this is a chain.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self.version {
            1 if self.chain.len() <= CHAIN_BYTES_MAX => Ok(()),
            1 => Err(OutOfBounds("the chain is longer than 64 KiB")),
            _ => Err(VERSION_IS_NOT_1),
        }
    }
}
