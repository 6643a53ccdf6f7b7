//! Memory mapped for as long as its owner lives.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapping.
pub(crate) struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping is memory of the process, not of a thread; who may touch which part of it is its owner's business.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Memory of our own, zeroes, page-aligned.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// What the kernel offers at `offset` of `fd`, shared with it and present from the start.
    pub(crate) fn of(fd: BorrowedFd<'_>, bytes: usize, offset: u64) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: i32, offset: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = offset as libc::off_t;
        // SAFETY: the kernel chooses a place where nothing of ours lies.
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

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows it any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
