//! Identifies a file, whatever its name.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// A file's number on its filesystem. The number may be reused once the file is removed and no process has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The filesystem's device number.
    pub device: u64,
    /// The inode number on that filesystem.
    pub inode: u64,
}

impl Inode {
    /// The inode that `fd` has open.
    ///
    /// # Errors
    /// The kernel's error.
    #[allow(clippy::unnecessary_cast, reason = "the fields' widths differ between architectures")]
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 })
    }
}
