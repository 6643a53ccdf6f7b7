//! Errors of tokens and of key files.

use std::fmt;
use std::io;
use std::path::PathBuf;

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
}

impl TokenFault {
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

/// Why there are no keys to sign and check with. Never holds a secret.
#[derive(Debug)]
pub enum KeyError {
    /// No file was given.
    NoFile,
    /// A file cannot be used.
    File {
        /// The file.
        file: PathBuf,
        /// Its fault.
        fault: KeyFileFault,
    },
}

/// The fault of a key file.
#[derive(Debug)]
pub enum KeyFileFault {
    /// It cannot be read.
    Unreadable(io::Error),
    /// Its mode cannot be read.
    Unexamined(io::Error),
    /// It has this mode, so others could read or change it.
    OpenToOthers(u32),
    /// It is not UTF-8 text.
    NotText,
    /// A line is not a key.
    Line {
        /// The line's number, counted from 1.
        number: usize,
        /// A description of a valid key. It does not quote the line, which may contain a secret.
        wanted: &'static str,
    },
    /// It holds no key.
    Empty,
    /// It repeats the id of a key in it or in an earlier file.
    IdTwice(String),
    /// For a new key: the system returned no random numbers.
    NoRandomNumbers,
    /// For a new key: the file already exists.
    Exists,
    /// For a new key: the file cannot be created.
    Unmakable(io::Error),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, fault) = match self {
            Self::NoFile => return f.write_str("no file of signing keys was given"),
            Self::File { file, fault } => (file.display(), fault),
        };
        write!(f, "signing key {file}: {fault}")?;
        match fault {
            KeyFileFault::OpenToOthers(_) => write!(f, "; run: chmod 600 {file}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for KeyFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Unexamined(error) => write!(f, "cannot be examined: {error}"),
            Self::OpenToOthers(mode) => {
                write!(f, "has mode {mode:04o}: others could read or change it, and sign")
            }
            Self::NotText => f.write_str("is not UTF-8 text"),
            Self::Line { number, wanted } => write!(f, "line {number}: {wanted}"),
            Self::Empty => {
                f.write_str("holds no key; make one with `fullbore sign --new-key FILE`")
            }
            Self::IdTwice(id) => write!(f, "the id {id} is there twice; ids must differ"),
            Self::NoRandomNumbers => f.write_str("the system returned no random numbers"),
            Self::Exists => f.write_str(
                "there is such a file already, and its key may be in use; choose another name",
            ),
            Self::Unmakable(error) => write!(f, "cannot be made: {error}"),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoFile => None,
            Self::File { fault, .. } => Some(fault),
        }
    }
}

impl std::error::Error for KeyFileFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) | Self::Unexamined(error) | Self::Unmakable(error) => {
                Some(error)
            }
            Self::OpenToOthers(_)
            | Self::NotText
            | Self::Line { .. }
            | Self::Empty
            | Self::IdTwice(_)
            | Self::NoRandomNumbers
            | Self::Exists => None,
        }
    }
}
