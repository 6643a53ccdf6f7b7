//! One worker's way to its silo's hot set: it finds blocks, counts requests, and fills.

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

/// The least that a file must have in a block, usually its last: a block that is nearly empty would waste memory.
const BYTES_MIN: u64 = BLOCK_BYTES / 2;

/// Blocks that one worker fills at a time: enough to keep a disk at work, and little beside the viewers' reads.
const FILLS_MAX: usize = 4;

/// How long ago a file must have been changed last. Kernels before 6.13 count time in steps of up to 10 ms, and network file systems in
/// steps of up to 2 s.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// One worker's way to a hot set.
pub struct LocalHotSet {
    set: Arc<HotSet>,
    blocks: LocalBlocks,
    fills: Cell<usize>,
    /// Bytes that were found here, and that were read to fill blocks.
    pub hit_bytes: Cell<u64>,
    /// Bytes read from disk to fill blocks.
    pub filled_bytes: Cell<u64>,
}

/// A part of a file that lies in a block.
pub struct HotPart {
    block: Pinned,
    start: usize,
    bytes: usize,
}

/// What there is of a part of a file.
pub(crate) enum Hot {
    /// Its beginning, up to the end of its block.
    Part(HotPart),
    /// Nothing yet, but somebody is reading it from disk.
    Filling,
    /// Nothing.
    Nothing,
}

impl HotPart {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.start..self.start + self.bytes]
    }
}

impl LocalHotSet {
    /// For use on this thread.
    pub fn new(set: Arc<HotSet>) -> Rc<Self> {
        let blocks = LocalBlocks::new(Arc::clone(&set.blocks));
        let (fills, hit_bytes, filled_bytes) = Default::default();
        Rc::new(Self { set, blocks, fills, hit_bytes, filled_bytes })
    }

    /// The set that this leads to.
    pub fn set(&self) -> &HotSet {
        &self.set
    }

    /// Looks for the beginning of `range`. The bytes count only if the file is then seen to be [unchanged](File::check_unchanged).
    pub(crate) fn find(&self, file: &File, range: &Range<u64>) -> Hot {
        match self.set.find(&self.blocks, &Key::new(&file.stamp(), range.start)) {
            Found::Bytes(block) => {
                let start = (range.start % BLOCK_BYTES) as usize;
                let bytes = (range.end - range.start).min(BLOCK_BYTES - start as u64) as usize;
                Hot::Part(HotPart { block, start, bytes })
            }
            Found::Filling => Hot::Filling,
            Found::Nothing => Hot::Nothing,
        }
    }

    /// Counts bytes that are served from here.
    pub(crate) fn count_hit(&self, bytes: usize) {
        self.hit_bytes.set(self.hit_bytes.get() + bytes as u64);
    }

    /// Tells the kernel's reader of a block where it lies: the file, and the offset in it. The block's pages stay what they are for the
    /// kernel from here on, however long it takes.
    pub fn lend<'a>(&self, part: &'a HotPart) -> (&'a std::os::fd::OwnedFd, u64) {
        self.set.lent[part.block.index() as usize].store(true, Relaxed);
        let start = u64::from(part.block.index()) * BLOCK_BYTES + part.start as u64;
        (part.block.file(), start)
    }

    /// Notes that a viewer has come to the block in which `offset` lies. A block that is worth it is filled.
    pub(crate) fn note_request(self: &Rc<Self>, file: &Rc<File>, offset: u64) {
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let bytes = BLOCK_BYTES.min(file.size() - start);
        if bytes < BYTES_MIN {
            return;
        }
        let key = Key::new(&file.stamp(), offset);
        let requests = self.set.demand.note(key.hash());
        if requests < REQUESTS_MIN || self.fills.get() == FILLS_MAX || !is_settled(file) {
            return;
        }
        let Some(claimed) = self.set.admit(&key, requests) else { return };
        self.fills.set(self.fills.get() + 1);
        let (hot, file) = (Rc::clone(self), Rc::clone(file));
        spawn(async move {
            hot.fill(&file, &key, claimed, start..start + bytes).await;
            hot.fills.set(hot.fills.get() - 1);
        });
    }

    async fn fill(&self, file: &File, key: &Key, claimed: Claimed, range: Range<u64>) {
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

/// Whether the file was last changed so long ago that the next change will have another time.
fn is_settled(file: &File) -> bool {
    let changed = Duration::from_secs(file.stamp().changed_seconds.max(0) as u64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(changed) > SETTLED_AFTER
}

/// Reads `range` into a block, past the page cache where the file system has that.
async fn read(
    file: &File,
    mut block: Claimed,
    range: &Range<u64>,
) -> (Claimed, Result<(), ReadError>) {
    let wanted = (range.end - range.start) as usize;
    let mut done = 0;
    // The end of a file is no whole block: what is asked for is, and what comes is shorter.
    if let Some(direct) = file.direct() {
        let asked = wanted.next_multiple_of(crate::DIRECT_ALIGNMENT);
        let (result, filling) = blocks::fill(direct, block, 0..asked, range.start).await;
        block = filling.claimed;
        done = result.map_or(0, |bytes| wanted.min(bytes as usize));
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
