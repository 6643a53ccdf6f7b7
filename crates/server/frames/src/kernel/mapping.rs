//! Memory mapped for as long as its owner lives.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapping.
pub(crate) struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; its owner decides who may touch which part of it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the memory that the kernel provides at `offset` of `fd`, shared with it and present from the start.
    pub(crate) fn of(fd: BorrowedFd<'_>, bytes: usize, offset: u64) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: i32, offset: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = offset as libc::off_t;
        // SAFETY: the kernel chooses a place where nothing else is mapped.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), bytes })
    }

    /// Its first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it is left.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
