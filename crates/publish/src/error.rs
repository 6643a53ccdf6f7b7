//! Why a title could not be published.

use std::fmt::{self, Display, Formatter};

use s3::S3Error;

/// Why a title could not be published. Its text is one line, and says what to do.
#[derive(Debug)]
pub enum PublishError {
    /// The title cannot be published as it is.
    Title(String),
    /// The store refuses, or is away.
    Store(S3Error),
    /// Another publisher was faster, with another version.
    Overtaken(String),
    /// A task ended as none should.
    Broken(String),
}

impl Display for PublishError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title(why) | Self::Overtaken(why) | Self::Broken(why) => f.write_str(why),
            Self::Store(S3Error::Unavailable(why)) => write!(
                f,
                "{why}; what has arrived there stays, so run the same command again when the store is well"
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PublishError {}

impl From<S3Error> for PublishError {
    fn from(error: S3Error) -> Self {
        Self::Store(error)
    }
}
