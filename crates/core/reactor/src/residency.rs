//! Reports which parts of a file are in the page cache, without touching them.
//!
//! There are two ways to ask. `cachestat` (Linux 6.5) counts pages, cheaply, and includes pages whose bytes are still being read from the disk.
//! `mincore` reports for each page whether its bytes are there, on every kernel; it needs a mapping to ask about, which [`View`] provides.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// Counts the pages of `range` that are in the page cache. Unlike a read with `RWF_NOWAIT`, which makes the kernel read ahead when it finds nothing,
/// this leaves the cache as it is.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for files that this process neither owns nor may write, on newer kernels.
pub fn cached_pages(file: BorrowedFd<'_>, range: Range<u64>) -> io::Result<u64> {
    /// Set if this kernel has no such call. One wasted call for each window would cost more than the others.
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if IS_MISSING.load(Relaxed) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let asked = AskedRange { offset: range.start, bytes: range.end - range.start };
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, which keeps neither pointer.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const asked, &raw mut found, 0u32)
    };
    if result == 0 {
        return Ok(found.cached);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOSYS) {
        IS_MISSING.store(true, Relaxed);
    }
    Err(error)
}

/// Pages asked about in one call.
const ASKED_PAGES_MAX: usize = 256;

/// Answers which parts of a file are in the page cache.
///
/// It is a mapping without access rights (`PROT_NONE`), so that a truncated file can do no harm: the mapping only names the file. It takes addresses
/// and one entry in the kernel's list of mappings, no memory.
#[derive(Debug)]
pub struct View {
    base: *mut libc::c_void,
    bytes: usize,
    page_bytes: usize,
}

impl View {
    /// Makes a view of the first `file_bytes` bytes of `file`.
    ///
    /// # Errors
    /// `EPERM` when the kernel does not report it to this process: for files that it neither owns nor may write (Linux 5.2), the kernel would claim
    /// that everything is cached. `ENOMEM` when there are too many mappings (`vm.max_map_count`).
    pub fn new(file: BorrowedFd<'_>, file_bytes: u64) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let whole =
            usize::try_from(file_bytes).ok().map(|bytes| bytes.next_multiple_of(page_bytes));
        // One page more: nothing can be cached past the end of the file, so a kernel that claims this page is cached claims it of every page.
        let bytes = whole
            .and_then(|whole| whole.checked_add(page_bytes))
            .ok_or(io::ErrorKind::FileTooLarge)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let view = Self { base, bytes, page_bytes };
        let mut beyond = [0];
        view.ask((bytes / page_bytes) - 1, &mut beyond)?;
        if beyond[0] & 1 == 1 { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { Ok(view) }
    }

    /// The first byte of `range` that is not in the page cache; `None` when all of it is. A range that leaves the file is cut at its end.
    ///
    /// # Errors
    /// `EAGAIN` when the kernel is short of memory for the answer.
    pub fn first_missing(&self, range: Range<u64>) -> io::Result<Option<u64>> {
        let end = range.end.min(self.bytes as u64 - self.page_bytes as u64);
        let last = usize::try_from(end).unwrap_or(self.bytes).div_ceil(self.page_bytes);
        let mut page = usize::try_from(range.start).unwrap_or(self.bytes) / self.page_bytes;
        let mut answers = [0; ASKED_PAGES_MAX];
        while page < last {
            let answers = &mut answers[..ASKED_PAGES_MAX.min(last - page)];
            self.ask(page, answers)?;
            // Only the lowest bit has a meaning.
            if let Some(at) = answers.iter().position(|answer| answer & 1 == 0) {
                return Ok(Some(range.start.max(((page + at) * self.page_bytes) as u64)));
            }
            page += answers.len();
        }
        Ok(None)
    }

    /// Asks about pages from `first` on, one byte for each.
    fn ask(&self, first: usize, answers: &mut [u8]) -> io::Result<()> {
        let bytes = answers.len() * self.page_bytes;
        debug_assert!(first * self.page_bytes + bytes <= self.bytes);
        let start = self.base.wrapping_byte_add(first * self.page_bytes);
        // SAFETY: the pages asked about lie in the mapping, and the kernel writes one byte of `answers` for each.
        let result = unsafe { libc::mincore(start, bytes, answers.as_mut_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points into it.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}
