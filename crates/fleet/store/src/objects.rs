//! Immutable small files, addressed by their SHA-256: titles' records, playlists and manifests.
//!
//! They are stored in a folder or in S3. A read checks the digest, so it returns the bytes that were written, or an error.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fleet_protocol::Digest;
use s3::{S3Bucket, S3Error};

use super::StoreError;

/// Largest object. Records of long films have a few hundred kB.
pub const OBJECT_BYTES_MAX: usize = 64 << 20;

/// Where objects are stored.
pub enum Objects {
    /// In a folder, `ab/abcd...`.
    Folder(PathBuf),
    /// In S3.
    Bucket(Box<S3Bucket>),
}

impl Objects {
    /// The objects at `place`: a folder, which is created if needed, or `s3://BUCKET[/PREFIX]` in the form that [`S3Bucket::open`] reads.
    ///
    /// # Errors
    /// If `place` is neither, or the folder cannot be created.
    pub fn open(place: &str) -> Result<Self, StoreError> {
        let not_usable = |error: &dyn std::fmt::Display| {
            StoreError::NotUsable(format!("cannot keep objects in {place}: {error}"))
        };
        if place.starts_with("s3://") {
            return S3Bucket::open(place)
                .map(|bucket| Self::Bucket(Box::new(bucket)))
                .map_err(|error| not_usable(&error));
        }
        if place.contains("://") {
            return Err(not_usable(&"it is neither a folder nor s3://BUCKET"));
        }
        let made = files::make_folders(Path::new(place), 0o700);
        made.map_err(|error| not_usable(&error))?;
        Ok(Self::Folder(PathBuf::from(place)))
    }

    /// Checks once whether objects can be read and written. A folder was already created when they were opened, so only a bucket is asked.
    ///
    /// # Errors
    /// If they cannot, with the remedy.
    pub async fn probe(&self) -> Result<(), String> {
        match self {
            Self::Bucket(bucket) => bucket.probe().await,
            Self::Folder(_) => Ok(()),
        }
    }

    /// Stores `bytes`. They are on disk, or in S3, when it returns.
    ///
    /// # Errors
    /// If they are too large, or cannot be written.
    pub async fn put(&self, bytes: Bytes) -> Result<Digest, StoreError> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(StoreError::TooLarge(format!(
                "{} bytes are more than an object may have ({OBJECT_BYTES_MAX})",
                bytes.len()
            )));
        }
        let digest = Digest::of(&bytes);
        match self {
            Self::Bucket(bucket) => {
                bucket.put(&name(&digest), bytes).await.map_err(|error| s3_error(&error))?;
            }
            Self::Folder(folder) => {
                let path = folder.join(name(&digest));
                blocking(move || {
                    write(&path, &bytes).map_err(|error| {
                        StoreError::Unavailable(format!("cannot write {}: {error}", path.display()))
                    })
                })
                .await?;
            }
        }
        Ok(digest)
    }

    /// Removes the object with this digest, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        match self {
            Self::Bucket(bucket) => match bucket.delete(&name(digest)).await {
                Err(S3Error::Absent(_)) => Ok(()),
                done => done.map_err(|error| s3_error(&error)),
            },
            Self::Folder(folder) => {
                let path = folder.join(name(digest));
                blocking(move || match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(StoreError::Unavailable(format!(
                            "cannot remove {}: {error}",
                            path.display()
                        )))
                    }
                    _ => Ok(()),
                })
                .await
            }
        }
    }

    /// The object with this digest.
    ///
    /// # Errors
    /// If it does not exist, cannot be read, or does not match its digest.
    pub async fn get(&self, digest: &Digest) -> Result<Bytes, StoreError> {
        let (bytes, place) = match self {
            Self::Bucket(bucket) => {
                let read = bucket.get(&name(digest), OBJECT_BYTES_MAX).await;
                (read.map_err(|error| s3_error(&error))?, format!("the object {digest} in S3"))
            }
            Self::Folder(folder) => {
                let path = folder.join(name(digest));
                let place = path.display().to_string();
                (blocking(move || read(&path)).await?, place)
            }
        };
        if Digest::of(&bytes) == *digest {
            return Ok(bytes);
        }
        Err(StoreError::Damaged(format!(
            "{place} is not what was written there: publish its title again, or restore a backup"
        )))
    }
}

/// Name of an object's file. Two hex digits give 256 folders.
fn name(digest: &Digest) -> String {
    let digest = digest.to_string();
    format!("{}/{digest}", &digest[..2])
}

fn s3_error(error: &S3Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}

fn read(path: &Path) -> Result<Bytes, StoreError> {
    let bytes_max = u32::try_from(OBJECT_BYTES_MAX).unwrap_or(u32::MAX);
    match files::read(path, bytes_max) {
        Ok(bytes) => Ok(Bytes::from(bytes.to_vec())),
        Err(error) => Err(StoreError::Unavailable(format!(
            "cannot read the object {}: {error}",
            path.display()
        ))),
    }
}

/// Makes the names of temporary files unique within this process.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes a file atomically.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    files::make_folders(folder, 0o700)?;
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!(".new-{}-{count}", std::process::id()));
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
