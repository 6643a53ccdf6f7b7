//! How a node gets the certificate that viewers see, issued by somebody else for a key that never leaves the node.
//!
//! The node sends a request, which the fleet keeps. Whoever has an account with an authority has it signed and gives the fleet the chain, and
//! the node fetches that. Both sides say by digests what they have, so nothing is sent twice.

use serde::{Deserialize, Serialize};

use crate::{Digest, Name, OutOfBounds};

/// A request for one host has less than 1 KiB.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// A chain has some KiB.
pub const CHAIN_BYTES_MAX: usize = 64 << 10;

/// A node's request for the certificate that viewers see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerRequest {
    /// The version of this form: 1.
    pub version: u32,
    /// Who sends it: the name in its certificate, or it is refused.
    pub node: Name,
    /// A PKCS #10 request for the node's host, in PEM.
    pub request: String,
}

/// What an authority made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerChain {
    /// The version of this form: 1.
    pub version: u32,
    /// Certificates in PEM, the node's first.
    pub chain: String,
}

/// What the fleet has of both, in the answer to a heartbeat.
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
    /// Checks what serde does not. Whether it is a request is not known then.
    ///
    /// # Errors
    /// The field that is out of its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self.version {
            1 if self.request.len() <= REQUEST_BYTES_MAX => Ok(()),
            1 => Err(OutOfBounds("the request is longer than 8 KiB")),
            _ => Err(VERSION_IS_NOT_1),
        }
    }
}

impl ViewerChain {
    /// Checks what serde does not. Whether it is a chain is not known then.
    ///
    /// # Errors
    /// The field that is out of its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self.version {
            1 if self.chain.len() <= CHAIN_BYTES_MAX => Ok(()),
            1 => Err(OutOfBounds("the chain is longer than 64 KiB")),
            _ => Err(VERSION_IS_NOT_1),
        }
    }
}
