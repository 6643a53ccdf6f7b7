//! Whether a bucket can be worked with, before any object is asked for.

use std::time::Duration;

use reqwest::{Response, Url};

use crate::{S3Bucket, S3Refusal, S3Signer, with_causes};

/// Whoever asks wants a word at the start, not certainty.
const PATIENCE: Duration = Duration::from_secs(20);

impl S3Signer {
    /// The address of a request that tells: for the name of one object. Some stores say of every object that it is not there, whether the bucket
    /// is or not; of a list they do not.
    pub fn probe(&self) -> Url {
        self.sign_bucket(&[("list-type", "2"), ("max-keys", "1")])
    }

    /// What the answer to it means. Credentials that may read objects may not be allowed to list them: that is no fault.
    ///
    /// # Errors
    /// If no object could be had from there, with what to do about it.
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
    /// Asks once whether the bucket can be worked with.
    ///
    /// # Errors
    /// If it cannot, with what to do about it.
    pub async fn probe(&self) -> Result<(), String> {
        match self.http.get(self.signer.probe()).timeout(PATIENCE).send().await {
            Ok(answer) => self.signer.judge_probe(answer).await,
            // Without its address: that carries the signature.
            Err(error) => Err(with_causes(&error.without_url())),
        }
    }
}
