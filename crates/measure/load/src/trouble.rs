//! Why a response is wrong, in addition to the failures of its connection.

use crate::failure::Failure;
use player::Url;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Why a viewer did not get what it requested.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection failed.
    Connection(Failure),
    /// A status other than 200 for a whole file, or other than 206 for a range.
    Status {
        /// The status received.
        status: u16,
        /// The one expected.
        expected: u16,
    },
    /// The response has another range than requested.
    OtherRange {
        /// The requested range.
        asked: Range<u64>,
        /// The range in the Content-Range field, if there is one.
        came: Option<Range<u64>>,
    },
    /// The bytes differ from the file, or from an earlier response.
    WrongBytes {
        /// The reference that they were compared with.
        against: &'static str,
        /// SHA-256 of what arrived, in hexadecimal.
        came: String,
        /// SHA-256 of what should have arrived.
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

    /// Text for people: what happened to which request.
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
                    "a range was requested, but the whole file came (status 200): the server does not support ranges"
                )
            }
            Self::Status { status, expected } => {
                write!(
                    f,
                    "got status {status}, expected {expected}: does the server have this file?"
                )
            }
            Self::OtherRange { asked, came: Some(came) } => write!(
                f,
                "requested bytes {}-{}, got {}-{}",
                asked.start,
                asked.end - 1,
                came.start,
                came.end.saturating_sub(1)
            ),
            Self::OtherRange { asked, came: None } => {
                write!(
                    f,
                    "requested bytes {}-{}, got a 206 without a range",
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
