//! Why a title could not be published.

use std::fmt::{self, Display, Formatter};

use s3::S3Error;

/// Why a title could not be published. The message is one line, and says what to do.
#[derive(Debug)]
pub enum PublishError {
    /// The title is not fit to be published.
    Title(String),
    /// The store refuses, or cannot be reached.
    Store(S3Error),
    /// Another publisher was faster, with another version.
    Overtaken(String),
    /// A task ended unexpectedly.
    Broken(String),
}

impl Display for PublishError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title(why) | Self::Overtaken(why) | Self::Broken(why) => f.write_str(why),
            Self::Store(S3Error::Unavailable(why)) => write!(
                f,
                "{why}; data that has arrived there is kept, so run the same command again when the store works"
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
