//! Reads a window of a file into memory, in the mode that suits it.

use crate::error::ReadError;
use crate::file::File;
use crate::heat::Heat;
use crate::hot::{BLOCK_BYTES, Hot, HotPart, LocalHotSet};
use crate::misses::Misses;
use crate::populate::Populator;
use crate::read_stats::{ReadStats, count};
use crate::window::{Window, fill, read_resident};
use reactor::{Buffer, Pool, Priority, op};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// `RWF_DONTCACHE` (Linux 6.14): read through the page cache, and drop the pages afterwards.
pub const RWF_DONTCACHE: i32 = 0x80;

/// The alignment of direct reads, in memory and in the file: no disk in use has larger logical blocks.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// How bytes are read from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the page cache, and kept there.
    Buffered,
    /// Through the page cache, but not kept there (`RWF_DONTCACHE`).
    Dontcache,
    /// Past the page cache (`O_DIRECT`).
    Direct,
}

/// How the read mode is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// Reads from the page cache what is in it. Heat decides the rest: `cached` if it was requested recently, so that the next viewer finds it, else
    /// `direct`.
    #[default]
    Auto,
    /// By heat alone: reads directly what was not requested recently, even if it is in the page cache.
    Heat,
    /// Always this mode, or the next best one that the filesystem supports, in the order `once`, `direct`, `cached`.
    Always(ReadMode),
}

/// Memory to read into: buffers, and the hot set in the same memory.
struct Bank {
    pool: Pool,
    hot_set: Option<Rc<LocalHotSet>>,
}

/// Reads windows of files. One per worker.
pub struct Reader {
    /// The worker's own bank, then those on other NUMA nodes, if any.
    banks: Vec<Bank>,
    /// Disks whose files use one of the other banks, by device number.
    banks_of_disks: Vec<(u64, usize)>,
    policy: Policy,
    heat: Heat,
    /// Devices whose filesystem refused `RWF_DONTCACHE`.
    no_once: RefCell<HashSet<u64>>,
    populator: Option<Rc<Populator>>,
    /// Bytes read, by mode.
    pub stats: ReadStats,
}

/// Bytes of a file, in memory that does not change: a buffer, or a pinned block of the hot set.
pub struct Plain {
    memory: Memory,
    range: Range<usize>,
    /// Bytes after `range` that were read too.
    behind: usize,
    from_disk: bool,
    from_elsewhere: bool,
}

enum Memory {
    Buffer(Rc<Buffer>),
    HotSet(HotPart),
}

impl Plain {
    /// Returns true if the read had to wait for the disk. If so, it is worth requesting what comes next.
    pub fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Returns true if the bytes came from the node of the file's disk: from the disk, or from a hot set on that node if it differs from the
    /// worker's. Otherwise they were in memory of this worker's node, or in the page cache, and the kernel does not report on which node a page lies.
    pub fn is_from_disks_node(&self) -> bool {
        self.from_disk || self.from_elsewhere
    }

    /// The buffer that holds it; none if it is in the hot set.
    pub fn buffer(&self) -> Option<&Rc<Buffer>> {
        match &self.memory {
            Memory::Buffer(buffer) => Some(buffer),
            Memory::HotSet(_) => None,
        }
    }

    /// Only the first `bytes`, if there are more. The rest is kept for [`Self::after`].
    pub fn limited(mut self, bytes: usize) -> Self {
        let others = self.len().saturating_sub(bytes);
        self.range.end -= others;
        self.behind += others;
        self
    }

    /// Without the first `bytes`, and with everything that [`Self::limited`] left out.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn after(mut self, bytes: usize) -> Self {
        assert!(bytes <= self.len());
        self.range.start += bytes;
        self.range.end += std::mem::take(&mut self.behind);
        self
    }
}

impl From<HotPart> for Plain {
    fn from(part: HotPart) -> Self {
        let (range, from_elsewhere) = (0..part.bytes().len(), part.is_elsewhere());
        Self { memory: Memory::HotSet(part), range, behind: 0, from_disk: false, from_elsewhere }
    }
}

impl Deref for Plain {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Buffer(buffer) => &buffer[self.range.clone()],
            Memory::HotSet(part) => &part.bytes()[self.range.clone()],
        }
    }
}

impl Reader {
    /// Reads into buffers of `pool`.
    pub fn new(pool: Pool, policy: Policy, heat: Heat) -> Self {
        let (banks_of_disks, no_once, stats) = Default::default();
        let banks = vec![Bank { pool, hot_set: None }];
        Self { banks, banks_of_disks, policy, heat, no_once, populator: None, stats }
    }

