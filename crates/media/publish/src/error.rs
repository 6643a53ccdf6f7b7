//! Why a title could not be published.

use s3::S3Error;

/// Why a title could not be published. The message is one line, and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub enum PublishError {
    /// The title is not fit to be published.
    Title(String),
    /// The store refuses, or cannot be reached.
    #[error("{0}{advice}", advice = advice(.0))]
    Store(S3Error),
    /// Another publisher was faster, with another version.
    Overtaken(String),
    /// A task ended unexpectedly.
    Broken(String),
}

impl From<S3Error> for PublishError {
    fn from(error: S3Error) -> Self {
        Self::Store(error)
    }
}

/// How to go on after an error that may pass.
fn advice(error: &S3Error) -> &'static str {
    match error {
        S3Error::Unavailable(_) => {
            "; data that has arrived there is kept, so run the same command again when the store works"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unavailable_store_is_worth_another_try() {
        let text = |error: S3Error| PublishError::from(error).to_string();
        assert_eq!(text(S3Error::Refused("no such bucket".into())), "no such bucket");
        assert_eq!(
            text(S3Error::Unavailable("cannot connect".into())),
            "cannot connect; data that has arrived there is kept, so run the same command again when the store works"
        );
    }
}
