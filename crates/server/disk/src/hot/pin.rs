//! Pinned blocks: they stay in the hot set whether or not viewers request them.

use super::key::Key;
use super::local::BYTES_MIN;
use super::{BLOCK_BYTES, HotSet, LocalHotSet};
use crate::file::File;
use crate::stamp::Stamp;
use reactor::blocks::Claimed;
use reactor::op;
use std::rc::Rc;

/// The size of one request to read bytes into the page cache: the kernel's default read-ahead. The kernel may cut a larger request to that much.
const PIECE_BYTES: u64 = 128 << 10;

/// Searches for a block that a pinned one may replace. Each looks at a few blocks, half of which may be pinned too, and the best of the others may be
/// in use at this moment.
const SEARCHES: usize = 8;

/// The result of pinning a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// It is in the set.
    Done,
    /// The set has no room for it now: it may not grow, and the blocks looked at are pinned too or in use. There may be room for another block.
    NoRoom,
    /// The file was changed a moment ago, is another version, or cannot be read.
    Failed,
}

/// Bytes of the hot set that a file of `size` bytes takes if all of it is pinned: whole blocks. A file shorter than half a block takes none;
/// [`LocalHotSet::keep_small`] reads it into the page cache.
pub fn pinned_bytes_of(size: u64) -> u64 {
    if is_small(size) { 0 } else { size.next_multiple_of(BLOCK_BYTES) }
}

/// Returns true if a file is too short for the hot set, where it would take a whole block.
pub fn is_small(size: u64) -> bool {
    size < BYTES_MIN
}

impl HotSet {
    /// How many times the set has halved its request counts. Pinned blocks have to be wanted again after each halving.
    pub fn halvings(&self) -> u64 {
        self.demand.halvings()
    }

    /// Counts the block of this version of a file that begins at `start` as more wanted than any other. Returns whether the set has it, or is reading
    /// it.
    pub fn want(&self, stamp: &Stamp, start: u64) -> bool {
        let key = Key::new(stamp, start);
        self.demand.raise(key.hash());
        self.has(&key)
    }

    /// Admits a pinned block. Waits for the lock, because no viewer may ever request the block again.
    pub(super) fn admit_pinned(&self, key: &Key) -> Option<Claimed> {
        (0..SEARCHES).find_map(|_| self.admit(&mut self.hold(), key, u8::MAX))
    }

    /// Returns true if the set has a block, or is reading it. Another thread may change that in the same instant.
    fn has(&self, key: &Key) -> bool {
        let mut candidates = self.index.candidates(key.hash());
        candidates.any(|block| self.keys[block as usize].get() == *key)
    }
}

impl LocalHotSet {
    /// Reads the block of `file` that begins at `start` into the set, past the page cache. Call [`HotSet::want`] first, so that it can replace
    /// another block.
    pub async fn pin(&self, file: &Rc<File>, start: u64) -> Pinning {
        let key = Key::new(&file.stamp(), start);
        if self.set().has(&key) {
            return Pinning::Done;
        }
        if !super::local::is_settled(file) {
            return Pinning::Failed;
        }
        let Some(claimed) = self.set().admit_pinned(&key) else { return Pinning::NoRoom };
        let end = file.size().min(start + BLOCK_BYTES);
        self.fill(file, &key, claimed, start..end).await;
        if self.set().has(&key) { Pinning::Done } else { Pinning::Failed }
    }

    /// Reads a small file into the page cache, and waits until the kernel has passed the request to the disk.
    pub async fn keep_small(&self, file: &File) {
        let range = 0..file.size();
        if file.is_there(&range) {
            return;
        }
        file.asks_disk(&range);
        for start in range.clone().step_by(PIECE_BYTES as usize) {
            // If the kernel ignores the advice, the first viewer waits for the disk.
            let _ =
                op::will_need(file.fd(), start, PIECE_BYTES.min(range.end - start) as u32).await;
        }
    }
}
