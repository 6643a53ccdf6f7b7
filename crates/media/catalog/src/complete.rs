//! Adds data to a record that earlier versions of fullbore did not write: a SHA-256 for each block of each file.
//!
//! A file gets block checksums only if the whole file matches the SHA-256 in its record, so that damage is never certified. The record is
//! replaced by rename while the title is locked, so an interruption leaves either the old one or the new one. The title's files are only
//! read.

use std::path::Path;

use crate::error::{Attempt, CatalogError};
use crate::list::is_recorded;
use crate::name::TitlePath;
use crate::record::Record;
use crate::verify::{Fault, compare, extra, form_faults, record_fault};
use crate::workshop::Workshop;

/// The result of completing a title's record.
#[derive(Debug, PartialEq, Eq)]
pub struct Completed {
    /// The faults of the title, as found by [`verify`](crate::verify()). If one of its files is damaged, the record stays unchanged.
    pub faults: Vec<Fault>,
    /// Whether the record was replaced by a complete one.
    pub was_replaced: bool,
}

/// Verifies a title, and completes its record if data is missing.
///
/// # Errors
/// [`CatalogError`] if the title does not exist, another process is working on it, or its record cannot be replaced.
pub fn complete(library: &Path, title: &TitlePath) -> Result<Completed, CatalogError> {
    let folder = title.folder(library);
    if !is_recorded(&folder).attempt("look into", &folder)? {
        return Err(CatalogError::Unknown(folder));
    }
    let workshop = Workshop::lock(&title.above(library), title.name())?;
    // Read under the lock, because another process may have replaced the record since it was last read.
    let completed = match Record::read(&folder) {
        Ok(record) => complete_locked(&workshop, &folder, record),
        Err(why) => Ok(Completed { faults: vec![record_fault(&why)], was_replaced: false }),
    };
    workshop.leave();
    completed
}

fn complete_locked(
    workshop: &Workshop,
    folder: &Path,
    mut record: Record,
) -> Result<Completed, CatalogError> {
    let (mut faults, is_complete) = (Vec::new(), record.has_blocks());
    for file in &mut record.files {
        match compare(folder, file) {
            Ok(sums) => file.blocks_sha256 = Some(sums.blocks),
            Err(fault) => faults.push(fault),
        }
    }
    let was_replaced = !is_complete && faults.is_empty();
    if was_replaced {
        workshop.replace_record(folder, &mut record)?;
    }
    faults.extend(form_faults(folder, &record));
    faults.extend(extra(folder, &record));
    Ok(Completed { faults, was_replaced })
}
