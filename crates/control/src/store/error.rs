//! Why the store did not do what it was asked.

use std::fmt::{self, Display, Formatter};

/// Why the store did not do what it was asked. Each text is one line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// A check did not hold: somebody else changed the same thing meanwhile. Nothing was changed.
    Conflict,
    /// The store cannot be changed now, or cannot be reached. Reads may still work.
    Unavailable(String),
    /// A key, a value or a commit is larger than the store takes, or has a key twice. Nothing was changed.
    TooLarge(String),
    /// What is in the store is not what was written there. Nothing was changed.
    Damaged(String),
    /// The store belongs to another machine, or lies where several machines could write to it.
    SecondMachine(String),
    /// The store is not set up as it has to be: its address, its permissions, its version.
    NotUsable(String),
}

impl Display for StoreError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str(
                "somebody else changed this at the same time: look at it again, then try again",
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
