//! Permission to remove copies that are no longer in a plan.
//!
//! Only a gateway knows whether the replacement copies exist. So a node asks, and asks again just before it removes something: without a gateway,
//! nothing is removed.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{HeldTitle, OutOfBounds};

/// Most titles in one request: even with long paths, they fit into a heartbeat's bounds.
pub const EVICTIONS_MAX: usize = 50;

/// A node's request for permission to remove titles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionRequest {
    /// The version of this document: 1.
    pub version: u32,
    /// Titles that it holds and should not.
    pub held: Vec<HeldTitle>,
}

/// A gateway's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionLeave {
    /// Those that it may remove now: enough other nodes hold them, and should.
    pub held: Vec<HeldTitle>,
}

impl EvictionRequest {
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
        if self.held.len() > EVICTIONS_MAX {
            return Err(OutOfBounds("there are more than 50 titles"));
        }
        self.held.iter().try_for_each(|held| check_path(&held.path))
    }
}
