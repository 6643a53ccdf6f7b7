//! What is wrong with a token, and what is wrong with a key file.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a token does not allow a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no token.
    Missing,
    /// It does not have the form of a token.
    Malformed,
    /// It names a key that is not in the ring: another one, or one that was removed.
    UnknownKey,
    /// Its signature does not match this path, expiry and address under that key.
    Wrong,
    /// It is genuine, but has expired.
    Expired,
}

impl Fault {
    /// Every reason, for registering counters.
    pub const ALL: [Self; 5] =
        [Self::Missing, Self::Malformed, Self::UnknownKey, Self::Wrong, Self::Expired];

    /// The reason as a counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::Malformed => "token_malformed",
            Self::UnknownKey => "token_unknown_key",
            Self::Wrong => "token_wrong",
            Self::Expired => "token_expired",
        }
    }
}

/// What is wrong with a key file, and what to do about it. Never holds a secret.
#[derive(Debug)]
pub struct KeyError {
    file: PathBuf,
    what: String,
}

impl KeyError {
    pub(crate) fn new(file: &Path, what: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), what: what.to_string() }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signing key {}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for KeyError {}
