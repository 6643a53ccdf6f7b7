//! Lists the titles that ingest has made, by their records.
//!
//! Whatever has no record (plain files, titles from elsewhere) is skipped. The search enters neither titles nor folders that cannot be
//! read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::name::TitlePath;
use crate::record::{RECORD, Record, RecordError};
use crate::rule::is_manifest;
use crate::titles::DEPTH_MAX;

/// A title in a library.
#[derive(Debug)]
pub struct Entry {
    /// Where it is in the library.
    pub title: TitlePath,
    /// Its folder.
    pub folder: PathBuf,
    /// What it consists of, or why the record cannot be used.
    pub record: Result<Record, RecordError>,
}

/// The titles with a record in the folder `library`, sorted by their path.
///
/// # Errors
/// If `library` cannot be listed.
pub fn list(library: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    search(library, "", DEPTH_MAX, &mut entries)?;
    entries.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(entries)
}

/// The title at this path in the folder `library`, if there is one.
pub fn find(library: &Path, title: &TitlePath) -> Option<Entry> {
    is_recorded(&title.folder(library)).then(|| one(library, title.clone()))
}

/// Looks for titles in the folder `below` of the library, at most `depth_left` folders deep.
fn search(
    library: &Path,
    below: &str,
    depth_left: usize,
    found: &mut Vec<Entry>,
) -> io::Result<()> {
    for entry in fs::read_dir(library.join(below))? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        // Hidden names and names that are not UTF-8 cannot be titles.
        let name = entry.file_name();
        let path = name.to_str().map(|name| format!("{below}{name}"));
        let Some(title) = path.and_then(|path| TitlePath::new(&path).ok()) else { continue };
        let folder = title.folder(library);
        if is_recorded(&folder) {
            found.push(one(library, title));
        } else if depth_left > 0 && !has_manifest(&folder) {
            // A folder that cannot be read holds none of our titles.
            let _ = search(library, &format!("{title}/"), depth_left - 1, found);
        }
    }
    Ok(())
}

/// Whether `folder` has a record, good or bad.
pub(crate) fn is_recorded(folder: &Path) -> bool {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
    is_folder && folder.join(RECORD).is_file()
}

fn has_manifest(folder: &Path) -> bool {
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.any(|entry| is_manifest(entry.file_name().as_encoded_bytes()))
}

fn one(library: &Path, title: TitlePath) -> Entry {
    let folder = title.folder(library);
    let record = Record::read(&folder);
    Entry { title, folder, record }
}
