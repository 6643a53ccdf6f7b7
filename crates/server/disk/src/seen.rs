//! Parts of files that were seen complete in the page cache, and not requested from the disk since.
//!
//! There are two ways to ask whether bytes are cached. Asking page by page (`mincore`) costs an eighth of serving them. Counting pages (`cachestat`)
//! costs almost nothing, but includes pages that are still being read from the disk, and a send would wait for those. So a part is checked page by
//! page once, and from then on its pages are counted, until this process requests some of it from the disk again. All workers share one table,
//! because one may request what another is about to send.
//!
//! One case goes unnoticed: the pages were evicted since, and another process is just reading them. Then the worker waits for that one read.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The unit that is remembered.
const BLOCK_BYTES: u64 = 256 << 10;

/// Remembered blocks: 256 GiB of files. Unused pages of the table take no memory.
const SLOTS: usize = 1 << 20;

/// Zero means empty. Neighbouring blocks are neighbours in the table, so that looking up a window touches one or two cache lines.
static SEEN: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// Returns true if all of `range` of the file with this `identity` was seen. Call it after counting the pages: a worker that requests some of them
/// from the disk calls [`forget`] first.
pub(crate) fn was_seen(identity: u64, range: &Range<u64>) -> bool {
    blocks(range).all(|block| slot(identity, block).load(Relaxed) == tag(identity, block))
}

/// Records that the blocks of `range` are cached.
pub(crate) fn note(identity: u64, range: &Range<u64>) {
    blocks(range).for_each(|block| slot(identity, block).store(tag(identity, block), Relaxed));
}

/// Call this before requesting any of `range` from the disk.
pub(crate) fn forget(identity: u64, range: &Range<u64>) {
    for block in blocks(range) {
        let slot = slot(identity, block);
        if slot.load(Relaxed) == tag(identity, block) {
            slot.store(0, Relaxed);
        }
    }
}

/// `range`, extended to whole blocks.
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
