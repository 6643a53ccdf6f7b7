//! An invalid option of a swarm.

/// The invalid text, and the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadOption(String);

impl BadOption {
    /// `text` should have been `wanted`.
    pub(crate) fn new(text: &str, wanted: &str) -> Self {
        Self(format!("{text:?} is not {wanted}"))
    }
}
