//! Looking after the titles that ingest has made: listing, verifying and removing them, by the record that each has.
//!
//! What is in a library and has no record (plain files, titles that came otherwise) is left alone and not looked at.

mod verify;

pub use verify::{Fault, verify};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ingest::{Attempt, IngestError, Work, remove_version};
use crate::name::TitleName;
use crate::record::{RECORD, Record};

/// A title in a library.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: TitleName,
    /// What it consists of, or why that cannot be told.
    pub record: Result<Record, String>,
}

/// The titles with a record in the folder `library`, sorted by name.
///
/// # Errors
/// Those of listing `library`.
pub fn list(library: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(library)? {
        let entry = entry?;
        // What is no name of a title is none: what is hidden, what is not UTF-8.
        let name = entry.file_name().to_str().and_then(|name| TitleName::new(name).ok());
        if let Some(name) = name.filter(|_| is_title(&entry.path())) {
            entries.push(one(library, name));
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// One title of the folder `library`; `None` if there is none of this name.
pub fn find(library: &Path, name: &TitleName) -> Option<Entry> {
    is_title(&library.join(name.as_str())).then(|| one(library, name.clone()))
}

fn is_title(folder: &Path) -> bool {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
    is_folder && folder.join(RECORD).is_file()
}

fn one(library: &Path, name: TitleName) -> Entry {
    let record = Record::read(&library.join(name.as_str()));
    Entry { name, record: record.map_err(|error| error.to_string()) }
}

/// Removes a title: out of sight at once, then from the disk. Who watches it is cut off.
///
/// # Errors
/// [`IngestError::Busy`] while it is ingested; [`IngestError::Unknown`] if there is no title of this name that ingest has made.
pub fn remove(library: &Path, name: &TitleName) -> Result<(), IngestError> {
    let folder = own_folder(library, name)?;
    let work = Work::lock(library, name)?;
    let out_of_sight = work.path().join("removed");
    if out_of_sight.exists() {
        fs::remove_dir_all(&out_of_sight).attempt("remove", &out_of_sight)?;
    }
    fs::rename(&folder, &out_of_sight).attempt("remove", &folder)?;
    work.remove()
}

/// Removes what a title was before it was replaced; returns how many versions that were. Who still watches one is cut off.
///
/// # Errors
/// As [`remove`].
pub fn remove_replaced(library: &Path, name: &TitleName) -> Result<usize, IngestError> {
    let folder = own_folder(library, name)?;
    let work = Work::lock(library, name)?;
    let mut record = Record::read(&folder).map_err(|_| IngestError::Foreign(folder.clone()))?;
    let replaced = std::mem::take(&mut record.replaced);
    for one in &replaced {
        remove_version(&folder, &one.folder)?;
    }
    let written = work.path().join(RECORD);
    fs::write(&written, record.seal()).attempt("write", &written)?;
    let place = folder.join(RECORD);
    fs::rename(&written, &place).attempt("put in place", &place)?;
    work.leave();
    Ok(replaced.len())
}

fn own_folder(library: &Path, name: &TitleName) -> Result<PathBuf, IngestError> {
    let folder = library.join(name.as_str());
    if is_title(&folder) { Ok(folder) } else { Err(IngestError::Unknown(folder)) }
}
