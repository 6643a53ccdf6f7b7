//! Memory from the kernel, on the boundary of a large page.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a large page on x86-64, and on aarch64 with pages of 4 KiB. Where large pages have another size, the kernel gives none.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Mapped memory. Dropping it unmaps it.
pub(crate) struct Mapping {
    pub(crate) base: *mut u8,
    pub(crate) bytes: usize,
    /// The bytes at its start that should be in large pages.
    in_large_pages: usize,
    /// The whole mapping: `base` lies in it, on the first boundary of a large page.
    whole: (*mut u8, usize),
}

impl Mapping {
    /// New memory. `large_pages` asks the kernel for large pages.
    ///
    /// A disk writes a window into as many pieces as its memory consists of. With pages of 4 KiB there are a hundred, and the disk of a virtual
    /// machine delivered a quarter less than with large ones (docs/notes/buffers.md).
    pub(crate) fn anonymous(bytes: usize, large_pages: bool) -> io::Result<Self> {
        let mut mapping = Self::reserve(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        // Only whole large pages, so that the memory is no larger than its bytes.
        mapping.in_large_pages = if large_pages { bytes - bytes % LARGE_PAGE_BYTES } else { 0 };
        mapping.advise_on_large_pages(libc::MADV_HUGEPAGE);
        Ok(mapping)
    }

    /// Its start, and how many bytes of it should be in large pages.
    pub(crate) fn in_large_pages(&self) -> (*mut u8, usize) {
        (self.base, self.in_large_pages)
    }

    /// Asks for small pages from now on. Existing pages stay.
    pub(crate) fn use_no_large_pages(&self) {
        self.advise_on_large_pages(libc::MADV_NOHUGEPAGE);
    }

    fn advise_on_large_pages(&self, advice: libc::c_int) {
        if self.in_large_pages > 0 {
            // SAFETY: the mapping is ours, and this advice leaves its bytes as they are. A kernel that refuses has no large pages.
            unsafe { libc::madvise(self.base.cast(), self.in_large_pages, advice) };
        }
    }

    /// Gives these bytes, whole pages, back to the kernel. They are zero when they are used next.
    ///
    /// # Panics
    /// If they do not all lie in this mapping.
    ///
    /// # Safety
    /// These bytes are not in use, and no ring has them registered: it would go on with the old pages.
    pub(crate) unsafe fn give_back(&self, from: usize, bytes: usize) {
        assert!(from + bytes <= self.bytes);
        let start = self.base.wrapping_add(from);
        // SAFETY: the caller's promise, and they are in our anonymous mapping. A kernel that refuses leaves them as they are.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) };
    }

    /// The first `bytes` of a file, shared with all its users. If the file consists of reserved pages, `takes_all` claims all of them from their
    /// pool, and fails if there are too few. Otherwise touching a missing one would raise SIGBUS.
    pub(crate) fn of_file(file: BorrowedFd<'_>, bytes: usize, takes_all: bool) -> io::Result<Self> {
        let mapping = Self::reserve(bytes, libc::PROT_NONE)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let no_reserve = if takes_all { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_SHARED | no_reserve | libc::MAP_FIXED;
        let (base, fd) = (mapping.base.cast(), file.as_raw_fd());
        // SAFETY: it replaces a part of a mapping that is ours and not yet in use.
        if unsafe { libc::mmap(base, bytes, protection, flags, fd, 0) } == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    fn reserve(bytes: usize, protection: libc::c_int) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let length = bytes.next_multiple_of(LARGE_PAGE_BYTES) + LARGE_PAGE_BYTES;
        // SAFETY: a new anonymous mapping touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast::<u8>();
        let base = start.wrapping_add(start.align_offset(LARGE_PAGE_BYTES));
        Ok(Self { base, bytes, in_large_pages: 0, whole: (start, length) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, length) = self.whole;
        // SAFETY: the mapping is ours, and all users of its memory keep it alive.
        unsafe { libc::munmap(start.cast(), length) };
    }
}
