//! Errors of S3 requests.

use std::fmt::{self, Display, Formatter};

/// Why an S3 request failed. Each text is one line for the operator, and names the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Error {
    /// There is no such object.
    Absent(String),
    /// The address or the credentials are wrong, or S3 refuses the request: a retry is of no use.
    Refused(String),
    /// S3 cannot be reached, or fails: a retry may work.
    Unavailable(String),
    /// The object is no longer the one that the request requires.
    Changed(String),
    /// This store does not support the request.
    Unsupported(String),
    /// The object is larger than its reader allows.
    TooLarge(String),
}

impl Display for S3Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(text)
            | Self::Refused(text)
            | Self::Unavailable(text)
            | Self::Changed(text)
            | Self::Unsupported(text)
            | Self::TooLarge(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for S3Error {}
