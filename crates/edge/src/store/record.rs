//! An object's record: a line of JSON that says what it is, then a line for each block that was written: its number and its SHA-256.
//!
//! Lines are appended. One that a crash has torn is not believed, nor is anything after it. A line may say more than the disk kept: so the bytes
//! of a block are compared with its hash before they are announced again.

use crate::policy::Terms;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The SHA-256 of a block.
pub(super) type Hash = [u8; 32];

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) path: String,
    pub(super) size: u64,
    etag: String,
    content_type: Option<String>,
    modified: Option<u64>,
    cache_control: Option<String>,
    fresh_seconds: u64,
    stale_seconds: u64,
    /// When the origin said this.
    pub(super) said_unix_seconds: u64,
}

impl Header {
    pub(super) fn new(path: &str, size: u64, terms: &Terms) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Terms { etag, content_type, modified, cache_control, fresh, stale, .. } = terms.clone();
        Self {
            path: path.to_owned(),
            size,
            etag,
            content_type,
            modified,
            cache_control,
            fresh_seconds: fresh.as_secs(),
            stale_seconds: stale.as_secs(),
            said_unix_seconds: now.as_secs(),
        }
    }

    pub(super) fn terms(self) -> Terms {
        Terms {
            etag: self.etag,
            content_type: self.content_type,
            modified: self.modified,
            cache_control: self.cache_control,
            age: Duration::ZERO,
            fresh: Duration::from_secs(self.fresh_seconds),
            stale: Duration::from_secs(self.stale_seconds),
        }
    }
}

/// A new record without blocks.
pub(super) fn create(path: &Path, header: &Header) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create_new(true).mode(0o600).open(path)?;
    let mut line = serde_json::to_vec(header).map_err(io::Error::other)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(file)
}

/// An existing record, to append to.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    // Ends a line that a crash may have torn. An empty line is nothing.
    file.write_all(b"\n")?;
    Ok(file)
}

/// Notes that a block was written.
pub(super) fn append(mut record: &File, block: u64, hash: &Hash) -> io::Result<()> {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    // In one call, so that two records of the same object never mix within a line.
    record.write_all(format!("{block} {hex}\n").as_bytes())
}

/// What a record says, if it begins as one.
pub(super) fn read(path: &Path) -> Option<(Header, HashMap<u64, Hash>)> {
    let text = fs::read(path).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let header: Header = serde_json::from_slice(lines.next()?).ok()?;
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    let blocks = lines.filter_map(|line| {
        let (block, hex) = line.split_once(' ')?;
        Some((block.parse().ok()?, unhex(hex)?))
    });
    Some((header, blocks.collect()))
}

fn unhex(hex: &str) -> Option<Hash> {
    (hex.len() == 64 && hex.is_ascii()).then_some(())?;
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_nothing_and_those_after_it_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let terms = Terms {
            etag: "\"v1\"".into(),
            content_type: None,
            modified: None,
            cache_control: Some("max-age=5".into()),
            age: Duration::ZERO,
            fresh: Duration::from_secs(5),
            stale: Duration::from_secs(6),
        };
        let header = Header::new("/a", 7, &terms);
        let mut record = create(&path, &header).unwrap();
        append(&record, 3, &[0xab; 32]).unwrap();
        record.write_all(b"4 abab").unwrap();
        append(&open(&path).unwrap(), 5, &[0x01; 32]).unwrap();
        let (read_header, blocks) = read(&path).unwrap();
        assert_eq!(read_header, header);
        assert_eq!(read_header.terms(), terms);
        assert_eq!(blocks, HashMap::from([(3, [0xab; 32]), (5, [0x01; 32])]));
    }
}
