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
//! io_uring has no `sendfile`, so a few threads per disk make the calls. Windows that viewers wait for come before those that are loaded ahead of
//! other viewers, which keep a share of the turns ([`Priority`]). A window that a viewer comes to wait for is raised, not loaded again.
//!
//! A hung read blocks its thread, and four of them block all of their disk's. So where no thread of a disk takes a load for a second,
//! the ring makes the loads that wait and those that come, until a thread is back ([`Threads`]). That is counted ([`Populator::stalled`]). If the
//! disk hangs as a whole, those wait in the ring, where the disk's shares of buffers and of the [budget](crate::Budget) bound them.

use crate::file::File;
use crate::sequential::Sequential;
use reactor::{CallError, Priority, Progress, Threads};
use rustix::fs::{Mode, OFlags};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Parts of files on one disk that are loaded at the same time. Each has about twice the kernel's read-ahead in flight, 256 KiB by default.
const THREADS_PER_DISK: usize = 4;

/// How long all threads of a disk may be in the same reads before the ring makes the loads that wait. A disk that answers none of four reads for this
/// long hangs, or is so slow that large folios save it nothing.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Bytes after which a thread notes that its disk gives some: 1 MiB/s with four threads is slow, and not a disk that hangs.
const STEP_BYTES: u64 = 256 << 10;

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
    /// Parts that were left to the ring, because none of the disk's threads returned.
    stalled: Rc<Cell<u64>>,
    stalled_after: Duration,
}

/// A part of a file that is about to be loaded.
#[derive(Debug)]
pub(crate) struct Population {
    threads: Rc<Threads>,
    sink: Arc<OwnedFd>,
    file: Sequential,
    range: Range<u64>,
    priority: Priority,
    uncached: Rc<RefCell<HashSet<u64>>>,
    stalled: Rc<Cell<u64>>,
}

impl Populator {
    /// Starts no thread yet.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn new() -> io::Result<Self> {
        let sink = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (disks, uncached, stalled) = Default::default();
        let stalled_after = STALLED_AFTER;
        Ok(Self { sink: Arc::new(sink), disks, uncached, stalled, stalled_after })
    }

    /// Prepares to load `range` of a file. `None` if the caller has to load it in another way: the disk rotates, so larger requests than the kernel's
    /// read-ahead pay, or threads or descriptors are short. Call it on a reactor.
    pub(crate) fn of(
        &self,
        file: &File,
        range: Range<u64>,
        priority: Priority,
    ) -> Option<Population> {
        if file.rotates() || self.uncached.borrow().contains(&file.stamp().device) {
            return None;
        }
        Some(Population {
            threads: self.threads(file.stamp().device)?,
            sink: Arc::clone(&self.sink),
            file: file.sequential()?,
            range,
            priority,
            uncached: Rc::clone(&self.uncached),
            stalled: Rc::clone(&self.stalled),
        })
    }

    /// Counts the parts that the ring had to load, because the disk answered none of its threads for a second.
    pub fn stalled(&self) -> u64 {
        self.stalled.get()
    }

    /// The threads of a disk, by its device number.
    pub(crate) fn threads(&self, disk: u64) -> Option<Rc<Threads>> {
        let mut disks = self.disks.borrow_mut();
        if let Some(threads) = disks.get(&disk) {
            return Some(Rc::clone(threads));
        }
        if disks.len() >= DISKS_MAX {
            return None;
        }
        // If no descriptor is left, the next part tries again.
        let threads =
            Rc::new(Threads::new("page-cache", THREADS_PER_DISK, self.stalled_after).ok()?);
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

    /// Whether a viewer waits for the part.
    pub(crate) fn priority(&self) -> &Priority {
        &self.priority
    }

    /// Loads the part of `of`, or as much of it as the disk gives. The caller checks afterwards what is there: a later read of a missing byte reports
    /// the error. Returns false if no thread could ask the disk.
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
        let Self { threads, sink, file, range, priority, stalled, .. } = self;
        let progress = threads.progress();
        let load = move || Some(read(&sink, file.open()?, range, &progress));
        let result = threads.run(&priority, load).await;
        if matches!(result, Err(CallError::Stalled)) {
            stalled.set(stalled.get() + 1);
        }
        result.ok().flatten()
    }
}

fn read(sink: &OwnedFd, file: &OwnedFd, range: Range<u64>, progress: &Progress) -> u64 {
    let mut offset = range.start;
    while offset < range.end {
        let bytes = (range.end - offset).min(STEP_BYTES) as usize;
        match rustix::fs::sendfile(sink.as_fd(), file.as_fd(), Some(&mut offset), bytes) {
            Ok(0) | Err(_) => break,
            Ok(_) => progress.note(),
        }
    }
    offset - range.start
}

/// For tests: loads wait for their threads, however slow the machine is.
#[cfg(test)]
pub(crate) fn patient() -> Populator {
    Populator { stalled_after: Duration::from_secs(3600), ..Populator::new().unwrap() }
}

/// For tests: gives every thread of `disk` a call that lasts until the returned senders are dropped. All have begun.
#[cfg(test)]
pub(crate) async fn hang(populator: &Populator, disk: u64) -> Vec<std::sync::mpsc::Sender<()>> {
    let threads = populator.threads(disk).unwrap();
    let mut releases = Vec::new();
    for _ in 0..THREADS_PER_DISK {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let threads = Rc::clone(&threads);
        reactor::spawn(async move {
            let call = move || {
                begin.send(()).unwrap();
                // It fails once the sender is gone.
                let _ = released.recv();
            };
            threads.run(&Priority::HIGH, call).await.unwrap();
        });
        reactor::yield_now().await;
        begun.recv().unwrap();
        releases.push(release);
    }
    releases
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Reactor, RingOptions};

    fn run(future: impl Future<Output = ()> + 'static) {
        Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
    }

    #[test]
    fn a_part_is_loaded_by_a_thread_which_opens_the_file_at_first() {
        run(async {
            let file = tempfile::tempfile().unwrap();
            file.set_len(100_000).unwrap();
            let file = File::new(file.into()).unwrap();
            let populator = patient();
            for range in [0..60_000, 60_000..100_000] {
                let bytes = range.end - range.start;
                let part = populator.of(&file, range, Priority::low()).unwrap();
                assert_eq!(part.run_alone().await, Some(bytes));
            }
            assert_eq!(populator.stalled(), 0);
        });
    }

    #[test]
    fn a_disk_that_hangs_leaves_the_threads_of_others_alone_and_its_own_parts_go_to_the_ring() {
        run(async {
            let file = tempfile::tempfile().unwrap();
            file.set_len(100_000).unwrap();
            let file = File::new(file.into()).unwrap();
            let stalled_after = Duration::from_millis(1);
            let populator = Populator { stalled_after, ..Populator::new().unwrap() };
            let disk = file.stamp().device;
            let releases = hang(&populator, disk).await;
            for priority in [Priority::HIGH, Priority::low()] {
                let part = populator.of(&file, 0..100_000, priority).unwrap();
                assert_eq!(part.run_alone().await, None);
            }
            assert_eq!(populator.stalled(), 2);
            let other = populator.threads(disk + 1).unwrap();
            assert_eq!(other.run(&Priority::low(), || 7).await.unwrap(), 7);
            drop(releases);
        });
    }
}
