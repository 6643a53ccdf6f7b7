//! Stamps, which distinguish one version of a file from another.
//!
//! The modification time is not enough: a writer may set it back afterwards (`rsync --inplace --times`, `touch -r`). The change time (`ctime`) cannot
//! be set, and changes with every write. It also changes with a new mode, owner, name or link, which change no byte; `hold` handles those.
//!
//! Neither time shows stores through a shared mapping whose pages already wait to be written out.

use rustix::fs::{CWD, FileType, Stat};
use std::io;
use std::path::Path;

/// Distinguishes one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The filesystem's device number.
    pub device: u64,
    /// The inode number on that filesystem.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, whole seconds since 1970.
    pub modified_seconds: i64,
    /// The nanoseconds below a second.
    pub modified_nanoseconds: u32,
    /// Last change of the bytes or of the inode (mode, owner, links), whole seconds since 1970.
    pub changed_seconds: i64,
    /// The nanoseconds below a second.
    pub changed_nanoseconds: u32,
}

impl Stamp {
    /// The stamp of the regular file at `path`. Does not follow a symbolic link.
    ///
    /// # Errors
    /// The kernel's error, or an error for anything except a regular file.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statat(CWD, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Self::of(&stat)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "the fields' widths differ between architectures")]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified_seconds: stat.st_mtime as i64,
            modified_nanoseconds: stat.st_mtime_nsec as u32,
            changed_seconds: stat.st_ctime as i64,
            changed_nanoseconds: stat.st_ctime_nsec as u32,
        }
    }

    /// Last modification, in seconds and nanoseconds.
    pub(crate) fn modified(&self) -> (i64, u32) {
        (self.modified_seconds, self.modified_nanoseconds)
    }

    /// Returns true if it differs from `other` in times only.
    pub(crate) fn differs_in_times_only(&self, other: &Self) -> bool {
        (self.device, self.inode, self.size) == (other.device, other.inode, other.size)
    }
}
