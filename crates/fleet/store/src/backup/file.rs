//! A backup's file: lines of JSON. The first line is the header, each further one has an entry or an object, and the last one has the number of
//! lines and the SHA-256 of all bytes before it. So a truncated or modified file is rejected before anything is restored.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use fleet_protocol::Name;
use serde::{Deserialize, Serialize};

use crate::{OBJECT_BYTES_MAX, StoreError};

/// The version of this format.
pub(super) const VERSION: u32 = 1;

/// Longest line: the largest object in base64, plus room for the JSON around it.
const LINE_BYTES_MAX: u64 = (OBJECT_BYTES_MAX as u64 / 3 + 1) * 4 + 4096;

/// Why a backup was not made or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or written, or is not a complete backup. The text names it.
    #[error("{0}")]
    File(String),
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) fullbore_backup: u32,
    pub(super) fleet: Name,
    pub(super) epoch: u64,
    pub(super) made_unix_seconds: u64,
}

/// A further line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Entry { key: String, value: String },
    Object { bytes: String },
    End { lines: u64, sha256: String },
}

/// The content of a line.
pub(super) enum Item {
    Entry(String, Vec<u8>),
    Object(Vec<u8>),
}

/// Counts lines, and hashes their bytes.
struct Sum {
    context: Context,
    lines: u64,
}

impl Sum {
    fn new() -> Self {
        Self { context: Context::new(&SHA256), lines: 0 }
    }

    fn add(&mut self, line: &[u8]) {
        self.context.update(line);
        self.lines += 1;
    }

    fn end(&self) -> (u64, String) {
        let digest = self.context.clone().finish();
        (self.lines, HEXLOWER.encode(digest.as_ref()))
    }
}

/// Writes a backup.
pub(super) struct Writer {
    path: PathBuf,
    /// The file's temporary name until it is complete.
    part: PathBuf,
    out: BufWriter<File>,
    sum: Sum,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Self, BackupError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        check_place(path)?;
        // A leftover of a killed run may have any mode.
        if check_place(&part)? {
            fs::remove_file(&part).map_err(|error| unwritable(&part, &error))?;
        }
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&part).map_err(|error| unwritable(&part, &error))?;
        let (path, out) = (path.to_owned(), BufWriter::new(file));
        Ok(Self { path, part, out, sum: Sum::new() })
    }

    pub(super) fn head(&mut self, head: &Head) -> Result<(), BackupError> {
        self.line(head)
    }

    pub(super) fn entry(&mut self, key: &str, value: &[u8]) -> Result<(), BackupError> {
        self.line(&Line::Entry { key: key.to_owned(), value: STANDARD.encode(value) })
    }

    pub(super) fn object(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.line(&Line::Object { bytes: STANDARD.encode(bytes) })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), BackupError> {
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            self.sum.add(&bytes);
            self.out.write_all(&bytes)
        });
        written.map_err(|error| unwritable(&self.part, &error))
    }

    /// Completes the file, syncs it and renames it to its final name.
    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        let (lines, sha256) = self.sum.end();
        self.line(&Line::End { lines, sha256 })?;
        let finished = (|| {
            self.out.flush()?;
            self.out.get_ref().sync_all()?;
            fs::rename(&self.part, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        })();
        finished.map_err(|error: io::Error| unwritable(&self.path, &error))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After `finish` it is already gone.
        let _ = fs::remove_file(&self.part);
    }
}

/// Whether the file already exists. Anything but a regular file, such as /dev/null, is refused: the backup would replace it.
fn check_place(path: &Path) -> Result<bool, BackupError> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there.file_type(),
        // If even its metadata cannot be read, opening it reports why.
        Err(_) => return Ok(false),
    };
    if there.is_file() {
        return Ok(true);
    }
    let what = match there {
        there if there.is_dir() => "a folder",
        there if there.is_symlink() => "a symbolic link",
        there if there.is_fifo() => "a named pipe",
        there if there.is_socket() => "a socket",
        _ => "a device",
    };
    Err(BackupError::File(format!(
        "{} is {what}, and a backup is a regular file: name a new file, or an older backup to replace. There is no backup",
        path.display()
    )))
}

fn unwritable(path: &Path, error: &io::Error) -> BackupError {
    BackupError::File(format!("cannot write {}: {error}. There is no backup", path.display()))
}

/// Reads a backup and passes each item to `take`. The file was complete only if this returns `Ok`.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(Item) -> Result<(), BackupError>,
) -> Result<Head, BackupError> {
    let wrong = |why: &dyn Display| {
        BackupError::File(format!(
            "{} is not a whole backup: {why}. Nothing was restored",
            path.display()
        ))
    };
    let file = files::open(path)
        .map_err(|error| BackupError::File(format!("cannot read {}: {error}", path.display())))?;
    let (mut lines, mut sum) = (BufReader::new(file), Sum::new());
    let mut line = Vec::new();
    next_line(&mut lines, &mut line).map_err(|error| wrong(&error))?;
    let head: Head = serde_json::from_slice(&line).map_err(|error| wrong(&error))?;
    if head.fullbore_backup != VERSION {
        return Err(wrong(&format_args!(
            "it has version {}, this release reads version {VERSION}",
            head.fullbore_backup
        )));
    }
    loop {
        sum.add(&line);
        next_line(&mut lines, &mut line).map_err(|error| wrong(&error))?;
        if line.is_empty() {
            return Err(wrong(&"its end is missing"));
        }
        let decode = |text: String| STANDARD.decode(text).map_err(|error| wrong(&error));
        match serde_json::from_slice(&line).map_err(|error| wrong(&error))? {
            Line::Entry { key, value } => take(Item::Entry(key, decode(value)?))?,
            Line::Object { bytes } => take(Item::Object(decode(bytes)?))?,
            Line::End { lines: count, sha256 } => {
                next_line(&mut lines, &mut line).map_err(|error| wrong(&error))?;
                if sum.end() != (count, sha256) {
                    return Err(wrong(&"its bytes are not those that were written"));
                }
                return if line.is_empty() {
                    Ok(head)
                } else {
                    Err(wrong(&"it goes on after its end"))
                };
            }
        }
    }
}

/// Reads the next line, including its line end; empty at the end of the file.
fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    lines.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if line.len() as u64 == LINE_BYTES_MAX {
        return Err(io::Error::other("a line has no end"));
    }
    Ok(())
}
