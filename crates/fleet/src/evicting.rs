//! Leave to remove copies that a plan no longer names.
//!
//! Only a gateway knows whether the copies that replace them are there. So a node asks, and asks again just before it removes something: without a
//! gateway, nothing is removed.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{HeldTitle, OutOfBounds};

/// Most titles that a node asks about at once: with long paths, too, they fit into a heartbeat's bounds.
pub const EVICTIONS_MAX: usize = 50;

/// A node asks which of these it may remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionRequest {
    /// The version of this form: 1.
    pub version: u32,
    /// What it holds and was not told to hold.
    pub held: Vec<HeldTitle>,
}

/// A gateway's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionLeave {
    /// Those of them that it may remove now: enough other nodes hold them, and shall.
    pub held: Vec<HeldTitle>,
}

impl EvictionRequest {
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
        if self.held.len() > EVICTIONS_MAX {
            return Err(OutOfBounds("there are more than 50 titles"));
        }
        self.held.iter().try_for_each(|held| check_path(&held.path))
    }
}
