//! Leave to copy a title from another node.
//!
//! Nodes serve signed addresses only, if the fleet signs them. A grant is such a token, as viewers have them: it opens one title, on any node that
//! holds it, for ten minutes at most. Only gateways can sign, so a node asks one of them.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{HeldTitle, OutOfBounds};

/// How long a grant holds.
pub const GRANT_SECONDS: u64 = 600;

/// Longest token.
const TOKEN_BYTES_MAX: usize = 1024;

/// A node asks for a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillGrantRequest {
    /// The version of this form: 1.
    pub version: u32,
    /// What it shall hold and wants to copy.
    pub held: HeldTitle,
}

/// A gateway's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillGrant {
    /// What it opens.
    pub held: HeldTitle,
    /// The token of a signed address; `None` if the fleet signs none.
    pub token: Option<String>,
    /// When it ends, since 1970.
    pub expires_unix_seconds: u64,
}

impl FillGrantRequest {
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
        check_path(&self.held.path)
    }
}

impl FillGrant {
    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
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
