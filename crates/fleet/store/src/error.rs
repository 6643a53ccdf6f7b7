//! Errors of the store.

/// Why the store did not carry out a request. Each text is one line for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A check failed: another client changed the same entry in the meantime. Nothing was changed.
    #[error("another request changed this at the same time: look at it again, then retry")]
    Conflict,
    /// The store cannot be changed now, or cannot be reached. Reads may still work.
    #[error("{0}")]
    Unavailable(String),
    /// A key, a value or a commit exceeds the store's limits, or a commit has a key twice. Nothing was changed.
    #[error("{0}")]
    TooLarge(String),
    /// The stored data is not what was written. Nothing was changed.
    #[error("{0}")]
    Damaged(String),
    /// The store belongs to another machine, or is in a place that several machines could write to.
    #[error("{0}")]
    SecondMachine(String),
    /// The store is set up wrong: its address, its permissions or its version.
    #[error("{0}")]
    NotUsable(String),
}
