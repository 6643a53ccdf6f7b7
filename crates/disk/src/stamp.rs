//! What tells one version of a file from another.
//!
//! The modification time alone does not: whoever writes may set it back afterwards (`rsync --inplace --times`, `touch -r`).
//! The change time (`ctime`) cannot be set, and moves with every write. It also moves with a new mode, owner, name or
//! link, which change no byte; what is done about that is in `hold`.
//!
//! What no time tells: stores through a shared mapping whose pages are already waiting to be written out.

use rustix::fs::Stat;

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The filesystem's device number.
    pub device: u64,
    /// The inode number on that filesystem.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Last modification, whole seconds since 1970.
    pub modified_seconds: i64,
    /// The rest of it, nanoseconds below a second.
    pub modified_nanoseconds: u32,
    /// Last change, of bytes or of what the filesystem keeps about them, whole seconds since 1970.
    pub changed_seconds: i64,
    /// The rest of it, nanoseconds below a second.
    pub changed_nanoseconds: u32,
}

impl Stamp {
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

    /// Whether only times tell it from `other`.
    pub(crate) fn differs_in_times_only(&self, other: &Self) -> bool {
        (self.device, self.inode, self.size) == (other.device, other.inode, other.size)
    }
}
