//! What of a file is in the page cache, without touching it (`cachestat`, Linux 6.5).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The call's number, the same on every architecture that has it.
pub const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of the kernel's interface.
#[repr(C)]
struct AskedRange {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat` of the kernel's interface, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of `range` are in the page cache. Unlike a read with `RWF_NOWAIT`, which makes the kernel read ahead
/// when it finds nothing, this leaves the cache as it is.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for files that this process neither owns nor may write, on newer kernels.
pub fn cached_pages(file: BorrowedFd<'_>, range: Range<u64>) -> io::Result<u64> {
    let asked = AskedRange { offset: range.start, bytes: range.end - range.start };
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, which keeps neither pointer.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const asked, &raw mut found, 0u32)
    };
    if result == 0 { Ok(found.cached) } else { Err(io::Error::last_os_error()) }
}
