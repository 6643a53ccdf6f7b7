//! The index from keys to blocks: any number of threads read it while one writes.
//!
//! It is set-associative, like a processor's cache: a key's hash names a cache line, and any of the line's eight entries may be the key's. An entry
//! holds half of the hash and a block's number. The reader still has to compare the block's key.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries in a cache line.
const WAYS: usize = 8;

/// Blocks per line. With two, about one key in a thousand finds its line full (Poisson). It is then admitted in place of one of these eight blocks.
const BLOCKS_PER_LINE: usize = 2;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; WAYS]);

/// Finds the block that holds a key.
pub(crate) struct Index(Box<[Line]>);

impl Index {
    /// Makes an index of `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let lines = blocks.div_ceil(BLOCKS_PER_LINE).max(1);
        Self((0..lines).map(|_| Line::default()).collect())
    }

    /// Blocks whose key may have this hash.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        let entries = self.line(hash).iter().map(|entry| entry.load(Relaxed));
        entries
            .filter(move |entry| *entry != 0 && entry >> 32 == hash >> 32)
            .map(|entry| entry as u32 - 1)
    }

    /// Returns true if the index has `block` for this hash.
    pub(crate) fn has(&self, hash: u64, block: u32) -> bool {
        self.line(hash).iter().any(|entry| entry.load(Relaxed) == entry_of(hash, block))
    }

    /// The blocks in the line of this hash, whatever keys they hold.
    pub(crate) fn line_blocks(&self, hash: u64) -> impl Iterator<Item = u32> {
        let entries = self.line(hash).iter().map(|entry| entry.load(Relaxed));
        entries.filter(|entry| *entry != 0).map(|entry| entry as u32 - 1)
    }

    /// Returns true if the line of this hash has an empty entry.
    pub(crate) fn has_room(&self, hash: u64) -> bool {
        self.line(hash).iter().any(|entry| entry.load(Relaxed) == 0)
    }

    /// Enters a block, if its line [has room](Self::has_room).
    pub(crate) fn insert(&self, hash: u64, block: u32) {
        let free = self.line(hash).iter().find(|entry| entry.load(Relaxed) == 0);
        free.inspect(|entry| entry.store(entry_of(hash, block), Relaxed));
    }

    /// Removes a block.
    pub(crate) fn remove(&self, hash: u64, block: u32) {
        let entry = self.line(hash).iter().find(|e| e.load(Relaxed) == entry_of(hash, block));
        entry.inspect(|entry| entry.store(0, Relaxed));
    }

    /// Returns true if two hashes name the same line.
    #[cfg(test)]
    pub(crate) fn is_same_line(&self, one: u64, other: u64) -> bool {
        std::ptr::eq(self.line(one), self.line(other))
    }

    fn line(&self, hash: u64) -> &[AtomicU64; WAYS] {
        &self.0[hash as usize % self.0.len()].0
    }
}

/// Never zero, which marks an empty entry: entries count blocks from one.
fn entry_of(hash: u64, block: u32) -> u64 {
    hash >> 32 << 32 | u64::from(block + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::mix;

    fn enter(index: &Index, hash: u64, block: u32) -> bool {
        let has_room = index.has_room(hash);
        index.insert(hash, block);
        assert_eq!(index.has(hash, block), has_room);
        has_room
    }

    #[test]
    fn finds_what_was_entered_and_not_what_was_taken_out() {
        let blocks = 1000;
        let index = Index::new(blocks);
        let entered: Vec<_> = (0..blocks as u32)
            .filter(|block| enter(&index, mix((*block).into()), *block))
            .collect();
        assert!(entered.len() > blocks * 99 / 100, "{}", entered.len());
        for block in &entered {
            let hash = mix((*block).into());
            assert!(index.candidates(hash).any(|found| found == *block));
            assert!(index.has(hash, *block));
            index.remove(hash, *block);
            assert!(!index.has(hash, *block));
        }
        assert!((0..blocks as u64).all(|block| index.candidates(mix(block)).next().is_none()));
    }

    #[test]
    fn a_full_line_takes_no_more() {
        let index = Index::new(1);
        assert_eq!((0..20).filter(|block| enter(&index, 7, *block)).count(), WAYS);
    }
}
