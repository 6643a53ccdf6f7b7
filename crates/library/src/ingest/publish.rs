//! Puts a title in its place: whole, or not at all.
//!
//! A new title is renamed into the library as one folder. A title that replaces another is put in beside it: its own folder first, then
//! each manifest over the old one by rename. Viewers of the old version keep using its files. These stay for [`GRACE_SECONDS`], and the
//! next ingest after that removes them. After an interruption between two of these steps, both manifests still name whole versions. The
//! next ingest then replaces the title, and counts what is left among the replaced versions.

use std::fs::{self, File};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use catalog::{MARK, RECORD, Record, ReplacedRecord, is_version, remove_version};

use super::error::{Attempt, IngestError};

/// How long files of a replaced version stay at least: longer than anybody watches a film, including pauses.
const GRACE_SECONDS: u64 = 24 * 60 * 60;

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
        record.replaced.drain(..).partition(|one| one.unix_seconds + GRACE_SECONDS > now());
    record.replaced = kept;
    write(&made.join(RECORD), record.seal().as_bytes())?;
    sync(&made.join(&record.folder))?;
    sync(made)?;
    match old {
        None => appear(made, title)?,
        Some(_) => replace(made, title, &record)?,
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

/// Nothing is put into a copy of another folder's title: it would be taken away with the copy.
pub(super) fn refuse_copy(title: &Path) -> Result<(), IngestError> {
    match fs::symlink_metadata(title.join(MARK)) {
        Ok(_) => Err(IngestError::Copy(title.to_path_buf())),
        Err(_) => Ok(()),
    }
}

/// Every version in `title`: those in its record, and others, which an interrupted ingest has left.
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

fn appear(made: &Path, title: &Path) -> Result<(), IngestError> {
    renameat_with(CWD, made, CWD, title, RenameFlags::NOREPLACE)
        .map_err(Into::into)
        .attempt("put in place", title)?;
    // The folder that contains the title: the library.
    title.parent().map_or(Ok(()), sync)
}

fn replace(made: &Path, title: &Path, record: &Record) -> Result<(), IngestError> {
    for name in [record.folder.as_str(), &record.hls, &record.dash, RECORD] {
        let place = title.join(name);
        fs::rename(made.join(name), &place).attempt("put in place", &place)?;
    }
    sync(title)
}

/// Writes a file so that it survives a power failure.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), IngestError> {
    fs::write(path, content).attempt("write", path)?;
    sync(path)
}

/// Waits until a file or folder is on the disk.
pub(super) fn sync(path: &Path) -> Result<(), IngestError> {
    File::open(path).and_then(|file| file.sync_all()).attempt("write to the disk", path)
}

/// Since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