    /// Has `populator` bring what is worth memory into the page cache, in large folios.
    pub fn with_populator(mut self, populator: Option<Populator>) -> Self {
        self.populator = populator.map(Rc::new);
        self
    }

    /// As given to [`Self::with_populator`].
    pub fn populator(&self) -> Option<&Rc<Populator>> {
        self.populator.as_ref()
    }

    /// Reads from `hot_set` first, and counts requests there, so that it fills with popular parts of films.
    pub fn with_hot_set(mut self, hot_set: Option<Rc<LocalHotSet>>) -> Self {
        self.banks[0].hot_set = hot_set;
        self
    }

    /// Uses `pool` and `hot_set`, which are on the NUMA node of these disks, for files on them. Disks are given by device number (`st_dev`). Reads
    /// through the page cache are an exception: the kernel puts the cache on the worker's node, and so does the reader.
    ///
    /// # Panics
    /// If the buffers of `pool` have another size than the worker's.
    pub fn with_bank_at(
        mut self,
        disks: &[u64],
        pool: Pool,
        hot_set: Option<Rc<LocalHotSet>>,
    ) -> Self {
        assert_eq!(pool.buffer_bytes(), self.pool().buffer_bytes());
        self.banks_of_disks.extend(disks.iter().map(|disk| (*disk, self.banks.len())));
        self.banks.push(Bank { pool, hot_set });
        self
    }

    /// The bank for a file: that of its disk, or the worker's own.
    fn bank(&self, file: &File) -> &Bank {
        let of_disk = |disk: u64| self.banks_of_disks.iter().find(|(known, _)| *known == disk);
        &self.banks[file.bank(|disk| of_disk(disk).map_or(0, |(_, bank)| *bank))]
    }

    /// The worker's own hot set, if there is one.
    pub fn hot_set(&self) -> Option<&Rc<LocalHotSet>> {
        self.banks[0].hot_set.as_ref()
    }

    /// All hot sets: the worker's own, and those on other nodes.
    pub fn hot_sets(&self) -> impl Iterator<Item = &Rc<LocalHotSet>> {
        self.banks.iter().filter_map(|bank| bank.hot_set.as_ref())
    }

