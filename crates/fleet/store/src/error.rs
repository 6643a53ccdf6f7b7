//! Errors of the store.

use std::fmt::{self, Display, Formatter};

/// Why the store did not carry out a request. Each text is one line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// A check failed: another client changed the same entry in the meantime. Nothing was changed.
    Conflict,
    /// The store cannot be changed now, or cannot be reached. Reads may still work.
    Unavailable(String),
    /// A key, a value or a commit exceeds the store's limits, or a commit has a key twice. Nothing was changed.
    TooLarge(String),
    /// The stored data is not what was written. Nothing was changed.
    Damaged(String),
    /// The store belongs to another machine, or is in a place that several machines could write to.
    SecondMachine(String),
    /// The store is set up wrong: its address, its permissions or its version.
    NotUsable(String),
}

impl Display for StoreError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str(
                "another request changed this at the same time: look at it again, then retry",
            ),
            Self::Unavailable(text)
            | Self::TooLarge(text)
            | Self::Damaged(text)
            | Self::SecondMachine(text)
            | Self::NotUsable(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StoreError {}
