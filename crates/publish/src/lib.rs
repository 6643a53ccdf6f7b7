//! Puts a title into a bucket of S3, for nodes to fill from and for caching edges to serve: all of it, or nothing that anybody sees.
//!
//! The order makes it so ([`catalog::object_key`] says where things are):
//!
//! 1. the files of the version, whose folder is named by their bytes;
//! 2. the record and the manifests under the version's own name, so that this version can be had whatever is published later;
//! 3. the manifests in the title's folder; they name what is there already;
//! 4. the record in the title's folder. From now on the title is published.
//!
//! Whatever ends a publisher, and wherever, the next one goes on: objects that are there with the right length and SHA-256 are not sent again, and
//! of large objects, parts that have arrived are not (`object`).
//!
//! Several at once: what they write in steps 1 and 2 is named by its content, so they write the same. Of two versions of one title, one wins step 4,
//! because the record is written only if it is still the one that was read before (`If-Match`, `If-None-Match`); the other publisher says that it
//! lost. A store that ignores such conditions keeps the record that came last. Afterwards each of them looks whether the manifests in the title's
//! folder are those of the record that is there, and mends them, until they are (`record`).
//!
//! Every block is compared with its SHA-256 before it is sent, so damaged titles are not published.
//!
//! Read first: [`publish()`].

mod error;
mod meter;
mod object;
mod patience;
mod record;
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
use patience::Patience;
use title::Whole;

/// Files sent at the same time. One connection to a far store fills no line; a title has some ten files.
const FILES_AT_ONCE: usize = 4;

/// What is to be published, and where.
pub struct Publishing {
    /// The folder of the library that the title is in.
    pub library: PathBuf,
    /// The title.
    pub title: TitlePath,
    /// The bucket's folder for the library.
    pub to: S3Bucket,
    /// How long a store may be away, or ask to slow down, before it is given up.
    pub patience: Duration,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The SHA-256 that the title's record states of itself.
    pub version: String,
    /// Files of the title, its record included.
    pub objects: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that were there already.
    pub kept_bytes: u64,
}

/// What all tasks share.
struct Work {
    title: TitlePath,
    whole: Whole,
    to: S3Bucket,
    patience: Patience,
    meter: Meter,
}

/// Publishes a title. What it does is told to `tell`, from several tasks.
///
/// # Errors
/// [`PublishError`]. What has arrived stays for the next attempt, and nobody sees it.
pub async fn publish(
    publishing: Publishing,
    tell: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<Published, PublishError> {
    let Publishing { library, title, to, patience } = publishing;
    let whole = Whole::read(&library, &title)?;
    let meter = Meter::new(whole.bytes(), Box::new(tell));
    let work = Arc::new(Work { title, whole, to, patience: Patience(patience), meter });
    // First, because it finds out whether anything can be written there at all.
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
        // The largest first: one that is left over keeps three others idle.
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
