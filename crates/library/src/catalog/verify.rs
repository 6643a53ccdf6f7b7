//! Comparing a title with its record.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;

use super::Entry;
use crate::hash;
use crate::record::{FileRecord, RECORD};

/// What is wrong with a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its record cannot be believed, so nothing else is known.
    Record {
        /// Why.
        why: String,
    },
    /// A file is not there.
    Missing {
        /// Relative to the title's folder, as in all of these.
        path: String,
    },
    /// A file is longer or shorter than it was.
    Length {
        /// Which.
        path: String,
        /// As recorded.
        expected_bytes: u64,
        /// As found.
        found_bytes: u64,
    },
    /// A file has other bytes than it had.
    Content {
        /// Which.
        path: String,
    },
    /// A file cannot be read.
    Unreadable {
        /// Which.
        path: String,
        /// What the system said.
        why: String,
    },
    /// A file is there that is none of the title's.
    Extra {
        /// Which.
        path: String,
    },
}

impl Fault {
    /// The kind as a word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Record { .. } => "record",
            Self::Missing { .. } => "missing",
            Self::Length { .. } => "length",
            Self::Content { .. } => "content",
            Self::Unreadable { .. } => "unreadable",
            Self::Extra { .. } => "extra",
        }
    }

    /// Which file it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Record { .. } => RECORD,
            Self::Missing { path }
            | Self::Length { path, .. }
            | Self::Content { path }
            | Self::Unreadable { path, .. }
            | Self::Extra { path } => path,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path = self.path();
        match self {
            Self::Record { why } => write!(f, "{path} cannot be believed: {why}"),
            Self::Missing { .. } => write!(f, "{path} is missing"),
            Self::Length { expected_bytes, found_bytes, .. } => {
                write!(f, "{path} has {found_bytes} bytes in place of {expected_bytes}")
            }
            Self::Content { .. } => write!(f, "{path} has other bytes than it had"),
            Self::Unreadable { why, .. } => write!(f, "{path} cannot be read: {why}"),
            Self::Extra { .. } => write!(f, "{path} is not part of the title"),
        }
    }
}

/// Reads every file of a title of the folder `library` and compares it with the title's record. No fault: it is whole.
///
/// Versions that were replaced and are kept for those who watch are not read.
pub fn verify(library: &Path, entry: &Entry) -> Vec<Fault> {
    let record = match &entry.record {
        Ok(record) => record,
        Err(why) => return vec![Fault::Record { why: why.clone() }],
    };
    let folder = library.join(entry.name.as_str());
    let mut faults: Vec<_> =
        record.files.iter().filter_map(|file| compare(&folder, file)).collect();
    let mut known: HashSet<_> = record.files.iter().map(|file| file.path.as_str()).collect();
    known.insert(RECORD);
    let replaced: Vec<_> = record.replaced.iter().map(|one| one.folder.as_str()).collect();
    let mut found = Vec::new();
    if let Err(error) = walk(&folder, "", &replaced, &mut found) {
        faults.push(Fault::Unreadable { path: String::new(), why: error.to_string() });
    }
    found.sort();
    let extra = found.into_iter().filter(|path| !known.contains(path.as_str()));
    faults.extend(extra.map(|path| Fault::Extra { path }));
    faults
}

fn compare(folder: &Path, file: &FileRecord) -> Option<Fault> {
    let path = file.path.clone();
    let place = folder.join(&path);
    let found_bytes = match fs::metadata(&place) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(Fault::Missing { path });
        }
        Err(error) => return Some(Fault::Unreadable { path, why: error.to_string() }),
    };
    if found_bytes != file.bytes {
        return Some(Fault::Length { path, expected_bytes: file.bytes, found_bytes });
    }
    match hash::of_file(&place) {
        Ok((_, sum)) if sum == file.sha256 => None,
        Ok(_) => Some(Fault::Content { path }),
        Err(error) => Some(Fault::Unreadable { path, why: error.to_string() }),
    }
}

/// Every file below `folder`, as paths below it; `but` are folders of its first level that are not entered.
fn walk(folder: &Path, below: &str, but: &[&str], found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{below}{}", name.to_string_lossy());
        if !entry.file_type()?.is_dir() {
            found.push(path);
        } else if !but.contains(&path.as_str()) {
            walk(&entry.path(), &format!("{path}/"), but, found)?;
        }
    }
    Ok(())
}
