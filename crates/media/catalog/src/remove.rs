//! Removes titles made by ingest, and their earlier versions.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Attempt, CatalogError};
use crate::list::is_recorded;
use crate::name::TitlePath;
use crate::place::sync;
use crate::record::Record;
use crate::rule::is_version;
use crate::workshop::Workshop;

/// Removes a title: first from view, then from the disk. The server closes its viewers' connections.
///
/// # Errors
/// [`CatalogError::Busy`] while the title is being ingested; [`CatalogError::Unknown`] if this is not a title made by ingest.
pub fn remove(library: &Path, title: &TitlePath) -> Result<(), CatalogError> {
    let folder = own_folder(library, title)?;
    let above = title.above(library);
    let workshop = Workshop::lock(&above, title.name())?;
    let out_of_sight = workshop.path().join("removed");
    if out_of_sight.exists() {
        fs::remove_dir_all(&out_of_sight).attempt("remove", &out_of_sight)?;
    }
    fs::rename(&folder, &out_of_sight).attempt("remove", &folder)?;
    // Otherwise, a power failure could bring it back without its files.
    sync(&above)?;
    workshop.remove()
}

/// Removes the earlier versions of a title, and returns how many there were. The server closes the connections of viewers who are still
/// watching one of them.
///
/// # Errors
/// As for [`remove`], and [`CatalogError::Damaged`].
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

/// Removes the folder of a replaced version. The name comes from a record, so it is checked: a folder whose name is not a version's stays.
///
/// # Errors
/// If the folder cannot be removed.
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
    match is_recorded(&folder).attempt("look into", &folder)? {
        true => Ok(folder),
        false => Err(CatalogError::Unknown(folder)),
    }
}
