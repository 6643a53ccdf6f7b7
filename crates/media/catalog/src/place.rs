//! Puts a finished title in its place: entirely, or not at all.
//!
//! A new title is renamed into the library as one folder. A title that replaces another is added next to it: its version folder first, then
//! each manifest over the old one by rename, the record last. Viewers of the old version keep using its files. These stay for at least
//! [`REPLACED_KEPT_SECONDS`]. After an interruption between two of these steps, both manifests still refer to complete versions.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::{Attempt, CatalogError};
use crate::forms::put_manifest_forms;
use crate::record::{RECORD, Record};

/// How long files of a replaced version stay at least: longer than viewers take for a film, including pauses.
pub const REPLACED_KEPT_SECONDS: u64 = 24 * 60 * 60;

/// Renames the folder `made`, a complete title, to `title`, which must not exist yet.
///
/// # Errors
/// If it cannot be renamed, or `title` exists.
pub fn put_new(made: &Path, title: &Path) -> Result<(), CatalogError> {
    renameat_with(CWD, made, CWD, title, RenameFlags::NOREPLACE)
        .map_err(Into::into)
        .attempt("put in place", title)?;
    // The folder that contains the title: the library.
    title.parent().map_or(Ok(()), sync)
}

/// Moves the version's folder, the manifests and the record, which is `record`, from the folder `made` into the existing title `title`. A
/// version that the title already has, and `made` lacks, stays where it is.
///
/// # Errors
/// If one of them cannot be renamed.
pub fn put_over(made: &Path, title: &Path, record: &Record) -> Result<(), CatalogError> {
    let folder = record.folder.as_str();
    let has_folder = title.join(folder).is_dir() && !made.join(folder).exists();
    let put = |name: &str| {
        let place = title.join(name);
        fs::rename(made.join(name), &place).attempt("put in place", &place)
    };
    let names = [folder, &record.hls, &record.dash];
    names.into_iter().skip(usize::from(has_folder)).try_for_each(put)?;
    // The server uses a form only for the manifest that it was made from, so it doesn't matter which of them a viewer finds meanwhile.
    put_manifest_forms(made, title, record)?;
    put(RECORD)?;
    sync(title)
}

/// Waits until a file or folder is on the disk.
///
/// # Errors
/// If it cannot be written there.
pub fn sync(path: &Path) -> Result<(), CatalogError> {
    File::open(path).and_then(|file| file.sync_all()).attempt("write to the disk", path)
}
