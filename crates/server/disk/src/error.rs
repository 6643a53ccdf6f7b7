//! Errors of opening and reading files.

use std::io;

/// Why a path was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such file, it lies outside the library, or it is not a regular file.
    #[error("no such file in the library")]
    NotFound,
    /// The file exists but may not be read.
    #[error("the file may not be read: check its permissions")]
    Denied,
    /// The file is one that the server never serves ([`crate::Files::withhold`]).
    #[error("the server never serves this file (a hard link to a key or a log?)")]
    Withheld,
    /// The process or the system is out of descriptors or memory: try again later.
    #[error("out of descriptors or memory: raise the open-files limit")]
    Exhausted,
    /// Too many opens in its folder have been waiting for the disk for too long.
    #[error("its disk does not respond: check the disk")]
    Hangs,
    /// Anything else, by `errno`.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Io(i32),
}

impl OpenError {
    pub(crate) fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ELOOP
            | libc::EXDEV
            | libc::ENAMETOOLONG
            | libc::EINVAL
            | libc::EISDIR
            | libc::EILSEQ // a name that this filesystem refuses, because it isn't UTF-8
            | libc::ENXIO => Self::NotFound,
            libc::EACCES | libc::EPERM => Self::Denied,
            libc::EMFILE | libc::ENFILE | libc::ENOMEM => Self::Exhausted,
            other => Self::Io(other),
        }
    }
}

/// Why a read of an open file failed. Each of these ends the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is shorter than it was when it was opened.
    #[error("the file was truncated while it was served")]
    Truncated,
    /// The file was written to after it was opened.
    #[error("the file was written to while it was served")]
    Changed,
    /// The file was removed, or another file took its name.
    #[error("the file was removed or replaced while it was served")]
    Removed,
    /// A program wants to write to the file. The kernel makes it wait until the server stops using the file.
    #[error("the file was opened for writing while it was served")]
    Recalled,
    /// This part of a file that is still being fetched did not come. The number is the fetcher's reason: one byte, because each connection keeps room
    /// for such an error.
    #[error("the rest of the file could not be fetched from the origin")]
    NotBrought(u8),
    /// The disk or the filesystem failed, by `errno`.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Io(i32),
}

impl ReadError {
    /// The label in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "file_truncated",
            Self::Changed => "file_changed",
            Self::Removed => "file_removed",
            Self::Recalled => "file_recalled",
            Self::NotBrought(_) => "file_not_brought",
            Self::Io(_) => "file_io",
        }
    }
}
