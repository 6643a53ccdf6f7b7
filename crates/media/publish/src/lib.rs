//! Uploads a title to an S3 bucket, for nodes to fill from and for caching edges to serve: either all of it becomes visible, or nothing.
//!
//! The order of uploads ensures this ([`catalog::object_key`] defines the names):
//!
//! 1. the files of the version, whose folder is named after their bytes;
//! 2. the record and the manifests under the version's own name, so that this version stays available whatever is published later;
//! 3. the manifests in the title's folder; they refer to files that are there already;
//! 4. the record in the title's folder. From now on the title is published.
//!
//! Wherever a publisher is interrupted, the next one continues: objects that are there with the right length and SHA-256 are not sent
//! again, and neither are parts of large objects that have arrived (`object`).
//!
//! Several publishers at once: objects of steps 1 and 2 are named by their content, so all write the same. Of two versions of one title,
//! one wins step 4, because the record is written only if it is still the one that was read before (`If-Match`, `If-None-Match`); the other
//! publisher reports that it lost. A store that ignores such conditions keeps the last record. Afterwards each publisher checks whether the
//! manifests in the title's folder belong to the current record, and corrects them until they do (`record`).
//!
//! Every block is verified by its SHA-256 before it is sent, so damaged titles are not published.
//!
//! Read first: [`publish()`].

mod error;
mod meter;
mod object;
mod record;
mod retry;
mod title;

pub use error::PublishError;
pub use meter::Progress;
pub use s3::S3Bucket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use catalog::{FileRecord, TitlePath};
use tokio::task::JoinSet;

use meter::Meter;
use retry::RetryTimeout;
use title::Whole;

/// Files sent at the same time. One connection to a distant store does not fill a link; a title has some ten files.
const FILES_AT_ONCE: usize = 4;

/// The source and the destination of a publication.
pub struct Publishing {
    /// The folder of the library that contains the title.
    pub library: PathBuf,
    /// The title.
    pub title: TitlePath,
    /// The bucket's folder for the library.
    pub to: S3Bucket,
    /// How long to keep trying while a store is away or asks to slow down.
    pub patience: Duration,
}

/// The result of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The SHA-256 that the title's record states of itself.
    pub version: String,
    /// Files of the title, its record included.
    pub objects: usize,
    /// Their size.
    pub bytes: u64,
    /// Bytes that were there before.
    pub kept_bytes: u64,
}

/// The state that all tasks share.
struct Work {
    title: TitlePath,
    whole: Whole,
    to: S3Bucket,
    patience: RetryTimeout,
    meter: Meter,
}

/// Publishes a title. Reports progress to `tell`, from several tasks.
///
/// # Errors
/// [`PublishError`]. Data that has arrived is kept for the next attempt, and is not visible.
pub async fn publish(
    publishing: Publishing,
    tell: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<Published, PublishError> {
    let Publishing { library, title, to, patience } = publishing;
    let whole = Whole::read(&library, &title)?;
    let meter = Meter::new(whole.bytes(), Box::new(tell));
    let work = Arc::new(Work { title, whole, to, patience: RetryTimeout(patience), meter });
    // First, because it shows whether the bucket can be used at all.
    let before = work.published().await?;
    work.send_files().await?;
    work.send_documents().await?;
    work.publish_record(before).await?;
    work.settle().await?;
    Ok(Published {
        version: work.whole.record.sha256.clone(),
        objects: work.whole.record.files.len() + 1,
        bytes: work.whole.bytes(),
        kept_bytes: work.meter.kept_bytes(),
    })
}

impl Work {
    /// Sends the files of the version.
    async fn send_files(self: &Arc<Self>) -> Result<(), PublishError> {
        let mut waiting: Vec<FileRecord> = self.whole.version_files().cloned().collect();
        // Largest first: a large file at the end would leave three tasks idle.
        waiting.sort_by_key(|file| file.bytes);
        let mut running = JoinSet::new();
        loop {
            while running.len() < FILES_AT_ONCE {
                let Some(file) = waiting.pop() else { break };
                let work = Arc::clone(self);
                running.spawn(async move { work.send(&file).await });
            }
            match running.join_next().await {
                None => return Ok(()),
                Some(ended) => ended.map_err(|error| PublishError::Broken(error.to_string()))??,
            }
        }
    }
}
