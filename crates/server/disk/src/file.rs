//! One open file of the library, with the checks that tell whether it has changed.

use crate::error::{OpenError, ReadError};
use crate::forms::Lacking;
use crate::heat::mix;
use crate::hold::Hold;
use crate::seen;
use crate::sequential::{self, Sequential};
use crate::sparse_file::SparseFile;
use crate::stamp::Stamp;
use reactor::residency::{View, cached_pages};
use reactor::{Fd, op};
use rustix::fs::{Advice, FileType};
use rustix::process::{Resource, getrlimit};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// An open regular file.
pub struct File {
    fd: Fd,
    /// The times in it are updated while the lease is held.
    stamp: Cell<Stamp>,
    size: u64,
    /// The folder of the library that it came from.
    folder: u16,
    /// Its path, if that is not ASCII.
    spelling: Option<Box<[u8]>>,
    /// A second descriptor with `O_DIRECT`, opened at first use; `None` where the filesystem refuses it.
    direct: OnceCell<Option<Fd>>,
    /// Another descriptor, on which the kernel may read ahead; opened at first use, by a thread that loads the file.
    sequential: Arc<OnceLock<OwnedFd>>,
    /// Set when a read of this file has failed.
    is_suspect: Cell<bool>,
    /// Set when the kernel was asked not to read ahead.
    is_read_as_asked: Cell<bool>,
    /// Made at first use; `None` where the kernel does not report what is in the page cache.
    view: OnceCell<Option<View>>,
    /// The bank of its worker that its bytes are read into; looked up at the first read.
    bank: OnceCell<usize>,
    /// A number that the server attaches to the file; looked up at its first response.
    note: OnceCell<u16>,
    /// Its compressed forms that are not there.
    lacking: Lacking,
    hold: Hold,
    /// Reports which parts have arrived, if the file is still being fetched.
    sparse: Option<SparseFile>,
    /// Set for a file on a rotating disk.
    rotates: bool,
}

impl File {
    /// Wraps an open descriptor, if it is a regular file.
    ///
    /// # Errors
    /// [`OpenError::NotFound`] for anything but a regular file.
    pub fn new(fd: OwnedFd) -> Result<Self, OpenError> {
        Self::with_hold(fd.into(), 0, Hold::new())
    }

