//! An option of a swarm that cannot be understood.

use std::fmt;

/// Which text was wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption(String);

impl BadOption {
    /// `text` should have been `wanted`.
    pub(crate) fn new(text: &str, wanted: &str) -> Self {
        Self(format!("{text:?} is not {wanted}"))
    }
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOption {}
