//! Publishing and withdrawing titles.

use std::path::Path;

use catalog::{Record, TitleName, TitlePath};
use fleet_protocol::{Digest, OriginRoot, PublishedTitle, TitleDocument};

use super::Gateway;
use super::changes::By;
use crate::api::ApiError;
use store::forgetting::{claim, unused};
use store::records::{TitleRecord, WITHDRAWN_PUBLISHED_MAX, WithdrawnVersion};

/// A title that an operator publishes: its origin, and its three documents.
pub struct Publication {
    /// Its path in the library.
    pub path: TitlePath,
    /// The library that nodes copy it from: an [`OriginRoot`].
    pub origin: String,
    /// Nodes fetch it immediately, even outside their windows.
    pub at_once: bool,
    /// The series that it belongs to, unless its record names one.
    pub series: Option<String>,
    /// `title.json`, unchanged.
    pub record: Vec<u8>,
    /// The HLS playlist that the record names.
    pub hls: Vec<u8>,
    /// The DASH manifest that the record names.
    pub dash: Vec<u8>,
}

impl Publication {
    /// The body of the request to the operator's API.
    pub fn to_json(&self) -> serde_json::Value {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        serde_json::json!({
            "title": self.path.as_str(), "origin": self.origin, "now": self.at_once, "series": self.series, "record": STANDARD.encode(&self.record),
            "hls": STANDARD.encode(&self.hls), "dash": STANDARD.encode(&self.dash)
        })
    }

    /// Checks that the documents match each other.
    fn check(&self) -> Result<Record, ApiError> {
        let path = &self.path;
        let wrong = |why: String| ApiError::Wrong(format!("{path} cannot be published: {why}"));
        let record = Record::parse(&self.record)
            .map_err(|error| wrong(format!("its title.json cannot be used: {error}")))?;
        if !record.has_blocks() {
            return Err(wrong(format!(
                "its title.json has no sums of blocks, so nodes could not check what they copy: run \"fullbore library verify {path} --complete\""
            )));
        }
        for (file, bytes) in [(&record.hls, &self.hls), (&record.dash, &self.dash)] {
            let listed = record.files.iter().find(|listed| listed.path == *file);
            let is_same =
                listed.is_some_and(|listed| listed.sha256 == Digest::of(bytes).to_string());
            if !is_same {
                return Err(wrong(format!("{file} is not the one that its title.json names")));
            }
        }
        let origin: Result<OriginRoot, _> = self.origin.parse();
        origin.map_err(|why| wrong(format!("{:?} is not an origin: {why}", self.origin)))?;
        Ok(record)
    }
}

impl Gateway {
    /// Publishes a version of a title: viewers get it as soon as nodes hold it.
    ///
    /// # Errors
    /// If it is incomplete or withdrawn, or the store refuses the change.
    pub async fn publish(
        &self,
        publication: Publication,
        by: &By,
    ) -> Result<PublishedTitle, ApiError> {
        let record = publication.check()?;
        let path = publication.path.as_str().to_owned();
        let broken = |_| ApiError::Wrong("the record's own checksum is not a SHA-256".to_owned());
        let version: Digest = record.sha256.parse().map_err(broken)?;
        let (record_bytes, at_once) = (publication.record, publication.at_once);
        let series = publication.series.or_else(|| record.series.clone());
        if let Some(Err(why)) = series.as_deref().map(TitleName::new) {
            return Err(ApiError::Wrong(format!("its series has no name: {why}")));
        }
        let published = PublishedTitle {
            path: path.clone(),
            version,
            bytes: record.bytes(),
            duration_seconds: record.duration_seconds,
            record: document(catalog::RECORD, &record_bytes),
            hls: document(&record.hls, &publication.hls),
            dash: document(&record.dash, &publication.dash),
            origin: publication.origin,
            published_unix_seconds: self.now().unix_seconds(),
        };
        published.check().map_err(|why| ApiError::Wrong(why.to_string()))?;
        let now = published.published_unix_seconds;
        let documents = [&published.record, &published.hls, &published.dash];
        claim(self.engine(), &documents.map(|document| document.sha256), now).await?;
        // Documents are written first, so that every title in the store has its documents.
        for bytes in [record_bytes, publication.hls, publication.dash] {
            self.objects.put(bytes.into()).await?;
        }
        let title = self.change_with(by, &path, |before: Option<TitleRecord>| {
            let mut title = before.unwrap_or_default();
            if title.withdrawn.iter().any(|gone| gone.version == version) {
                return Err(ApiError::Conflict(format!(
                    "this version of {path} is withdrawn, and nodes remove it for good: ingest the title again with --again, and publish that"
                )));
            }
            if title.withdrawn.len() >= WITHDRAWN_PUBLISHED_MAX {
                return Err(ApiError::Conflict(format!(
                    "{WITHDRAWN_PUBLISHED_MAX} versions of {path} are withdrawn, and the store must remember each of them: publish this one under another path"
                )));
            }
            title.at_once = at_once;
            title.series.clone_from(&series);
            let before = title.published.replace(published.clone());
            Ok((title, unused(before.as_ref(), Some(&published), now)?))
        });
        title
            .await?
            .published
            .ok_or_else(|| ApiError::Broken("the store did not keep it".to_owned()))
    }

    /// Withdraws a title: nodes must stop serving the published version.
    ///
    /// # Errors
    /// If it is not published, or the store refuses the change.
    pub async fn withdraw(&self, path: &TitlePath, by: &By) -> Result<Digest, ApiError> {
        let now = self.now().unix_seconds();
        let title = self.change_with(by, path.as_str(), |before: Option<TitleRecord>| {
            let mut title = before.unwrap_or_default();
            let Some(published) = title.published.take() else {
                return Err(ApiError::NotFound(format!("{path} is not published")));
            };
            title
                .withdrawn
                .push(WithdrawnVersion { version: published.version, since_unix_seconds: now });
            Ok((title, unused(Some(&published), None, now)?))
        });
        let last = title.await?.withdrawn.last().map(|gone| gone.version);
        last.ok_or_else(|| ApiError::Broken("the store did not keep it".to_owned()))
    }
}

fn document(path: &str, bytes: &[u8]) -> TitleDocument {
    TitleDocument { path: path.to_owned(), sha256: Digest::of(bytes) }
}

/// Reads a title from a library's folder, and compares every file with its record.
///
/// # Errors
/// The fault.
pub fn read_title(library: &Path, path: &TitlePath, origin: String) -> Result<Publication, String> {
    let entry = catalog::find(library, path).map_err(|unread| unread.to_string())?;
    let entry = entry
        .ok_or_else(|| format!("{} holds no title {path} made by ingest", library.display()))?;
    let faults = catalog::verify(&entry);
    // Files that the record does not name are not published, so they do no harm.
    let fault = faults.iter().find(|fault| fault.kind() != "extra");
    if let Some(fault) = fault {
        return Err(format!("{path} is damaged: {fault}"));
    }
    let record = entry.record.map_err(|error| error.to_string())?;
    let file = |file: &str| {
        let place = entry.folder.join(file);
        let read = files::read(&place, crate::state_folder::DOCUMENT_BYTES_MAX);
        read.map(|bytes| bytes.to_vec()).map_err(|error| format!("{}: {error}", place.display()))
    };
    Ok(Publication {
        path: path.clone(),
        origin,
        at_once: false,
        series: None,
        record: file(catalog::RECORD)?,
        hls: file(&record.hls)?,
        dash: file(&record.dash)?,
    })
}
