//! Titles of a fleet.

use serde::{Deserialize, Serialize};

use crate::{Digest, OutOfBounds};

/// A published title: the version that nodes hold and viewers get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedTitle {
    /// Its path in a library, as [`catalog::TitlePath`] allows it.
    pub path: String,
    /// The version: the SHA-256 in the title's record (`catalog::Record`).
    pub version: Digest,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Playing time.
    pub duration_seconds: f64,
    /// Its record, identical to the origin's.
    pub record: TitleDocument,
    /// Its HLS multivariant playlist.
    pub hls: TitleDocument,
    /// Its DASH manifest.
    pub dash: TitleDocument,
    /// The URL of the library that has the title's folder, as an [`crate::OriginRoot`]: `file:///path/of/library`, `s3://bucket/prefix`,
    /// `https://host/path`.
    pub origin: String,
    /// When it was published, since 1970.
    pub published_unix_seconds: u64,
}

/// A small file that gateways and nodes store whole, by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleDocument {
    /// Path relative to the title's folder: `master.m3u8`.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// A complete, verified version of a title that a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeldTitle {
    /// The title's path.
    pub path: String,
    /// The version.
    pub version: Digest,
}

impl PublishedTitle {
    /// Its entry in the inventory of a node that holds it.
    pub fn held(&self) -> HeldTitle {
        HeldTitle { path: self.path.clone(), version: self.version }
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        check_path(&self.path)?;
        if !(self.duration_seconds.is_finite() && self.duration_seconds >= 0.0) {
            return Err(OutOfBounds("duration_seconds is not a length of time"));
        }
        let documents = [&self.record, &self.hls, &self.dash];
        documents.iter().try_for_each(|document| check_path(&document.path))
    }
}

/// Checks that `path` can be a title's.
pub(crate) fn check_path(path: &str) -> Result<(), OutOfBounds> {
    catalog::TitlePath::new(path)
        .map(|_| ())
        .map_err(|_| OutOfBounds("a path is not a title's: see fullbore library"))
}