    /// A file that is still being fetched. `version` replaces the times in its stamp, which change with each block that arrives: it is this file's
    /// number among all that were ever fetched.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn sparse(fd: OwnedFd, version: u64, sparse: SparseFile) -> Result<Self, OpenError> {
        let file = Self::new(fd)?;
        let (high, low) = ((version >> 32) as i64, version as u32);
        let stamp = Stamp {
            modified_seconds: high,
            modified_nanoseconds: low,
            // Long ago, so that the file counts as settled.
            changed_seconds: 0,
            changed_nanoseconds: 0,
            ..file.stamp()
        };
        Ok(Self { stamp: Cell::new(stamp), sparse: Some(sparse), ..file })
    }

    /// As [`Self::new`], for a file of the library's folder `folder`, and with a read lease if the kernel grants one. [`crate::Files`] then gives way
    /// to writers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn held(fd: OwnedFd, folder: u16) -> Result<Self, OpenError> {
        let (fd, hold) = (Fd::from(fd), Hold::new());
        // The lease first, then the stamp, so that no write can slip in between.
        hold.take(&fd);
        Self::with_hold(fd, folder, hold)
    }

    fn with_hold(fd: Fd, folder: u16, hold: Hold) -> Result<Self, OpenError> {
        let stat = rustix::fs::fstat(fd.borrowed())
            .map_err(|error| OpenError::from_errno(error.raw_os_error()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(OpenError::NotFound);
        }
        let stamp = Stamp::of(&stat);
        Ok(Self {
            fd,
            size: stamp.size,
            folder,
            spelling: None,
            stamp: Cell::new(stamp),
            direct: OnceCell::new(),
            sequential: Arc::default(),
            is_suspect: Cell::new(false),
            is_read_as_asked: Cell::new(false),
            view: OnceCell::new(),
            bank: OnceCell::new(),
            note: OnceCell::new(),
            lacking: Lacking::default(),
            hold,
            sparse: None,
            rotates: false,
        })
    }

    /// The version of the file.
    pub fn stamp(&self) -> Stamp {
        self.stamp.get()
    }

    /// Size in bytes when the file was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// True on a rotating disk: a seek takes as long as reading a megabyte or two, so reads are larger and go further ahead.
    pub fn rotates(&self) -> bool {
        self.rotates
    }

    /// Keeps the path that it was opened under, unless that is ASCII.
    pub(crate) fn spelled(self, path: &[u8]) -> Self {
        Self { spelling: (!path.is_ascii()).then(|| path.into()), ..self }
    }

    /// The path that it was opened under, if that is not ASCII. Its spelling on disk may differ from the request's.
    pub fn spelling(&self) -> Option<&[u8]> {
        self.spelling.as_deref()
    }

    /// Marks the file as rotating if its device is among the disks in `rotating`.
    pub(crate) fn on_one_of(self, rotating: &[u64]) -> Self {
        let rotates = rotating.contains(&self.stamp().device);
        Self { rotates, ..self }
    }

    /// The folder of the library that it came from: the folder's place in the configured order.
    pub fn folder(&self) -> u16 {
        self.folder
    }

    /// The bank of its worker that its bytes are read into. `of_disk` is called once, with the file's disk.
    pub(crate) fn bank(&self, of_disk: impl FnOnce(u64) -> usize) -> usize {
        *self.bank.get_or_init(|| of_disk(self.stamp().device))
    }

    /// The number that the server attaches to the file. `first` is called once.
    pub fn note(&self, first: impl FnOnce() -> u16) -> u16 {
        *self.note.get_or_init(first)
    }

    /// The forms that it was found to lack.
    pub(crate) fn lacking(&self) -> &Lacking {
        &self.lacking
    }

    /// The descriptor for reads through the page cache.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Records that the disk failed under this file. Viewers of other parts of it continue. The next viewer opens the file again, which shows whether
    /// the filesystem is still there.
    pub(crate) fn suspect(&self) {
        self.is_suspect.set(true);
    }

    /// Returns true once [`Self::suspect`] was called.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    /// The descriptor for direct reads, if the filesystem supports them.
    pub(crate) async fn direct(&self) -> Option<&Fd> {
        if self.direct.get().is_none() {
            // In a box, because every response would hold what only a file's first direct read needs.
            Box::pin(self.open_direct()).await;
        }
        self.direct.get()?.as_ref()
    }

    /// Opens it through the ring, because an open may wait for the disk or its server.
    async fn open_direct(&self) {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECT;
        let path = sequential::path_of(&self.fd);
        // The path is absolute, so the folder does not count. But the operation keeps `fd` open, so the path leads to this file.
        let (result, _opening) = op::open_at(&self.fd, path, flags, 0).await;
        let opened = op::opened(result).map_err(|error| error.raw_os_error());
        // If another window has opened one meanwhile, this one is closed.
        match opened {
            Ok(fd) => drop(self.direct.set(Some(fd.into()))),
            Err(Some(libc::EINVAL | libc::EOPNOTSUPP)) => drop(self.direct.set(None)),
            // Out of descriptors or memory: the next window tries again, unless another one has opened it meanwhile.
            Err(_) => {}
        }
    }

    /// A descriptor on which the kernel may read ahead, for a thread that loads the file into the page cache. `None` for a sparse file, or if no
    /// descriptor is left. This does not ask the disk.
    pub(crate) fn sequential(&self) -> Option<Sequential> {
        if self.sparse.is_some() {
            return None;
        }
        Sequential::new(&self.sequential, self.fd.borrowed()).ok()
    }

    /// Takes a read lease, so that no program can write to the file until it is closed. Returns whether there is a lease. With one, the kernel may be
    /// left to refer to the file's pages, as long as the caller regularly checks whether the lease [is recalled](Self::is_recalled), and stops the
    /// kernel if so. Call this before each use: the lease may already be recalled.
    pub fn hold_still(&self) -> bool {
        if self.sparse.is_some() {
            return true;
        }
        if self.hold.take(&self.fd) && self.check_unchanged().is_err() {
            // The file was written to between the open and the lease.
            return false;
        }
        if self.hold.is_taken() {
            self.hold.note_sending();
        }
        self.hold.is_taken()
    }

    /// Returns true while the lease is held.
    pub(crate) fn is_held(&self) -> bool {
        self.hold.is_taken()
    }

    /// Returns true if the lease was refused because a program had the file open for writing.
    pub(crate) fn is_open_for_writing(&self) -> bool {
        self.hold.is_refused_by_writer()
    }

    /// Returns true if a program wants to write to a file whose lease is or was held.
    pub fn is_recalled(&self) -> bool {
        self.hold.is_recalled(&self.fd)
    }

    /// Gives the lease back if a program waits to write, unless the kernel still refers to the file's pages. Returns whether a program waited.
    pub(crate) fn give_way(&self) -> bool {
        self.hold.give_way(&self.fd)
    }

    /// The first byte of `range` that is not in the page cache, or `range.end` if all of it is. `None` where the kernel
    /// does not report it.
    pub fn first_missing(&self, range: Range<u64>) -> Option<u64> {
        let counted = self.counted_whole(&range);
        if counted == Some(true) && seen::was_seen(self.identity(), &range) {
            return Some(range.end);
        }
        let view = self.view.get_or_init(|| self.make_view()).as_ref()?;
        let missing = view.first_missing(range.clone()).ok()?;
        // Where the kernel cannot count pages, the table of seen blocks is never used.
        if missing.is_none() && counted.is_some() {
            self.note_seen(view, &range);
        }
        Some(missing.unwrap_or(range.end))
    }

    /// Call this before requesting any of `range` from the disk.
    pub(crate) fn asks_disk(&self, range: &Range<u64>) {
        seen::forget(self.identity(), range);
    }

    /// Returns true if all of `range` is in the page cache or being read into it. False where the kernel does not report it.
    pub(crate) fn is_there(&self, range: &Range<u64>) -> bool {
        // Before Linux 6.5 only the more expensive check works.
        self.counted_whole(range)
            .unwrap_or_else(|| self.first_missing(range.clone()) == Some(range.end))
    }

    /// Returns true if all of `range` is in the page cache or being read into it. False where the kernel does not count pages (before Linux 6.5).
    pub(crate) fn has_all_pages(&self, range: &Range<u64>) -> bool {
        self.counted_whole(range) == Some(true)
    }

    /// Whether nothing of `range` is in the page cache. False where the kernel does not count (before Linux 6.5).
    pub(crate) fn has_no_page(&self, range: &Range<u64>) -> bool {
        matches!(cached_pages(self.fd.borrowed(), range.clone()), Ok(0))
    }

    /// Returns whether the page cache has as many pages as `range` needs, including pages being read. `None` where the kernel cannot count them.
    fn counted_whole(&self, range: &Range<u64>) -> Option<bool> {
        let page_bytes = rustix::param::page_size() as u64;
        let pages = range.end.div_ceil(page_bytes) - range.start / page_bytes;
        cached_pages(self.fd.borrowed(), range.clone()).ok().map(|cached| cached >= pages)
    }

    /// Asks the kernel not to read ahead when a read through this descriptor misses the page cache. The kernel still does when a read meets one of
    /// the marks that another program's read-ahead has left there ([`crate::Misses::is_far_from_a_hole`]).
    pub(crate) fn no_kernel_read_ahead(&self) {
        if !self.is_read_as_asked.replace(true) {
            // A filesystem that ignores the advice reads ahead.
            let _ = rustix::fs::fadvise(self.fd.borrowed(), 0, None, Advice::Random);
        }
    }

    fn make_view(&self) -> Option<View> {
        // A view takes as much address space as the file is long. Where address space is limited (`ulimit -v`), films would use up what allocations
        // need, and a failed allocation ends the program.
        if getrlimit(Resource::As).current.is_some() {
            return None;
        }
        // Without the kernel's read-ahead, only pages that this process requested are being read.
        self.no_kernel_read_ahead();
        View::new(self.fd.borrowed(), self.size).ok()
    }

    /// Remembers that `range` is cached, along with the blocks at its ends if the rest of each is cached too.
    fn note_seen(&self, view: &View, range: &Range<u64>) {
        let blocks = seen::whole_blocks(range);
        let is_there = |edge: Range<u64>| matches!(view.first_missing(edge), Ok(None));
        if is_there(blocks.start..range.start) && is_there(range.end..blocks.end) {
            seen::note(self.identity(), range);
        }
    }

    /// One number for this version of the file.
    fn identity(&self) -> u64 {
        let Stamp { device, inode, modified_seconds, modified_nanoseconds, .. } = self.stamp.get();
        let written = mix(modified_seconds as u64 ^ u64::from(modified_nanoseconds) << 32);
        mix(mix(device) ^ inode ^ written)
    }

    /// Returns true if blocks of the file arrive, or arrived, while it is open.
    pub(crate) fn is_arriving(&self) -> bool {
        self.sparse.is_some()
    }

    /// Returns true if all of `range` has arrived: always so for a file that is not being fetched.
    pub fn has_arrived(&self, range: &Range<u64>) -> bool {
        self.sparse.as_ref().is_none_or(|sparse| sparse.has(range))
    }

    /// Waits until all of `range` has arrived, if the file is being fetched. Also requests a limited part of what follows, up to `end`.
    ///
    /// # Errors
    /// [`ReadError::NotBrought`].
    pub async fn arrive(&self, range: &Range<u64>, end: u64) -> Result<(), ReadError> {
        match &self.sparse {
            Some(sparse) => sparse.wait(range, end).await,
            None => Ok(()),
        }
    }

    /// Checks whether the file is still the version that was opened. Costs one system call and reads nothing.
    ///
    /// # Errors
    /// The change that was found.
    pub fn check_unchanged(&self) -> Result<(), ReadError> {
        if self.hold.is_given_back() {
            return Err(ReadError::Recalled);
        }
        let stat = rustix::fs::fstat(self.fd.borrowed())
            .map_err(|error| ReadError::Io(error.raw_os_error()))?;
        let now = Stamp::of(&stat);
        if self.sparse.is_some() {
            // Neither its times nor its name matter: blocks arrive, and it may have been evicted under its viewers.
            return if now.size == self.size { Ok(()) } else { Err(ReadError::Truncated) };
        }
        if now == self.stamp.get() && stat.st_nlink > 0 {
            return Ok(());
        }
        self.judge(now, stat.st_nlink == 0)
    }

    /// As [`Self::is_recalled`], for the check before each of many windows: asks the kernel at most ten times a second. No program can have written
    /// in between.
    pub fn is_recalled_in_passing(&self) -> bool {
        self.hold.is_recalled_in_passing(&self.fd)
    }

    /// Why a read came short. If the file changed, that explains it better.
    pub(crate) fn why_short(&self) -> ReadError {
        self.check_unchanged().err().unwrap_or(ReadError::Truncated)
    }

    /// Decides what happened to a file whose stamp is now `now`.
    fn judge(&self, now: Stamp, is_removed: bool) -> Result<(), ReadError> {
        let known = self.stamp.get();
        if now.size < known.size {
            return Err(ReadError::Truncated);
        }
        // Removing the last name also changes the change time (`ctime`).
        if is_removed && now.modified() == known.modified() {
            return Err(ReadError::Removed);
        }
        if !now.differs_in_times_only(&known) || !self.hold.vouches_for_bytes(&self.fd) {
            return Err(ReadError::Changed);
        }
        self.stamp.set(now);
        if is_removed { Err(ReadError::Removed) } else { Ok(()) }
    }
}
