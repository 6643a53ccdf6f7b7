//! Which parts of files were seen whole in the page cache, and not asked of the disk since.
//!
//! Whether bytes are there can be asked page by page (`mincore`), at an eighth of what serving them costs, or by counting
//! pages (`cachestat`), almost for nothing; but what is counted may still be on its way from the disk, and the kernel
//! would wait for it. So: what was once seen page by page is counted from then on, until this process has the disk bring
//! some of it again. One table for all workers, since one may ask for what another is about to send.
//!
//! Not noticed: another process that reads, past what has been thrown out of memory since, the very bytes that are due.
//! Then the worker waits for that one read.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The unit that is remembered.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks remembered, of 256 GiB; pages of the table that are not used take no memory.
const SLOTS: usize = 1 << 20;

/// Zero is empty. Neighbouring blocks are neighbours here, so that a window is looked up in one or two cache lines.
static SEEN: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// Whether all of `range` of the file with this `identity` was seen. To be asked after its pages were counted: who has
/// the disk bring some of them forgets first.
pub(crate) fn was_seen(identity: u64, range: &Range<u64>) -> bool {
    blocks(range).all(|block| slot(identity, block).load(Relaxed) == tag(identity, block))
}

/// Notes that the blocks that `range` touches are there.
pub(crate) fn note(identity: u64, range: &Range<u64>) {
    blocks(range).for_each(|block| slot(identity, block).store(tag(identity, block), Relaxed));
}

/// The disk is about to be asked for some of `range`.
pub(crate) fn forget(identity: u64, range: &Range<u64>) {
    for block in blocks(range) {
        let slot = slot(identity, block);
        if slot.load(Relaxed) == tag(identity, block) {
            slot.store(0, Relaxed);
        }
    }
}

/// `range`, with the rest of the blocks that it begins and ends in.
pub(crate) fn whole_blocks(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES * BLOCK_BYTES..range.end.next_multiple_of(BLOCK_BYTES)
}

fn blocks(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

fn slot(identity: u64, block: u64) -> &'static AtomicU64 {
    &SEEN[identity.wrapping_add(block) as usize % SLOTS]
}

fn tag(identity: u64, block: u64) -> u64 {
    crate::heat::mix(identity.rotate_left(32) ^ block) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_as_seen_only_with_all_of_its_blocks() {
        let file = 0x5ee0_0001;
        note(file, &(0..3 * BLOCK_BYTES));
        assert!(was_seen(file, &(0..3 * BLOCK_BYTES)));
        assert!(was_seen(file, &(5..BLOCK_BYTES + 1)));
        assert!(!was_seen(file, &(BLOCK_BYTES..3 * BLOCK_BYTES + 1)));
        assert!(!was_seen(file + 1, &(BLOCK_BYTES..2 * BLOCK_BYTES)), "another file");
    }

    #[test]
    fn what_the_disk_was_asked_for_is_forgotten_and_nothing_else() {
        let file = 0x5ee0_0002_0000;
        note(file, &(0..4 * BLOCK_BYTES));
        forget(file, &(BLOCK_BYTES + 1..BLOCK_BYTES + 2));
        assert!(was_seen(file, &(0..BLOCK_BYTES)));
        assert!(!was_seen(file, &(BLOCK_BYTES..2 * BLOCK_BYTES)));
        assert!(was_seen(file, &(2 * BLOCK_BYTES..4 * BLOCK_BYTES)));
    }
}
