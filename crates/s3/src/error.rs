//! Why S3 did not do what it was asked.

use std::fmt::{self, Display, Formatter};

/// Why S3 did not do what it was asked. Each text is one line for the operator, and says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Error {
    /// There is no such object.
    Absent(String),
    /// The address or the credentials are wrong, or S3 refuses the request: trying again is no use.
    Refused(String),
    /// S3 cannot be reached, or fails: it may work later.
    Unavailable(String),
    /// It is another object by now than the request demands.
    Changed(String),
    /// This store cannot do that.
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

/// An error with what caused it: reqwest's own text says only that sending failed.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
