//! Retries while a store is away or asks to slow down.

use std::future::Future;
use std::time::Duration;

use s3::S3Error;
use tokio::time::{Instant, sleep};

use crate::Work;

/// The pause before the next try; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longer pauses would leave a store idle that works again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long to keep trying while a store fails.
pub(crate) struct RetryTimeout(pub(crate) Duration);

impl Work {
    /// Calls `what`, with retries while the store is [`S3Error::Unavailable`] and the time lasts.
    pub(crate) async fn retry<T, F>(&self, what: impl Fn() -> F) -> Result<T, S3Error>
    where
        F: Future<Output = Result<T, S3Error>>,
    {
        let (began, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let why = match what().await {
                Err(S3Error::Unavailable(why)) => why,
                done => return done,
            };
            // Between half of it and all of it: so publishers that were refused together do not return together.
            let drawn = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            if began.elapsed() + drawn > self.patience.0 {
                return Err(S3Error::Unavailable(why));
            }
            self.meter.wait(why, drawn);
            sleep(drawn).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }
}
