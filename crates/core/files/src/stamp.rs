//! Detects whether a file has changed since it was read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The metadata that distinguishes one state of a file from another.
#[derive(Debug)]
pub struct FileStamp {
    path: PathBuf,
    /// Inode, modification time in s and ns, size. `None`: stat failed.
    seen: Option<(u64, i64, i64, u64)>,
}

impl FileStamp {
    /// The current state of the file at `path`. Take it before reading the file, so that a change in between is noticed later, not missed.
    pub fn take(path: PathBuf) -> Self {
        let seen = Self::look(&path);
        Self { path, seen }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn look(path: &Path) -> Option<(u64, i64, i64, u64)> {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.mtime(), file.mtime_nsec(), file.size()))
    }

    /// Whether the file was replaced or written to since. A missing file does not count, because a replacement may be in progress.
    pub fn is_outdated(&self) -> bool {
        let now = Self::look(&self.path);
        now.is_some() && now != self.seen
    }
}
