//! Writes a title's record and puts the title in its place (see `catalog::place`).
//!
//! The files of a replaced version stay for [`REPLACED_KEPT_SECONDS`], and the next ingest after that removes them. If putting the title in
//! its place was interrupted, the next ingest replaces it, and counts the remains among the replaced versions.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use catalog::{
    MARK, RECORD, REPLACED_KEPT_SECONDS, Record, ReplacedRecord, is_version, put_new, put_over,
    remove_version,
};

use super::error::{Attempt, IngestError};

/// Moves the contents of `made` (the version's folder and the manifests; the record is still to be written) to `title`.
pub(super) fn publish(
    made: &Path,
    title: &Path,
    mut record: Record,
) -> Result<Record, IngestError> {
    let old = old(title)?;
    if let Some(old) = &old {
        record.replaced = replaced(title, old)?;
    }
    let (kept, expired): (Vec<_>, Vec<_>) =
        record.replaced.drain(..).partition(|one| one.unix_seconds + REPLACED_KEPT_SECONDS > now());
    record.replaced = kept;
    write(&made.join(RECORD), record.seal().as_bytes())?;
    sync(&made.join(&record.folder))?;
    sync(made)?;
    match old {
        None => put_new(made, title)?,
        Some(_) => put_over(made, title, &record)?,
    }
    for one in expired {
        remove_version(title, &one.folder)?;
    }
    Ok(record)
}

/// The record of the existing title, if there is one.
fn old(title: &Path) -> Result<Option<Record>, IngestError> {
    if fs::symlink_metadata(title).is_err() {
        return Ok(None);
    }
    refuse_copy(title)?;
    Record::read(title).map(Some).map_err(|_| IngestError::Foreign(title.to_path_buf()))
}

/// Ingest refuses to put a title into a copy of another folder's title: it would be removed with the copy.
pub(super) fn refuse_copy(title: &Path) -> Result<(), IngestError> {
    match fs::symlink_metadata(title.join(MARK)) {
        Ok(_) => Err(IngestError::Copy(title.to_path_buf())),
        Err(_) => Ok(()),
    }
}

/// Every version in `title`: those in its record, and those that an interrupted ingest has left.
fn replaced(title: &Path, old: &Record) -> Result<Vec<ReplacedRecord>, IngestError> {
    let mut all = old.replaced.clone();
    for entry in fs::read_dir(title).attempt("list", title)? {
        let name = entry.attempt("list", title)?.file_name();
        let Some(folder) = name.to_str().filter(|name| is_version(name.as_bytes())) else {
            continue;
        };
        if all.iter().all(|known| known.folder != folder) {
            all.push(ReplacedRecord { folder: folder.to_owned(), unix_seconds: now() });
        }
    }
    Ok(all)
}

/// Writes a file so that it survives a power failure.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), IngestError> {
    fs::write(path, content).attempt("write", path)?;
    sync(path)
}

/// Waits until a file or folder is on the disk.
pub(super) fn sync(path: &Path) -> Result<(), IngestError> {
    Ok(catalog::sync(path)?)
}

/// The current time, in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
