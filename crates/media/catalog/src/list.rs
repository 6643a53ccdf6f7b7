//! Lists the titles made by ingest, by their records.
//!
//! Entries without a record (plain files, titles from elsewhere) are skipped. The search does not enter titles. Folders that cannot be read
//! are reported, because they may contain titles.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::folders::LOST_AND_FOUND;
use crate::name::TitlePath;
use crate::record::{RECORD, Record, RecordError};
use crate::rule::is_manifest;
use crate::titles::DEPTH_MAX;

/// A title in a library.
#[derive(Debug)]
pub struct LibraryEntry {
    /// Its path in the library.
    pub title: TitlePath,
    /// Its folder.
    pub folder: PathBuf,
    /// Its record, or why that cannot be used.
    pub record: Result<Record, RecordError>,
}

/// The contents of a library, as far as it could be read.
#[derive(Debug)]
pub struct Listing {
    /// The titles with a record, sorted by their path.
    pub entries: Vec<LibraryEntry>,
    /// Folders that may contain more.
    pub unread: Vec<UnreadFolder>,
}

/// A folder that cannot be read. The message says what to do.
#[derive(Debug)]
pub struct UnreadFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The system's error.
    pub why: io::Error,
}

impl Display for UnreadFolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let advice = match self.why.kind() {
            ErrorKind::PermissionDenied => {
                "run this as a user who may read it, or let this user read it (chmod or setfacl)"
            }
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                "name another folder, or mount its disk"
            }
            _ => "check the disk that it is on",
        };
        let (folder, why) = (self.folder.display(), &self.why);
        write!(f, "cannot look into {folder}: {why} ({advice})")
    }
}

/// The titles with a record in the folder `library`, and the folders in it that cannot be read.
///
/// # Errors
/// If `library` itself cannot be listed.
pub fn list(library: &Path) -> io::Result<Listing> {
    let mut listing = Listing { entries: Vec::new(), unread: Vec::new() };
    search(library, "", DEPTH_MAX, &mut listing)?;
    listing.entries.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(listing)
}

/// The title at this path in the folder `library`, if there is one.
///
/// # Errors
/// If that cannot be determined.
pub fn find(library: &Path, title: &TitlePath) -> Result<Option<LibraryEntry>, UnreadFolder> {
    let folder = title.folder(library);
    let is_there = is_recorded(&folder).map_err(|why| UnreadFolder { folder, why })?;
    Ok(is_there.then(|| one(library, title.clone())))
}

/// Looks for titles in the folder `below` of the library, at most `depth_left` folders deep.
fn search(library: &Path, below: &str, depth_left: usize, found: &mut Listing) -> io::Result<()> {
    for entry in fs::read_dir(library.join(below))? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        // Hidden names and names that are not UTF-8 cannot be titles.
        let name = entry.file_name();
        let path = name.to_str().map(|name| format!("{below}{name}"));
        let Some(title) = path.and_then(|path| TitlePath::new(&path).ok()) else { continue };
        match look_at(library, &title, depth_left, found) {
            Ok(()) => {}
            // It has just been removed.
            Err(why) if is_absent(&why) => {}
            Err(_) if title.as_str().as_bytes() == LOST_AND_FOUND => {}
            Err(why) => found.unread.push(UnreadFolder { folder: title.folder(library), why }),
        }
    }
    Ok(())
}

/// Treats a folder as a title, or searches it for titles.
fn look_at(
    library: &Path,
    title: &TitlePath,
    depth_left: usize,
    found: &mut Listing,
) -> io::Result<()> {
    let folder = title.folder(library);
    if is_recorded(&folder)? {
        found.entries.push(one(library, title.clone()));
    } else if depth_left > 0 && !has_manifest(&folder)? {
        search(library, &format!("{title}/"), depth_left - 1, found)?;
    }
    Ok(())
}

/// Whether `folder` has a record, valid or not.
///
/// # Errors
/// If that cannot be determined.
pub(crate) fn is_recorded(folder: &Path) -> io::Result<bool> {
    let if_there = |looked: io::Result<fs::Metadata>| match looked {
        Err(why) if is_absent(&why) => Ok(None),
        looked => looked.map(Some),
    };
    let is_folder = if_there(fs::symlink_metadata(folder))?.is_some_and(|found| found.is_dir());
    Ok(is_folder
        && if_there(fs::metadata(folder.join(RECORD)))?.is_some_and(|found| found.is_file()))
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn has_manifest(folder: &Path) -> io::Result<bool> {
    let mut names = fs::read_dir(folder)?.flatten();
    Ok(names.any(|entry| is_manifest(entry.file_name().as_encoded_bytes())))
}

fn one(library: &Path, title: TitlePath) -> LibraryEntry {
    let folder = title.folder(library);
    let record = Record::read(&folder);
    LibraryEntry { title, folder, record }
}
