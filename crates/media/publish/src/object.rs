//! Uploads one object. A small one is sent in one request, a large one in parts, and it is not visible before it is complete.
//!
//! A publisher that was interrupted in the middle of a large object leaves its parts behind. The next one finds them in the store's list of
//! unfinished uploads, and sends only the missing ones. Two that send the same object at once put the same parts into one upload, or each
//! makes its own; the first to finish is enough, and the other finds the object there.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{BLOCK_BYTES, FileRecord, object_key};
use s3::{OnlyIf, PARTS_MAX, PutTerms, S3Error, S3Part};
use tokio::task::spawn_blocking;

use crate::title::Document;
use crate::{PublishError, Work};

/// Length of a part: two blocks. S3 requires at least 5 MiB; an interruption costs at most four parts, one for each file in progress.
const PART_BYTES: u64 = 2 * BLOCK_BYTES;

/// How often to retry an upload that disappears because another publisher has finished or aborted the same one.
const TRIES: usize = 4;

/// Files of a version never change: a year is the longest time that caches accept.
const LASTING: &str = "public, max-age=31536000, immutable";

/// Why a file has not been sent.
enum Cut {
    /// The upload no longer exists.
    Ended,
    Failed(PublishError),
}

impl From<S3Error> for Cut {
    fn from(error: S3Error) -> Self {
        match error {
            S3Error::Absent(_) => Self::Ended,
            error => Self::Failed(error.into()),
        }
    }
}

impl Work {
    /// Sends a file of the version, unless it is already there.
    pub(crate) async fn send(self: &Arc<Self>, file: &FileRecord) -> Result<(), PublishError> {
        let key = object_key(&self.title, &file.path);
        for _ in 0..TRIES {
            if self.is_there(&key, file.bytes, &file.sha256).await? {
                self.meter.kept(file.bytes);
                return Ok(());
            }
            if file.bytes <= PART_BYTES {
                let bytes = self.piece(file, 0, file.bytes).await?;
                return self.put(&key, bytes, &lasting(file)).await;
            }
            match self.send_parts(&key, file).await {
                Ok(()) => return Ok(()),
                Err(Cut::Failed(error)) => return Err(error),
                Err(Cut::Ended) => {}
            }
        }
        Err(PublishError::Broken(format!(
            "{key}: other publishers keep ending its upload: wait until they have finished, and run the same command again"
        )))
    }

    /// Sends a document to `key`, unless it is already there. Returns whether it was sent.
    pub(crate) async fn send_document(
        &self,
        key: &str,
        document: &Document,
    ) -> Result<bool, PublishError> {
        let Document { path, bytes, sha256 } = document;
        if self.is_there(key, bytes.len() as u64, sha256).await? {
            return Ok(false);
        }
        let terms = document_terms(path, sha256);
        self.retry(|| self.to.put_with(key, bytes.clone(), &terms)).await?;
        Ok(true)
    }

    /// Whether the object is there with this length and SHA-256.
    pub(crate) async fn is_there(
        &self,
        key: &str,
        bytes: u64,
        sha256: &str,
    ) -> Result<bool, PublishError> {
        let there = self.retry(|| self.to.look(key)).await?;
        Ok(there
            .is_some_and(|there| there.bytes == bytes && there.sha256.as_deref() == Some(sha256)))
    }

    async fn put(&self, key: &str, bytes: Bytes, terms: &PutTerms) -> Result<(), PublishError> {
        let count = bytes.len() as u64;
        self.retry(|| self.to.put_with(key, bytes.clone(), terms)).await?;
        self.meter.sent(count);
        Ok(())
    }

