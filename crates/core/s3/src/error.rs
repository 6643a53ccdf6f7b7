//! Errors of S3 requests.

/// Why an S3 request failed. Each text is one line for the operator, and names the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
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
