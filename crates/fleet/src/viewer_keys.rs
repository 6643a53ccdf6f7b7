//! The keys by which nodes check viewers' tokens.

use serde::{Deserialize, Serialize};

use crate::{Digest, OutOfBounds};

/// Longest text: some hundred keys. A fleet that rolls its keys has two.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The fleet's public keys for viewers' tokens. Whoever has them can check a token and make none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerKeys {
    /// The version of this form: 1.
    pub version: u32,
    /// What a server reads as a file of keys. Empty if the fleet signs no addresses.
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
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(OutOfBounds("the keys are longer than 64 KiB"));
        }
        Ok(())
    }
}
