//! What makes a response one that no viewer should have got, beyond the failures of its connection.

use crate::failure::Failure;
use crate::url::Url;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Why a viewer did not get what it asked for.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection failed.
    Connection(Failure),
    /// Another status than 200 for a whole file, or than 206 for a range.
    Status {
        /// The one that came.
        status: u16,
        /// The one expected.
        expected: u16,
    },
    /// A range was asked for, another one came.
    OtherRange {
        /// What was asked for.
        asked: Range<u64>,
        /// What the Content-Range field says, if it says anything.
        came: Option<Range<u64>>,
    },
    /// The bytes are not those of the file, or not those that came before.
    WrongBytes {
        /// What the comparison is with.
        against: &'static str,
        /// SHA-256 of what came, in hexadecimal.
        came: String,
        /// SHA-256 of what should have come.
        expected: String,
    },
    /// The file to compare with cannot be read.
    NoReference(PathBuf, std::io::Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Connection(failure)
    }
}

impl Trouble {
    /// Its kind in reports.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Connection(failure) => failure.as_str(),
            Self::Status { .. } => "status",
            Self::OtherRange { .. } => "other_range",
            Self::WrongBytes { .. } => "wrong_bytes",
            Self::NoReference(..) => "no_reference",
        }
    }

    /// For people: what happened to which request.
    pub(crate) fn describe(&self, url: &Url, path: &str, range: Option<&Range<u64>>) -> String {
        let origin =
            format!("{}://{}", if url.is_tls() { "https" } else { "http" }, url.authority());
        match range {
            Some(range) => {
                format!(
                    "{origin}{path} bytes {}-{}: {self}",
                    range.start,
                    range.end.saturating_sub(1)
                )
            }
            None => format!("{origin}{path}: {self}"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(failure) => failure.fmt(f),
            Self::Status { status: 200, expected: 206 } => {
                write!(
                    f,
                    "a range was asked for and the whole file came (status 200): the server has no ranges"
                )
            }
            Self::Status { status, expected } => {
                write!(
                    f,
                    "status {status} where {expected} was expected: is this what the server has?"
                )
            }
            Self::OtherRange { asked, came: Some(came) } => write!(
                f,
                "asked for bytes {}-{}, got {}-{}",
                asked.start,
                asked.end - 1,
                came.start,
                came.end.saturating_sub(1)
            ),
            Self::OtherRange { asked, came: None } => {
                write!(
                    f,
                    "asked for bytes {}-{}, got a 206 without a range",
                    asked.start,
                    asked.end - 1
                )
            }
            Self::WrongBytes { against, came, expected } => {
                write!(f, "wrong bytes: SHA-256 {came}, but {expected} {against}")
            }
            Self::NoReference(path, error) => {
                write!(
                    f,
                    "cannot compare with {}: {error}; is --against the server's library?",
                    path.display()
                )
            }
        }
    }
}
