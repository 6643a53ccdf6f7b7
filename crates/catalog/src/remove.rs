//! Removing titles that ingest has made, and former versions of them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Attempt, CatalogError};
use crate::list::is_recorded;
use crate::name::TitlePath;
use crate::record::Record;
use crate::rule::is_version;
use crate::workshop::Workshop;

/// Removes a title: out of sight at once, then from the disk. The server ends the connections of its viewers.
///
/// # Errors
/// [`CatalogError::Busy`] while it is ingested; [`CatalogError::Unknown`] if there is no title at this place that ingest has made.
pub fn remove(library: &Path, title: &TitlePath) -> Result<(), CatalogError> {
    let folder = own_folder(library, title)?;
    let workshop = Workshop::lock(&title.above(library), title.name())?;
    let out_of_sight = workshop.path().join("removed");
    if out_of_sight.exists() {
        fs::remove_dir_all(&out_of_sight).attempt("remove", &out_of_sight)?;
    }
    fs::rename(&folder, &out_of_sight).attempt("remove", &folder)?;
    workshop.remove()
}

/// Removes what a title was before it was replaced; returns how many versions that were. The server ends the connections of those who still
/// watch one.
///
/// # Errors
/// As [`remove`], and [`CatalogError::Damaged`].
pub fn remove_replaced(library: &Path, title: &TitlePath) -> Result<usize, CatalogError> {
    let folder = own_folder(library, title)?;
    let workshop = Workshop::lock(&title.above(library), title.name())?;
    let mut record = Record::read_for_change(&folder)?;
    let replaced = std::mem::take(&mut record.replaced);
    for one in &replaced {
        remove_version(&folder, &one.folder)?;
    }
    workshop.replace_record(&folder, &mut record)?;
    workshop.leave();
    Ok(replaced.len())
}

/// Removes the folder of a replaced version, if it has the name of one: what a record says is removed on its word.
///
/// # Errors
/// Those of the filesystem.
pub fn remove_version(title: &Path, folder: &str) -> Result<(), CatalogError> {
    if !is_version(folder.as_bytes()) {
        return Ok(());
    }
    let path = title.join(folder);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.attempt("remove", &path),
    }
}

fn own_folder(library: &Path, title: &TitlePath) -> Result<PathBuf, CatalogError> {
    let folder = title.folder(library);
    if is_recorded(&folder) { Ok(folder) } else { Err(CatalogError::Unknown(folder)) }
}
