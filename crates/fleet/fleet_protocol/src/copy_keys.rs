//! The keys with which nodes prove to each other that they copy titles.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};

use crate::OutOfBounds;

/// Longest text: a few lines of a hundred bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The keys of a few days. Only gateways and nodes of the fleet have them. They are not part of [`Keys`](crate::Keys), because nodes keep those in
/// a file that others may read; and a gateway of an older release does not know the request for them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyKeys {
    /// The version of this document: 1.
    pub version: u32,
    /// The text of a key file for the server.
    pub text: String,
}

impl Debug for CopyKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyKeys").field("version", &self.version).finish_non_exhaustive()
    }
}

impl CopyKeys {
    /// The keys in `text`.
    pub fn new(text: String) -> Self {
        Self { version: 1, text }
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
            return Err(OutOfBounds("the keys are longer than 4 KiB"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_never_printed() {
        let keys = CopyKeys::new("copies-1:5ec2e7".to_owned());
        assert!(keys.check().is_ok() && !format!("{keys:?}").contains("5ec2e7"));
        assert!(CopyKeys::new("x".repeat(TEXT_BYTES_MAX + 1)).check().is_err());
        assert!(CopyKeys { version: 2, ..keys }.check().is_err());
    }
}
