//! An invalid option of a swarm.

use std::fmt;

/// The invalid text, and the expected form.
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
