//! Errors of opening and reading files.

use std::fmt;

/// Why a path was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no such file, it lies outside the library, or it is not a regular file.
    NotFound,
    /// The file exists but may not be read.
    Denied,
    /// The file is one that the server never serves ([`crate::Files::withhold`]).
    Withheld,
    /// The process or the system is out of descriptors or memory: try again later.
    Exhausted,
    /// Too many opens in its folder have been waiting for the disk for too long.
    Hangs,
    /// Anything else, by `errno`.
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
            | libc::ENXIO => Self::NotFound,
            libc::EACCES | libc::EPERM => Self::Denied,
            libc::EMFILE | libc::ENFILE | libc::ENOMEM => Self::Exhausted,
            other => Self::Io(other),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file in the library"),
            Self::Denied => f.write_str("the file may not be read: check its permissions"),
            Self::Withheld => {
                f.write_str("the server never serves this file (a hard link to a key or a log?)")
            }
            Self::Exhausted => {
                f.write_str("out of descriptors or memory: raise the open-files limit")
            }
            Self::Hangs => f.write_str("its disk does not respond: check the disk"),
            Self::Io(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a read of an open file failed. Each of these ends the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The file is shorter than it was when it was opened.
    Truncated,
    /// The file was written to after it was opened.
    Changed,
    /// The file was removed, or another file took its name.
    Removed,
    /// A program wants to write to the file. The kernel makes it wait until the server stops using the file.
    Recalled,
    /// This part of a file that is still being fetched did not come. The number is the fetcher's reason: one byte, because each connection keeps room
    /// for such an error.
    NotBrought(u8),
    /// The disk or the filesystem failed, by `errno`.
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

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file was truncated while it was served"),
            Self::Changed => f.write_str("the file was written to while it was served"),
            Self::Removed => f.write_str("the file was removed or replaced while it was served"),
            Self::Recalled => f.write_str("the file was opened for writing while it was served"),
            Self::NotBrought(_) => {
                f.write_str("the rest of the file could not be fetched from the origin")
            }
            Self::Io(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for ReadError {}
