//! One open file of the library, and whether it is still what it was.

use crate::error::{OpenError, ReadError};
use crate::heat::mix;
use crate::hold::Hold;
use crate::seen;
use crate::stamp::Stamp;
use reactor::Fd;
use reactor::residency::{View, cached_pages};
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// An open regular file.
pub struct File {
    fd: Fd,
    /// Times in it move on while the file is held still.
    stamp: Cell<Stamp>,
    size: u64,
    /// A second descriptor with `O_DIRECT`, made when first asked for; `None` where the filesystem refuses it.
    direct: OnceCell<Option<Fd>>,
    /// A read of it has failed.
    is_suspect: Cell<bool>,
    /// Made when first asked for; `None` where the kernel does not tell what is in the page cache.
    view: OnceCell<Option<View>>,
    hold: Hold,
}

impl File {
    /// Takes an open descriptor in, if it is a regular file.
    ///
    /// # Errors
    /// [`OpenError::NotFound`] for anything else than a regular file.
    pub fn new(fd: OwnedFd) -> Result<Self, OpenError> {
        Self::with_hold(fd.into(), Hold::new())
    }

    /// As [`Self::new`], held still if that can be had. Somebody has to give way to writers then: see [`crate::Files`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn held(fd: OwnedFd) -> Result<Self, OpenError> {
        let (fd, hold) = (Fd::from(fd), Hold::new());
        // First this, then the stamp: so no write can hide between the two.
        hold.take(&fd);
        Self::with_hold(fd, hold)
    }

    fn with_hold(fd: Fd, hold: Hold) -> Result<Self, OpenError> {
        let stat = rustix::fs::fstat(fd.borrowed())
            .map_err(|error| OpenError::from_errno(error.raw_os_error()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(OpenError::NotFound);
        }
        let stamp = Stamp::of(&stat);
        Ok(Self {
            fd,
            size: stamp.size,
            stamp: Cell::new(stamp),
            direct: OnceCell::new(),
            is_suspect: Cell::new(false),
            view: OnceCell::new(),
            hold,
        })
    }

    /// Which version of the file this is.
    pub fn stamp(&self) -> Stamp {
        self.stamp.get()
    }

    /// Bytes, as of the opening.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The descriptor for reads through the page cache.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Notes that the disk has failed under it. Viewers of its other parts go on; the next one opens it anew, which
    /// tells whether the filesystem is still there.
    pub(crate) fn suspect(&self) {
        self.is_suspect.set(true);
    }

    /// Whether [`Self::suspect`] was said of it.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    /// The descriptor for reads past the page cache, where the filesystem has them.
    pub(crate) fn direct(&self) -> Option<&Fd> {
        if self.direct.get().is_none() {
            match reopen_direct(&self.fd) {
                Ok(fd) => drop(self.direct.set(Some(fd))),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => drop(self.direct.set(None)),
                // For want of descriptors or memory: worth another try with the next window.
                Err(_) => return None,
            }
        }
        self.direct.get()?.as_ref()
    }

    /// Sees to it that nobody writes to the file from here on, until it is closed: takes a read lease. Says whether there
    /// is one. Then the kernel may be left to refer to the file's pages, as long as somebody looks now and then whether
    /// the file [is recalled](Self::is_recalled), and stops it in that case. To be asked before each use: that it is held
    /// does not say that nobody waits for its end.
    pub fn hold_still(&self) -> bool {
        if self.hold.take(&self.fd) && self.check_unchanged().is_err() {
            // It was written to between the opening and the lease.
            return false;
        }
        if self.hold.is_taken() {
            self.hold.lend();
        }
        self.hold.is_taken()
    }

    /// Whether it is held still.
    pub(crate) fn is_held(&self) -> bool {
        self.hold.is_taken()
    }

    /// Whether somebody had it open for writing, so that it could not be held still.
    pub(crate) fn is_open_for_writing(&self) -> bool {
        self.hold.is_refused_by_writer()
    }

    /// Whether somebody wants to write to a file that is held still, or was.
    pub fn is_recalled(&self) -> bool {
        self.hold.is_recalled(&self.fd)
    }

    /// Lets go of a file that somebody waits to write to, unless the kernel still refers to it. Says whether somebody
    /// waited.
    pub(crate) fn give_way(&self) -> bool {
        self.hold.give_way(&self.fd)
    }

    /// The first byte of `range` that is not in the page cache, with `range.end` for none. `None` where the kernel does
    /// not tell.
    pub fn first_missing(&self, range: Range<u64>) -> Option<u64> {
        if self.counted_whole(&range) == Some(true) && seen::was_seen(self.identity(), &range) {
            return Some(range.end);
        }
        let view = self.view.get_or_init(|| self.make_view()).as_ref()?;
        let missing = view.first_missing(range.clone()).ok()?;
        if missing.is_none() {
            self.note_seen(view, &range);
        }
        Some(missing.unwrap_or(range.end))
    }

    /// The disk is about to be asked to bring some of `range` into the page cache.
    pub(crate) fn asks_disk(&self, range: &Range<u64>) {
        seen::forget(self.identity(), range);
    }

    /// Whether all of `range` is in the page cache, or on its way there. No, where the kernel does not tell.
    pub(crate) fn is_there(&self, range: &Range<u64>) -> bool {
        // Before Linux 6.5 there is only the dearer way.
        self.counted_whole(range)
            .unwrap_or_else(|| self.first_missing(range.clone()) == Some(range.end))
    }

    /// Whether the page cache has as many pages as `range` is long, those included that are on their way. `None` where
    /// the kernel does not count.
    fn counted_whole(&self, range: &Range<u64>) -> Option<bool> {
        let page_bytes = rustix::param::page_size() as u64;
        let pages = range.end.div_ceil(page_bytes) - range.start / page_bytes;
        cached_pages(self.fd.borrowed(), range.clone()).ok().map(|cached| cached >= pages)
    }

    fn make_view(&self) -> Option<View> {
        // A view takes as much address space as the file is long. Where that is bounded (`ulimit -v`), films would use up what allocations
        // need, and an allocation that fails is the end.
        if getrlimit(Resource::As).current.is_some() {
            return None;
        }
        // The kernel is not to read ahead by itself: what is on its way is then what this process has asked for.
        let _ = rustix::fs::fadvise(self.fd.borrowed(), 0, None, Advice::Random);
        View::new(self.fd.borrowed(), self.size).ok()
    }

    /// Remembers that `range` is there, and with it the blocks at its ends, if the rest of them is there too.
    fn note_seen(&self, view: &View, range: &Range<u64>) {
        let blocks = seen::whole_blocks(range);
        let is_there = |edge: Range<u64>| matches!(view.first_missing(edge), Ok(None));
        if is_there(blocks.start..range.start) && is_there(range.end..blocks.end) {
            seen::note(self.identity(), range);
        }
    }

    /// One number for this version of this file.
    fn identity(&self) -> u64 {
        let Stamp { device, inode, modified_seconds, modified_nanoseconds, .. } = self.stamp.get();
        let written = mix(modified_seconds as u64 ^ u64::from(modified_nanoseconds) << 32);
        mix(mix(device) ^ inode ^ written)
    }

    /// Says whether the file is still the version that was opened: one system call, nothing read.
    ///
    /// # Errors
    /// What has happened to it since.
    pub fn check_unchanged(&self) -> Result<(), ReadError> {
        if self.hold.is_given_back() {
            return Err(ReadError::Recalled);
        }
        let stat = rustix::fs::fstat(self.fd.borrowed())
            .map_err(|error| ReadError::Io(error.raw_os_error()))?;
        let now = Stamp::of(&stat);
        if now == self.stamp.get() && stat.st_nlink > 0 {
            return Ok(());
        }
        self.judge(now, stat.st_nlink == 0)
    }

    /// Why a read came short: what has happened to the file says more than that.
    pub(crate) fn why_short(&self) -> ReadError {
        self.check_unchanged().err().unwrap_or(ReadError::Truncated)
    }

    /// What it means that the file's stamp is `now`.
    fn judge(&self, now: Stamp, is_removed: bool) -> Result<(), ReadError> {
        let known = self.stamp.get();
        if now.size < known.size {
            return Err(ReadError::Truncated);
        }
        // Taking its last name away moves the change time, too.
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

/// Opens the same inode again with `O_DIRECT`. The way through `/proc` names the inode rather than the path, so the two
/// descriptors cannot come to mean different files.
fn reopen_direct(fd: &Fd) -> Result<Fd, Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(Fd::from)
}