    async fn send_parts(self: &Arc<Self>, key: &str, file: &FileRecord) -> Result<(), Cut> {
        let (upload, there) = self.upload(key, file).await?;
        let (mut parts, mut done_bytes, mut kept_bytes) = (Vec::new(), 0, 0);
        let sent = async {
            for (number, offset, count) in pieces(file.bytes) {
                let is_it = |part: &&S3Part| part.number == number && part.bytes == count;
                if let Some(part) = there.iter().find(is_it) {
                    parts.push(part.clone());
                    self.meter.kept(count);
                    kept_bytes += count;
                } else {
                    let bytes = self.piece(file, offset, count).await.map_err(Cut::Failed)?;
                    let put = || self.to.put_part(key, &upload, number, bytes.clone());
                    parts.push(self.retry(put).await?);
                    self.meter.sent(count);
                }
                done_bytes += count;
            }
            Ok(self.retry(|| self.to.finish_upload(key, &upload, &parts)).await?)
        };
        let sent: Result<(), Cut> = sent.await;
        if matches!(sent, Err(Cut::Ended)) {
            self.meter.take_back(done_bytes, kept_bytes);
        }
        sent
    }

    /// An upload of the object, with the parts that have arrived: the one that an earlier attempt left, or a new one.
    async fn upload(&self, key: &str, file: &FileRecord) -> Result<(String, Vec<S3Part>), Cut> {
        // If the store keeps no list, or denies access to it, all parts are sent again.
        let left = match self.retry(|| self.to.uploads(key)).await {
            Err(error @ S3Error::Unavailable(_)) => return Err(error.into()),
            left => left.unwrap_or_default(),
        };
        if let Some(newest) = left.last() {
            match self.retry(|| self.to.parts(key, newest)).await {
                Ok(parts) => return Ok((newest.clone(), parts)),
                Err(error @ S3Error::Unavailable(_)) => return Err(error.into()),
                Err(_) => {}
            }
        }
        let terms = lasting(file);
        Ok((self.retry(|| self.to.begin_upload(key, &terms)).await?, Vec::new()))
    }

    async fn piece(
        self: &Arc<Self>,
        file: &FileRecord,
        offset: u64,
        count: u64,
    ) -> Result<Bytes, PublishError> {
        let (work, file) = (Arc::clone(self), file.clone());
        let read = spawn_blocking(move || work.whole.piece(&file, offset, count as usize)).await;
        read.map_err(|error| PublishError::Broken(error.to_string()))?
    }
}

/// Number, offset and length of each part of an object. They depend only on its length, so that all publishers make the same parts.
fn pieces(bytes: u64) -> impl Iterator<Item = (u16, u64, u64)> {
    let least = bytes.div_ceil(PARTS_MAX.into()).next_multiple_of(BLOCK_BYTES);
    let part = least.max(PART_BYTES);
    (1..=PARTS_MAX)
        .map(move |number| (number, u64::from(number - 1) * part))
        .take_while(move |(_, offset)| *offset < bytes)
        .map(move |(number, offset)| (number, offset, part.min(bytes - offset)))
}

fn lasting(file: &FileRecord) -> PutTerms {
    PutTerms { cache_control: Some(LASTING), ..document_terms(&file.path, &file.sha256) }
}

/// How documents are written: caches must revalidate them, because each version replaces them.
pub(crate) fn document_terms(path: &str, sha256: &str) -> PutTerms {
    PutTerms {
        content_type: Some(fullbore_http::content_type(path.as_bytes())),
        cache_control: None,
        sha256: Some(sha256.to_owned()),
        only_if: OnlyIf::Always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_object_in_blocks_whatever_its_length() {
        for bytes in [1, PART_BYTES, PART_BYTES + 1, 5 << 30, 700 << 30, 5 << 40] {
            let all: Vec<_> = pieces(bytes).collect();
            assert!(all.len() <= usize::from(PARTS_MAX), "{bytes}");
            let mut end = 0;
            for (index, (number, offset, count)) in all.iter().enumerate() {
                assert_eq!((usize::from(*number), *offset), (index + 1, end), "{bytes}");
                assert!(offset % BLOCK_BYTES == 0 && *count > 0, "{bytes}");
                end = offset + count;
            }
            assert_eq!(end, bytes);
        }
    }
}
