//! Loads parts of files into the page cache in large folios.
//!
//! A folio is a run of pages that the kernel handles as one. Only read-ahead for a sequential reader makes large ones: it begins with 4 KiB and
//! grows with each step (`page_cache_ra_order`, mm/readahead.c). `POSIX_FADV_WILLNEED`, and reads on a descriptor with `POSIX_FADV_RANDOM`, get
//! single pages. On an Intel Xeon (Sapphire Rapids) with Linux 6.18 and ext4, single pages cost 2.4 times the CPU time of large folios to send, and
//! 1.8 times to read (docs/notes/performance.md).
//!
//! So this reads what is worth memory as a sequential reader would: on a descriptor of its own, without advice, by `sendfile` into /dev/null, which
//! passes references to pages on and copies nothing. Loading 256 MiB took 5 ms of CPU time, and 59 with `WILLNEED`. In return the kernel may read
//! past the end of the part, by up to its read-ahead (`read_ahead_kb`). That does no harm to a film that is worth memory. Parts that are read for
//! one viewer only are not loaded here.
//!
//! io_uring has no `sendfile`, so a few threads per disk make the calls.

use crate::file::File;
use reactor::Threads;
use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Parts of files on one disk that are loaded at the same time. Each has about twice the kernel's read-ahead in flight, 256 KiB by default.
const THREADS_PER_DISK: usize = 4;

/// Disks that get threads. Files on more disks than this are loaded without large folios.
const DISKS_MAX: usize = 64;

/// Loads parts of files into the page cache. One per worker.
pub struct Populator {
    /// `/dev/null`.
    sink: Arc<OwnedFd>,
    /// By device number.
    disks: RefCell<HashMap<u64, Rc<Threads>>>,
    /// Devices whose filesystem does not use the page cache, such as ZFS.
    uncached: Rc<RefCell<HashSet<u64>>>,
}

/// A part of a file that is about to be loaded.
#[derive(Debug)]
pub(crate) struct Population {
    threads: Rc<Threads>,
    sink: Arc<OwnedFd>,
    file: Arc<OwnedFd>,
    range: Range<u64>,
    uncached: Rc<RefCell<HashSet<u64>>>,
}

impl Populator {
    /// Starts no thread yet.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn new() -> io::Result<Self> {
        let sink = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { sink: Arc::new(sink), disks: RefCell::default(), uncached: Rc::default() })
    }

    /// Prepares to load `range` of a file. `None` if the caller has to load it in another way: the disk rotates, so larger requests than the kernel's
    /// read-ahead pay, or threads or descriptors are short. Call it on a reactor.
    pub(crate) fn of(&self, file: &File, range: Range<u64>) -> Option<Population> {
        if file.rotates() || self.uncached.borrow().contains(&file.stamp().device) {
            return None;
        }
        let threads = self.threads(file.stamp().device)?;
        let (sink, file) = (Arc::clone(&self.sink), Arc::clone(file.sequential()?));
        Some(Population { threads, sink, file, range, uncached: Rc::clone(&self.uncached) })
    }

    fn threads(&self, disk: u64) -> Option<Rc<Threads>> {
        let mut disks = self.disks.borrow_mut();
        if let Some(threads) = disks.get(&disk) {
            return Some(Rc::clone(threads));
        }
        if disks.len() >= DISKS_MAX {
            return None;
        }
        // If no descriptor is left, the next part tries again.
        let threads = Rc::new(Threads::new("page-cache", THREADS_PER_DISK).ok()?);
        disks.insert(disk, Rc::clone(&threads));
        Some(threads)
    }
}

impl std::fmt::Debug for Populator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Populator").field("disks", &self.disks.borrow().len()).finish()
    }
}

impl Population {
    /// The part.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Loads the part of `of`, or as much of it as the disk gives. The caller checks afterwards what is there: a later read of a missing byte reports
    /// the error. Returns false if there is no thread to ask the disk.
    pub(crate) async fn run(self, of: &File) -> bool {
        let whole = self.range();
        let uncached = Rc::clone(&self.uncached);
        let Some(bytes) = self.run_alone().await else { return false };
        if bytes == whole.end - whole.start && of.has_no_page(&whole) {
            // From now on its files are loaded in another way, so that nothing is read twice.
            uncached.borrow_mut().insert(of.stamp().device);
        }
        true
    }

    /// As [`Self::run`], without a look at the page cache. Returns how many bytes the disk gave.
    pub(crate) async fn run_alone(self) -> Option<u64> {
        let Self { threads, sink, file, range, .. } = self;
        threads.run(move || read(&sink, &file, range)).await.ok()
    }
}

fn read(sink: &OwnedFd, file: &OwnedFd, range: Range<u64>) -> u64 {
    let mut offset = range.start;
    while offset < range.end {
        let bytes = (range.end - offset) as usize;
        match rustix::fs::sendfile(sink.as_fd(), file.as_fd(), Some(&mut offset), bytes) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    offset - range.start
}
