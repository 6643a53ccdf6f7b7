//! Errors of tokens and of key files.

use std::io;
use std::path::{Path, PathBuf};

/// Why a token does not allow a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenFault {
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
    /// It is genuine, but begins later.
    NotYet,
    /// It is genuine, and demands what this server can't do.
    Unsupported,
}

impl TokenFault {
    /// Every reason, for registering counters.
    pub const ALL: [Self; 7] = [
        Self::Missing,
        Self::Malformed,
        Self::UnknownKey,
        Self::Wrong,
        Self::Expired,
        Self::NotYet,
        Self::Unsupported,
    ];

    /// The reason as a counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::Malformed => "token_malformed",
            Self::UnknownKey => "token_unknown_key",
            Self::Wrong => "token_wrong",
            Self::Expired => "token_expired",
            Self::NotYet => "token_not_yet",
            Self::Unsupported => "token_unsupported",
        }
    }
}

/// Why there are no keys to sign and check with. Never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No file was given.
    #[error("no file of signing keys was given")]
    NoFile,
    /// A file cannot be used.
    #[error("signing key {file}: {fault}{}", command(.file, .fault))]
    File {
        /// The file.
        file: PathBuf,
        /// Its fault.
        #[source]
        fault: KeyFileFault,
    },
}

/// The fault of a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileFault {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// Its mode cannot be read.
    #[error("cannot be examined: {0}")]
    Unexamined(#[source] io::Error),
    /// It has this mode, so others could read or change it.
    #[error("has mode {0:04o}: others could read or change it, and sign")]
    OpenToOthers(u32),
    /// It is not UTF-8 text.
    #[error("is not UTF-8 text")]
    NotText,
    /// A line is not a key.
    #[error("line {number}: {wanted}")]
    Line {
        /// The line's number, counted from 1.
        number: usize,
        /// A description of a valid key. It does not quote the line, which may contain a secret.
        wanted: &'static str,
    },
    /// It holds no key.
    #[error("holds no key; make one with `fullbore sign --new-key FILE`")]
    Empty,
    /// It repeats the id of a key in it or in an earlier file.
    #[error("the id {0} is there twice; ids must differ")]
    IdTwice(String),
    /// For a new key: the system returned no random numbers.
    #[error("the system returned no random numbers")]
    NoRandomNumbers,
    /// For a new key: the file already exists.
    #[error("there is such a file already, and its key may be in use; choose another name")]
    Exists,
    /// For a new key: the file is named for both halves.
    #[error("is named for both halves; choose another file for the public one")]
    BothHalves,
    /// For a new key: the file cannot be created.
    #[error("cannot be made: {0}")]
    Unmakable(#[source] io::Error),
}

/// The command that fixes the fault, if there is one.
fn command(file: &Path, fault: &KeyFileFault) -> String {
    match fault {
        KeyFileFault::OpenToOthers(_) => format!("; run: chmod 600 {}", file.display()),
        _ => String::new(),
    }
}
