//! The keys with which nodes verify viewers' tokens.

use serde::{Deserialize, Serialize};

use crate::{Digest, OutOfBounds};

/// Longest text: some hundred keys. A fleet that rolls its keys has two.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The fleet's public keys for viewers' tokens. They can verify tokens, but not create any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerKeys {
    /// The version of this document: 1.
    pub version: u32,
    /// The text of a key file for the server. Empty if the fleet does not sign addresses.
    pub text: String,
}

impl Default for ViewerKeys {
    fn default() -> Self {
        Self::new(String::new())
    }
}

impl ViewerKeys {
    /// The keys in `text`.
    pub fn new(text: String) -> Self {
        Self { version: 1, text }
    }

    /// Their digest.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("it is plain JSON"))
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
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(OutOfBounds("the keys are longer than 64 KiB"));
        }
        Ok(())
    }
}
