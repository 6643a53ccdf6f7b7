//! Compares a title with its record.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;

use crate::copies::MARK;
use crate::list::LibraryEntry;
use crate::record::{FileRecord, RECORD, Record, RecordError};
use crate::sha256::{self, Sums};

/// The most blocks to list in a fault's message; [`Fault::Content`] has all of them.
const BLOCKS_NAMED: usize = 8;

/// A fault of a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its record is damaged, so nothing else is known.
    Record {
        /// The damage.
        why: String,
    },
    /// A file is missing.
    Missing {
        /// Relative to the title's folder, like all paths here.
        path: String,
    },
    /// A file is longer or shorter than its record says.
    Length {
        /// The file.
        path: String,
        /// As recorded.
        expected_bytes: u64,
        /// As found.
        found_bytes: u64,
    },
    /// A file does not match its SHA-256.
    Content {
        /// The file.
        path: String,
        /// The blocks of [`BLOCK_BYTES`](crate::BLOCK_BYTES) that differ, counted from 0. Empty if the record has no block checksums.
        blocks: Vec<usize>,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        why: String,
    },
    /// A file in the title's folder is not part of the title.
    Extra {
        /// The file.
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

    /// The file concerned.
    pub fn path(&self) -> &str {
        match self {
            Self::Record { .. } => RECORD,
            Self::Missing { path }
            | Self::Length { path, .. }
            | Self::Content { path, .. }
            | Self::Unreadable { path, .. }
            | Self::Extra { path } => path,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path = self.path();
        match self {
            Self::Record { why } => write!(f, "{path} is damaged: {why}"),
            Self::Missing { .. } => write!(f, "{path} is missing"),
            Self::Length { expected_bytes, found_bytes, .. } => {
                write!(f, "{path} has {found_bytes} bytes instead of {expected_bytes}")
            }
            Self::Content { blocks, .. } => {
                write!(f, "{path} does not match its SHA-256{}", in_blocks(blocks))
            }
            Self::Unreadable { why, .. } => write!(f, "{path} cannot be read: {why}"),
            Self::Extra { .. } => write!(f, "{path} is not part of the title"),
        }
    }
}

fn in_blocks(blocks: &[usize]) -> String {
    let named: Vec<_> = blocks.iter().take(BLOCKS_NAMED).map(usize::to_string).collect();
    let named = named.join(", ");
    match blocks.len() {
        0 => String::new(),
        1 => format!(", in block {named} (blocks of 4 MiB, counted from 0)"),
        count if count <= BLOCKS_NAMED => {
            format!(", in blocks {named} (blocks of 4 MiB, counted from 0)")
        }
        count => {
            let others = count - BLOCKS_NAMED;
            format!(", in blocks {named} and {others} others (blocks of 4 MiB, counted from 0)")
        }
    }
}

/// Reads every file of a title and compares it with the title's record. Without a fault, the title is intact.
///
/// Replaced versions, which are kept for viewers who are still watching them, are not read.
pub fn verify(entry: &LibraryEntry) -> Vec<Fault> {
    match &entry.record {
        Ok(record) => {
            let mut faults: Vec<_> =
                record.files.iter().filter_map(|file| compare(&entry.folder, file).err()).collect();
            faults.extend(form_faults(&entry.folder, record));
            faults.extend(extra(&entry.folder, record));
            faults
        }
        Err(why) => vec![record_fault(why)],
    }
}

/// The fault of a record that cannot be used.
pub(crate) fn record_fault(why: &RecordError) -> Fault {
    match why {
        RecordError::Io(why) => Fault::Unreadable { path: RECORD.to_owned(), why: why.to_string() },
        RecordError::Broken(why) => Fault::Record { why: why.clone() },
    }
}

/// The checksums of a file in the title's folder, if they match its record.
pub(crate) fn compare(folder: &Path, file: &FileRecord) -> Result<Sums, Fault> {
    let path = file.path.clone();
    let place = folder.join(&path);
    let found_bytes = match fs::metadata(&place) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Fault::Missing { path });
        }
        Err(error) => return Err(Fault::Unreadable { path, why: error.to_string() }),
    };
    if found_bytes != file.bytes {
        return Err(Fault::Length { path, expected_bytes: file.bytes, found_bytes });
    }
    match sha256::of_file(&place) {
        Ok(sums) => match other_blocks(file, &sums) {
            blocks if sums.whole == file.sha256 && blocks.is_empty() => Ok(sums),
            blocks => Err(Fault::Content { path, blocks }),
        },
        Err(error) => Err(Fault::Unreadable { path, why: error.to_string() }),
    }
}

/// Faults of the manifests' compressed forms. They may be missing: viewers then get the manifests as they are.
pub(crate) fn form_faults(folder: &Path, record: &Record) -> Vec<Fault> {
    let faults = record.manifest_forms.iter().filter_map(|form| compare(folder, form).err());
    faults.filter(|fault| !matches!(fault, Fault::Missing { .. })).collect()
}

/// The blocks that do not match the record.
fn other_blocks(file: &FileRecord, sums: &Sums) -> Vec<usize> {
    let recorded = file.blocks_sha256.iter().flatten();
    let both = recorded.zip(&sums.blocks).enumerate();
    both.filter(|(_, (recorded, found))| recorded != found).map(|(index, _)| index).collect()
}

/// Files in the title's folder that are not part of the title.
pub(crate) fn extra(folder: &Path, record: &Record) -> Vec<Fault> {
    let files = record.files.iter().chain(&record.manifest_forms);
    let mut known: HashSet<_> = files.map(|file| file.path.as_str()).collect();
    known.extend([RECORD, MARK]);
    let replaced: Vec<_> = record.replaced.iter().map(|one| one.folder.as_str()).collect();
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    if let Err(error) = walk(folder, "", &replaced, &mut found) {
        faults.push(Fault::Unreadable { path: String::new(), why: error.to_string() });
    }
    found.sort();
    let extra = found.into_iter().filter(|path| !known.contains(path.as_str()));
    faults.extend(extra.map(|path| Fault::Extra { path }));
    faults
}

/// Every file below `folder`, as paths relative to it, without the top-level folders listed in `but`.
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
