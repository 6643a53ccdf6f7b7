//! A worker's handle to a hot set, its own silo's or another's: finds blocks, counts requests, and fills the blocks that are admitted.

use super::key::Key;
use super::{BLOCK_BYTES, Found, HotSet, REQUESTS_MIN};
use crate::error::ReadError;
use crate::file::File;
use reactor::blocks::{self, Claimed, LocalBlocks, Pinned};
use reactor::{op, spawn};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fewest bytes that a block must hold to be admitted. A file's last block may be nearly empty and would waste memory.
pub(super) const BYTES_MIN: u64 = BLOCK_BYTES / 2;

/// Blocks that one worker fills at a time: enough to keep a disk busy, and few compared with the viewers' reads.
const FILLS_MAX: usize = 4;

/// How long a file must have been unchanged before its blocks are admitted. Kernels before 6.13 stamp files in steps of up to 10 ms, and network file
/// systems in steps of up to 2 s.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// A worker's handle to a hot set: that of its own silo, or of the silo of a file's disk.
pub struct LocalHotSet {
    set: Arc<HotSet>,
    blocks: LocalBlocks,
    fills: Cell<usize>,
    /// Set if the set is on another node than this worker.
    is_elsewhere: bool,
    /// Bytes read from disk to fill blocks.
    pub filled_bytes: Cell<u64>,
}

/// A part of a file that lies in one block of the hot set. The block stays pinned while this lives.
pub struct HotPart {
    block: Pinned,
    start: usize,
    bytes: usize,
    is_elsewhere: bool,
}

/// The result of looking for a part of a file in the hot set.
pub(crate) enum Hot {
    /// The part's beginning, up to the end of its block.
    Part(HotPart),
    /// Nothing yet: the block is being read from disk.
    Filling,
    /// Nothing.
    Nothing,
}

impl HotPart {
    /// The part's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.start..self.start + self.bytes]
    }

    /// True if the bytes are on another node than this worker: the node of the file's disk.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }
}

impl LocalHotSet {
    /// Makes a handle for this thread.
    pub fn new(set: Arc<HotSet>) -> Rc<Self> {
        Self::of(set, false)
    }

    /// As [`Self::new`], to a set on another node.
    pub fn elsewhere(set: Arc<HotSet>) -> Rc<Self> {
        Self::of(set, true)
    }

    fn of(set: Arc<HotSet>, is_elsewhere: bool) -> Rc<Self> {
        let blocks = LocalBlocks::new(Arc::clone(&set.blocks));
        let (fills, filled_bytes) = Default::default();
        Rc::new(Self { set, blocks, fills, is_elsewhere, filled_bytes })
    }

    /// The hot set.
    pub fn set(&self) -> &HotSet {
        &self.set
    }

    /// Returns true while this worker reads a block into the set for viewers.
    pub fn is_filling(&self) -> bool {
        self.fills.get() > 0
    }

    /// Looks for the beginning of `range`. Use the bytes only after checking that the file is [unchanged](File::check_unchanged).
    pub(crate) fn find(&self, file: &File, range: &Range<u64>) -> Hot {
        match self.set.find(&self.blocks, &Key::new(&file.stamp(), range.start)) {
            Found::Bytes(block) => {
                let start = (range.start % BLOCK_BYTES) as usize;
                let bytes = (range.end - range.start).min(BLOCK_BYTES - start as u64) as usize;
                Hot::Part(HotPart { block, start, bytes, is_elsewhere: self.is_elsewhere })
            }
            Found::Filling => Hot::Filling,
            Found::Nothing => Hot::Nothing,
        }
    }

    /// The file and the offset from which the kernel can send `part`; none if it cannot. The block is marked as in flight: it gets new pages before
    /// it is filled again, so the kernel can go on sending the old ones, however long that takes.
    ///
    /// # Panics
    /// If `part` is from another set, whose block would then not be marked.
    pub fn for_kernel<'a>(&self, part: &'a HotPart) -> Option<(&'a std::os::fd::OwnedFd, u64)> {
        assert!(part.block.is_of(&self.blocks));
        let file = part.block.file()?;
        self.set.in_flight[part.block.index() as usize].store(true, Relaxed);
        let start = u64::from(part.block.index()) * BLOCK_BYTES + part.start as u64;
        Some((file, start))
    }

    /// Counts a request for the block that begins at `start`. Fills the block if this request gets it admitted.
    pub(crate) fn note_request(self: &Rc<Self>, file: &Rc<File>, start: u64) {
        let bytes = BLOCK_BYTES.min(file.size() - start);
        if bytes < BYTES_MIN || !file.has_arrived(&(start..start + bytes)) {
            return;
        }
        let key = Key::new(&file.stamp(), start);
        let requests = self.set.demand.note(key.hash());
        if requests < REQUESTS_MIN || self.fills.get() == FILLS_MAX || !is_settled(file) {
            return;
        }
        let claimed =
            self.set.try_hold().and_then(|mut held| self.set.admit(&mut held, &key, requests));
        let Some(claimed) = claimed else { return };
        self.fills.set(self.fills.get() + 1);
        let (hot, file) = (Rc::clone(self), Rc::clone(file));
        spawn(async move {
            hot.fill(&file, &key, claimed, start..start + bytes).await;
            hot.fills.set(hot.fills.get() - 1);
        });
    }

    pub(super) async fn fill(&self, file: &File, key: &Key, claimed: Claimed, range: Range<u64>) {
        let (claimed, read) = read(file, claimed, &range).await;
        let is_right = read.is_ok() && file.check_unchanged().is_ok();
        if !is_right || Key::new(&file.stamp(), range.start) != *key {
            return self.set.take_back(key, claimed);
        }
        claimed.publish();
        self.filled_bytes.set(self.filled_bytes.get() + range.end - range.start);
        let _ = op::wont_need(file.fd(), range.start, (range.end - range.start) as u32).await;
    }
}

/// Returns true if the file's last change is so old that its next change will leave another time stamp.
pub(super) fn is_settled(file: &File) -> bool {
    let changed = Duration::from_secs(file.stamp().changed_seconds.max(0) as u64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(changed) > SETTLED_AFTER
}

/// Reads `range` into a block: directly if the file system supports that, otherwise through the page cache.
async fn read(file: &File, block: Claimed, range: &Range<u64>) -> (Claimed, Result<(), ReadError>) {
    let mut block = blocks::take_memory(block).await;
    let wanted = (range.end - range.start) as usize;
    let mut done = 0;
    // A direct read asks for whole disk blocks. At the end of a file it returns less.
    if let Some(direct) = file.direct().await {
        let asked = wanted.next_multiple_of(crate::DIRECT_ALIGNMENT);
        let (result, filling) = blocks::fill(direct, block, 0..asked, range.start).await;
        block = filling.claimed;
        done = result.map_or(0, |bytes| wanted.min(bytes as usize));
    }
    if done < wanted {
        file.asks_disk(range);
    }
    while done < wanted {
        let (result, filling) =
            blocks::fill(file.fd(), block, done..wanted, range.start + done as u64).await;
        block = filling.claimed;
        match result {
            Ok(0) => return (block, Err(ReadError::Truncated)),
            Ok(bytes) => done += bytes as usize,
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(libc::EIO);
                return (block, Err(ReadError::Io(code)));
            }
        }
    }
    (block, Ok(()))
}
