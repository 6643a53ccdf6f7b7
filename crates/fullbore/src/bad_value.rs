//! A value on the command line that is not of its kind.

use std::fmt;

/// A value that is not of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadValue {
    text: String,
    wanted: &'static str,
}

impl BadValue {
    /// `wanted` says what its kind is, with examples.
    pub(crate) fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.to_owned(), wanted }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.wanted)
    }
}

impl std::error::Error for BadValue {}
