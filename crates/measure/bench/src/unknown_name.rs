//! An unknown name on the command line.

/// A name that does not exist for its kind, with the names that do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {name:?}; choose from {}", .known.join(", "))]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl UnknownName {
    pub(crate) fn new(
        kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self { kind, name: name.to_owned(), known: known.into_iter().collect() }
    }
}
