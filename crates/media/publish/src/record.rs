//! The last step: the record, and afterwards the manifests that belong to the current record.

use bytes::Bytes;
use catalog::{RECORD, Record, document_key, object_key};
use s3::{OnlyIf, PutTerms, S3Error};

use crate::object::document_terms;
use crate::title::{DOCUMENT_BYTES_MAX, Document};
use crate::{PublishError, Work};

/// How many times to check for other publishers' changes before leaving the correction to them.
const LOOKS_MAX: usize = 10;

/// The record in the title's folder at the store.
pub(crate) struct Present {
    record: Record,
    bytes: Bytes,
    /// Not all stores return one.
    tag: Option<String>,
}

impl Work {
    /// The currently published record.
    pub(crate) async fn published(&self) -> Result<Option<Present>, PublishError> {
        let key = object_key(&self.title, RECORD);
        let read = self.retry(|| self.to.get_tagged(&key, DOCUMENT_BYTES_MAX)).await?;
        let Some((bytes, tag)) = read else { return Ok(None) };
        match Record::parse(&bytes) {
            Ok(record) => Ok(Some(Present { record, bytes, tag })),
            Err(why) => Err(PublishError::Title(format!(
                "the store has a {key} that is not a title's record ({why}): remove it there, or publish elsewhere"
            ))),
        }
    }

    /// Sends the documents to this version's permanent names.
    pub(crate) async fn send_documents(&self) -> Result<(), PublishError> {
        for document in &self.whole.documents {
            let key = document_key(&self.whole.record.sha256, &document.path);
            self.send_document(&key, document).await?;
        }
        Ok(())
    }

    /// Writes the manifests and then the record to the title's folder, unless another record was written there since `before`.
    pub(crate) async fn publish_record(&self, before: Option<Present>) -> Result<(), PublishError> {
        let [hls, dash, record] = &self.whole.documents;
        let is_ours = |there: &Present| there.bytes == record.bytes;
        for document in [hls, dash] {
            let key = object_key(&self.title, &document.path);
            let bytes = document.bytes.len() as u64;
            match self.send_document(&key, document).await? {
                true => self.meter.sent(bytes),
                false => self.meter.kept(bytes),
            }
        }
        if before.as_ref().is_some_and(is_ours) {
            self.meter.kept(record.bytes.len() as u64);
            return Ok(());
        }
        let only_if = match before {
            None => OnlyIf::Absent,
            Some(Present { tag: Some(tag), .. }) => OnlyIf::Tag(tag),
            Some(_) => OnlyIf::Always,
        };
        let terms = PutTerms { only_if, ..document_terms(RECORD, &record.sha256) };
        let key = object_key(&self.title, RECORD);
        let put = self.retry(|| self.to.put_with(&key, record.bytes.clone(), &terms)).await;
        match put {
            // It may have been this publisher itself, if the answer to its request was lost.
            Err(S3Error::Changed(_)) => {
                if !self.published().await?.as_ref().is_some_and(is_ours) {
                    self.settle().await?;
                    return Err(PublishError::Overtaken(format!(
                        "another publisher has published another version of {} in the meantime: run the same command again to replace it",
                        self.title
                    )));
                }
            }
            done => done?,
        }
        self.meter.sent(record.bytes.len() as u64);
        Ok(())
    }

    /// Makes sure that the manifests in the title's folder belong to its record. Several publishers may have written them in any order;
    /// each checks again after every write, so the last one to write leaves a consistent set.
    pub(crate) async fn settle(&self) -> Result<(), PublishError> {
        for _ in 0..LOOKS_MAX {
            let Some(there) = self.published().await? else { return Ok(()) };
            let mut has_written = false;
            for path in [&there.record.hls, &there.record.dash] {
                has_written |= self.mend(&there.record, path).await?;
            }
            if !has_written {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes a manifest of `record` to the title's folder, if another one is there.
    async fn mend(&self, record: &Record, path: &str) -> Result<bool, PublishError> {
        let Some(file) = record.files.iter().find(|file| file.path == *path) else {
            return Ok(false);
        };
        let key = object_key(&self.title, path);
        if self.is_there(&key, file.bytes, &file.sha256).await? {
            return Ok(false);
        }
        let own = document_key(&record.sha256, path);
        let read = self.retry(|| self.to.get_tagged(&own, DOCUMENT_BYTES_MAX)).await?;
        // That version was put there by other means.
        let Some((bytes, _)) = read else { return Ok(false) };
        let (path, sha256) = (path.to_owned(), file.sha256.clone());
        self.send_document(&key, &Document { path, bytes, sha256 }).await
    }
}
