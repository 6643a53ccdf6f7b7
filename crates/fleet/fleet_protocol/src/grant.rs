//! Permission to copy a title from another node.
//!
//! If the fleet signs addresses, nodes serve only signed ones. A grant is such a token, as viewers have them: it permits access to one title, on
//! any node that holds it, for up to ten minutes. Only gateways can sign, so a node asks one of them.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{HeldTitle, OutOfBounds};

/// How long a grant is valid.
pub const GRANT_SECONDS: u64 = 600;

/// Longest token.
const TOKEN_BYTES_MAX: usize = 1024;

/// A node's request for a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillGrantRequest {
    /// The version of this document: 1.
    pub version: u32,
    /// The title that it should hold, and wants to copy.
    pub held: HeldTitle,
}

/// A gateway's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillGrant {
    /// The title that it permits access to.
    pub held: HeldTitle,
    /// The token of a signed address; `None` if the fleet does not sign addresses.
    pub token: Option<String>,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
}

impl FillGrantRequest {
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
        check_path(&self.held.path)
    }
}

impl FillGrant {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        let is_token = |token: &String| {
            token.len() <= TOKEN_BYTES_MAX
                && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        match self.token.as_ref().is_none_or(is_token) {
            true => check_path(&self.held.path),
            false => Err(OutOfBounds("token is not one of a signed address")),
        }
    }
}