    /// As [`LocalHotSet::for_kernel`], for a part of `file`.
    ///
    /// # Panics
    /// If `part` is not from the hot set for `file`.
    pub fn for_kernel<'a>(
        &self,
        file: &File,
        part: &'a HotPart,
    ) -> Option<(&'a std::os::fd::OwnedFd, u64)> {
        self.bank(file).hot_set.as_ref()?.for_kernel(part)
    }

    /// Counts a request for `range` of a file, from which the hot set learns which parts are popular. A response counts for the blocks
    /// ([`crate::hot::BLOCK_BYTES`]) whose first byte it sends. So a viewer who plays through a film counts once for each, in whatever ranges.
    pub fn note_request(&self, file: &Rc<File>, range: &Range<u64>) {
        let Some(hot_set) = &self.bank(file).hot_set else { return };
        let first = range.start.next_multiple_of(BLOCK_BYTES);
        for start in (first..range.end).step_by(BLOCK_BYTES as usize) {
            hot_set.note_request(file, start);
        }
    }

    /// The beginning of `range`, if the hot set has it, up to the end of its block.
    ///
    /// # Errors
    /// If the file has changed since it was opened.
    pub fn hot_part(&self, file: &File, range: &Range<u64>) -> Result<Option<HotPart>, ReadError> {
        let Some(hot_set) = &self.bank(file).hot_set else { return Ok(None) };
        let Hot::Part(part) = hot_set.find(file, range) else { return Ok(None) };
        file.check_unchanged()?;
        Ok(Some(part))
    }

    /// Counts bytes taken from a [`HotPart`].
    pub fn count_hot(&self, bytes: usize) {
        count(&self.stats.hot_bytes, bytes);
    }

    /// Returns true if the hot set has the byte at `offset`.
    pub fn is_hot(&self, file: &File, offset: u64) -> bool {
        let hot_set = self.bank(file).hot_set.as_ref();
        hot_set.is_some_and(|set| matches!(set.find(file, &(offset..offset + 1)), Hot::Part(_)))
    }

    /// The longest window: a buffer, less the bytes that a direct read needs to begin and end on whole blocks.
    pub fn window_bytes_max(&self) -> usize {
        self.pool().buffer_bytes() - 2 * DIRECT_ALIGNMENT
    }

    /// The pool of read buffers on the worker's own node.
    pub fn pool(&self) -> &Pool {
        &self.banks[0].pool
    }

    /// All pools of read buffers.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> + Clone {
        self.banks.iter().map(|bank| &bank.pool)
    }

    /// Returns true if buffers of any pool [are scarce](Pool::is_scarce).
    pub fn is_scarce(&self) -> bool {
        self.pools().any(Pool::is_scarce)
    }

    /// Returns true if buffers [are scarce](Pool::is_scarce_for) for a read of `file` that waits for its disk, in any mode.
    pub fn is_scarce_for(&self, file: &File) -> bool {
        let disk = file.stamp().device;
        let is_scarce = |bank: &Bank| bank.pool.is_scarce_for(disk);
        let bank = self.bank(file);
        is_scarce(bank) || (!std::ptr::eq(bank, &self.banks[0]) && is_scarce(&self.banks[0]))
    }

    /// Returns true if most buffers for a read of `file` are free, so that holding some for a while does not make them scarce.
    pub fn has_plenty_for(&self, file: &File) -> bool {
        let pool = &self.bank(file).pool;
        pool.free() * 2 > pool.count()
    }

    /// Reads the whole of `range`, in the mode that suits it.
    ///
    /// # Errors
    /// If the file has changed since it was opened, or the disk fails. No byte is handed out then.
    ///
    /// # Panics
    /// If `range` is empty, longer than [`Self::window_bytes_max`], or ends beyond the file's end.
    pub async fn read(&self, file: &File, range: Range<u64>) -> Result<Plain, ReadError> {
        self.read_for(&RefCell::default(), file, range).await
    }

    /// As [`Self::read`], for the response with these `misses`: a part that it has missed before is not recorded again.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// As [`Self::read`].
    pub async fn read_for(
        &self,
        misses: &RefCell<Misses>,
        file: &File,
        range: Range<u64>,
    ) -> Result<Plain, ReadError> {
        if let Some(plain) = self.read_hot(file, &range).await? {
            return Ok(plain);
        }
        file.arrive(&range, range.end).await?;
        let mode = self.mode(file, &range, &mut misses.borrow_mut());
        self.read_by(file, range, Some(mode)).await
    }

    /// As [`Self::read`], but skips the hot set, because the caller has looked there already ([`Self::hot_part`]), and uses the mode chosen before
    /// ([`Self::mode`]), if one was.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// As [`Self::read`].
    pub async fn read_by(
        &self,
        file: &File,
        range: Range<u64>,
        mode: Option<ReadMode>,
    ) -> Result<Plain, ReadError> {
        self.bring(file, range, mode, &Priority::HIGH).await
    }

    /// As [`Self::read_by`], for a window that is not due yet, so its buffer will be held for a while. Raise `priority` once it is due.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// As [`Self::read`].
    pub async fn read_ahead(
        &self,
        file: &File,
        range: Range<u64>,
        mode: Option<ReadMode>,
        priority: &Priority,
    ) -> Result<Plain, ReadError> {
        self.bring(file, range, mode, priority).await
    }

    async fn bring(
        &self,
        file: &File,
        range: Range<u64>,
        mode: Option<ReadMode>,
        priority: &Priority,
    ) -> Result<Plain, ReadError> {
        assert!(!range.is_empty() && range.end <= file.size());
        assert!((range.end - range.start) as usize <= self.window_bytes_max());
        file.arrive(&range, range.end).await?;
        let mode = mode.unwrap_or_else(|| self.mode(file, &range, &mut Misses::default()));
        if mode == ReadMode::Buffered && !matches!(self.policy, Policy::Always(_)) {
            // The kernel would read more than is worth memory, and the next windows would look cached.
            file.no_kernel_read_ahead();
        }
        let (buffer, resident) = self.begin(file, mode, &range, !priority.is_high()).await;
        let bytes = (range.end - range.start) as usize;
        let mut window = Window::new(buffer, bytes, priority.clone());
        let from_disk = resident < bytes;
        if from_disk {
            let read = self.read_from_disk(file, mode, window, range.start, resident).await;
            window = read.map_err(|error| match error {
                ReadError::Truncated => file.why_short(),
                error => {
                    file.suspect();
                    error
                }
            })?;
        } else {
            count(&self.stats.resident_bytes, window.len());
        }
        file.check_unchanged()?;
        let range = window.range();
        let buffer = window.buffer;
        let memory = Memory::Buffer(Rc::new(buffer));
        Ok(Plain { memory, range, behind: 0, from_disk, from_elsewhere: false })
    }

    /// All of `range`, if the hot set has it. A range that spans blocks is copied together in a buffer.
    async fn read_hot(&self, file: &File, range: &Range<u64>) -> Result<Option<Plain>, ReadError> {
        let Some(hot_set) = &self.bank(file).hot_set else { return Ok(None) };
        let bytes = (range.end - range.start) as usize;
        let Hot::Part(first) = hot_set.find(file, range) else { return Ok(None) };
        let plain = if first.bytes().len() == bytes {
            Plain::from(first)
        } else if self.is_hot(file, range.end - 1) {
            let from_elsewhere = first.is_elsewhere();
            let mut buffer = self.pool().take().await;
            let mut done = 0;
            while done < bytes {
                let rest = range.start + done as u64..range.end;
                let Hot::Part(part) = hot_set.find(file, &rest) else { return Ok(None) };
                buffer[done..done + part.bytes().len()].copy_from_slice(part.bytes());
                done += part.bytes().len();
            }
            let memory = Memory::Buffer(Rc::new(buffer));
            Plain { memory, range: 0..bytes, behind: 0, from_disk: false, from_elsewhere }
        } else {
            return Ok(None);
        };
        file.check_unchanged()?;
        self.count_hot(bytes);
        Ok(Some(plain))
    }

    /// A buffer, and how many bytes of the window it already holds, copied from the page cache. A read that has to wait for the disk takes none of
    /// the buffers reserved for reads that do not wait. Otherwise viewers of a slow disk would stop the viewers of what is in memory.
    async fn begin(
        &self,
        file: &File,
        mode: ReadMode,
        range: &Range<u64>,
        ahead: bool,
    ) -> (Buffer, usize) {
        let (start, bytes) = (range.start, (range.end - range.start) as usize);
        if mode == ReadMode::Buffered && !ahead {
            let mut buffer = self.pool().take().await;
            let resident = read_resident(file, &mut buffer[..bytes], start);
            if resident == bytes || self.pool().may_hold(&mut buffer, file.stamp().device) {
                return (buffer, resident);
            }
        }
        // The kernel puts the page cache on the node of the reading thread. From there, a buffer on the disk's node would be a detour.
        let pool = match mode {
            ReadMode::Buffered | ReadMode::Dontcache => self.pool(),
            ReadMode::Direct => &self.bank(file).pool,
        };
        let mut buffer = pool.take_spare(file.stamp().device).await;
        let resident = match mode {
            ReadMode::Buffered => read_resident(file, &mut buffer[..bytes], start),
            ReadMode::Dontcache | ReadMode::Direct => 0,
        };
        (buffer, resident)
    }

    /// Completes a window whose first `resident` bytes are there.
    async fn read_from_disk(
        &self,
        file: &File,
        mode: ReadMode,
        window: Window,
        start: u64,
        resident: usize,
    ) -> Result<Window, ReadError> {
        file.asks_disk(&(start..start + window.len() as u64));
        let began = Instant::now();
        let read = match mode {
            ReadMode::Direct => self.read_direct(file, window, start).await,
            ReadMode::Dontcache => self.read_once(file, window, start).await,
            ReadMode::Buffered => self.read_populated(file, window, start, resident).await,
        };
        self.count_disk_read(began.elapsed());
        read
    }

    /// Counts a window that was read from disk, or failed to be, after `took`.
    pub fn count_disk_read(&self, took: Duration) {
        count(&self.stats.disk_reads, 1);
        count(&self.stats.disk_read_micros, took.as_micros() as usize);
    }

    /// The mode in which to read `range` for the response with these `misses`: through the page cache if it is cached or was requested recently, else
    /// directly. Where the kernel does not report what is cached, heat alone decides: a read that does not wait would make the kernel read ahead, and
    /// the same bytes would then be read again directly.
    pub fn mode(&self, file: &File, range: &Range<u64>, misses: &mut Misses) -> ReadMode {
        match self.policy {
            // Near a hole, a cached read would set off the kernel's own read-ahead, so such a range counts as a miss.
            Policy::Auto if file.is_there(range) && misses.is_far_from_a_hole(file, range) => {
                misses.pass(range);
                ReadMode::Buffered
            }
            // Once the block is filled, its bytes are dropped from the page cache in any case, so caching them here would be wasted.
            Policy::Auto if self.is_being_filled(file, range) => ReadMode::Direct,
            _ => misses.record(self, file, range),
        }
    }

    /// Returns true if `range`, which is in the page cache, is sent from there to the response with these `misses`.
    pub fn sends_resident(&self, file: &File, range: &Range<u64>, misses: &mut Misses) -> bool {
        if self.policy != Policy::Auto || misses.is_far_from_a_hole(file, range) {
            misses.pass(range);
            return true;
        }
        misses.record(self, file, range) == ReadMode::Buffered
    }

    fn is_being_filled(&self, file: &File, range: &Range<u64>) -> bool {
        let hot_set = self.bank(file).hot_set.as_ref();
        hot_set.is_some_and(|hot_set| matches!(hot_set.find(file, range), Hot::Filling))
    }

    /// Records that a window is not in the page cache, and returns how to read it: by heat, if the policy says so. This heats the window's blocks, so
    /// [`Misses`] calls it once for each part of a response.
    pub(crate) fn record_miss(&self, file: &File, range: &Range<u64>) -> ReadMode {
        let stamp = file.stamp();
        match self.policy {
            Policy::Always(mode) => mode,
            Policy::Auto | Policy::Heat
                if self.heat.touch(stamp.device, stamp.inode, range.clone()) =>
            {
                ReadMode::Buffered
            }
            Policy::Auto | Policy::Heat => ReadMode::Direct,
        }
    }

    /// Returns true if bytes in the page cache are read from there. Other policies may read them directly.
    pub fn takes_resident(&self) -> bool {
        matches!(self.policy, Policy::Auto | Policy::Always(ReadMode::Buffered))
    }

    /// Completes a window whose first `resident` bytes are there, and whose rest is worth memory.
    async fn read_populated(
        &self,
        file: &File,
        mut window: Window,
        start: u64,
        resident: usize,
    ) -> Result<Window, ReadError> {
        let missing = start + resident as u64..start + window.len() as u64;
        let populator = self.populator.as_deref();
        let priority = window.priority.clone();
        let Some(population) = populator.and_then(|all| all.of(file, missing.clone(), priority))
        else {
            return self.read_cached(file, window, start, resident).await;
        };
        population.run(file).await;
        // Pages that were there have probably come with the window before: the kernel reads ahead while that is populated.
        count(&self.stats.cached_bytes, window.len());
        let rest = window.range().start + resident..window.range().end;
        let come = read_resident(file, &mut window.buffer[rest], missing.start);
        // Pages that are still missing could not be read, or were evicted at once: a read that waits says which.
        fill(file.fd(), window, start, resident + come, 0).await.map_err(|(error, _)| error)
    }

    /// Completes a window whose first `done` bytes are there.
    async fn read_cached(
        &self,
        file: &File,
        window: Window,
        start: u64,
        done: usize,
    ) -> Result<Window, ReadError> {
        count(&self.stats.resident_bytes, done);
        count(&self.stats.cached_bytes, window.len() - done);
        fill(file.fd(), window, start, done, 0).await.map_err(|(error, _)| error)
    }

    async fn read_once(
        &self,
        file: &File,
        mut window: Window,
        start: u64,
    ) -> Result<Window, ReadError> {
        let device = file.stamp().device;
        if !self.no_once.borrow().contains(&device) {
            match fill(file.fd(), window, start, 0, RWF_DONTCACHE).await {
                Ok(window) => {
                    count(&self.stats.once_bytes, window.len());
                    return Ok(window);
                }
                // The filesystem or the kernel does not support it.
                Err((ReadError::Io(libc::EOPNOTSUPP | libc::EINVAL), back)) => {
                    self.no_once.borrow_mut().insert(device);
                    count(&self.stats.refused, 1);
                    window = back;
                }
                Err((error, _)) => return Err(error),
            }
        }
        self.read_direct(file, window, start).await
    }

    /// Reads the whole blocks that the window touches, and points the window at its bytes in them.
    async fn read_direct(
        &self,
        file: &File,
        mut window: Window,
        start: u64,
    ) -> Result<Window, ReadError> {
        let Some(fd) = file.direct().await else {
            count(&self.stats.refused, 1);
            return self.read_cached(file, window, start, 0).await;
        };
        let bytes = window.len();
        let aligned_start = start / DIRECT_ALIGNMENT as u64 * DIRECT_ALIGNMENT as u64;
        let lead = (start - aligned_start) as usize;
        let aligned_bytes = (lead + bytes).next_multiple_of(DIRECT_ALIGNMENT);
        let (result, reading) =
            op::read_at(fd, window.buffer, 0..aligned_bytes, aligned_start, 0).await;
        window.buffer = reading.buffer;
        match result {
            Ok(read) if read as usize >= lead + bytes => {
                count(&self.stats.direct_bytes, bytes);
                window.set_range(&(lead..lead + bytes));
                Ok(window)
            }
            // Shorter than the window, or an alignment that this filesystem refuses: the buffered read completes it or reports the error.
            Ok(_) | Err(_) => {
                count(&self.stats.refused, 1);
                self.read_cached(file, window, start, 0).await
            }
        }
    }
}
