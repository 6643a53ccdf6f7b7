//! Checks whether a bucket is usable, before any object is requested.

use std::time::Duration;

use reqwest::{Response, Url};

use crate::{S3Bucket, S3Refusal, S3Signer};
use outbound::with_causes;

/// The caller wants a quick answer at the start, not certainty.
const PATIENCE: Duration = Duration::from_secs(20);

impl S3Signer {
    /// The URL of a request that shows it: lists the name of one object. Some stores answer "not found" for every object, even if the
    /// bucket does not exist, but not for a list.
    pub fn probe(&self) -> Url {
        self.sign_bucket(&[("list-type", "2"), ("max-keys", "1")])
    }

    /// Interprets the answer. Credentials that may read objects may not be allowed to list them: that is not an error.
    ///
    /// # Errors
    /// If no object could be read from there, with advice.
    pub async fn judge_probe(&self, answer: Response) -> Result<(), String> {
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let refusal = S3Refusal::read(answer).await;
        match status.is_server_error() || refusal.is_about_all(self) {
            true => Err(refusal.words(self)),
            false => Ok(()),
        }
    }
}

impl S3Bucket {
    /// Checks once whether the bucket is usable.
    ///
    /// # Errors
    /// If it is not, with advice.
    pub async fn probe(&self) -> Result<(), String> {
        match self.http.get(self.signer.probe()).timeout(PATIENCE).send().await {
            Ok(answer) => self.signer.judge_probe(answer).await,
            // Without its URL: that contains the signature.
            Err(error) => Err(with_causes(&error.without_url())),
        }
    }
}
