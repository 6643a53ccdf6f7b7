//! Heat: memory goes to what is requested repeatedly, not to what is requested once (as with FreeBSD's `SF_NOCACHE`).
//!
//! A doorkeeper: a table of fixed size that remembers which blocks of which files were read recently. New blocks overwrite old ones, so old reads are
//! forgotten, the faster the more is read. The table's size sets how far back it remembers.

use std::cell::RefCell;

/// The unit in which reads are remembered. A block belongs to the read that reaches its last byte. So a viewer who plays a file from start to end
/// touches each block once, whatever the read size, and windows shorter than a block count too.
pub const BLOCK_BYTES: u64 = 64 << 10;

/// Blocks that were read recently. One table per worker.
pub struct Heat {
    /// Zero means empty. One half of the hash is the index, the other is stored.
    marks: RefCell<Box<[u32]>>,
}

impl Heat {
    /// Remembers about `horizon_bytes` of reads, at 4 bytes per 64 KiB.
    pub fn new(horizon_bytes: u64) -> Self {
        let blocks = (horizon_bytes / BLOCK_BYTES).clamp(1 << 10, 1 << 22).next_power_of_two();
        Self { marks: RefCell::new(vec![0; blocks as usize].into()) }
    }

    /// Records a read of `range`. Returns whether most of the blocks that end in it had been read recently. A read in which no block ends is not
    /// recorded, and is as hot as the block around it.
    pub fn touch(&self, device: u64, inode: u64, range: std::ops::Range<u64>) -> bool {
        let blocks = range.start / BLOCK_BYTES..range.end / BLOCK_BYTES;
        let mut marks = self.marks.borrow_mut();
        let mask = marks.len() - 1;
        let place = |block| {
            let hash = mix(mix(mix(device) ^ inode) ^ block);
            (hash as usize & mask, ((hash >> 32) as u32).max(1))
        };
        if blocks.is_empty() {
            let (index, tag) = place(blocks.start);
            return marks[index] == tag;
        }
        let (mut seen, mut count) = (0u64, 0u64);
        for block in blocks {
            let (index, tag) = place(block);
            let mark = &mut marks[index];
            count += 1;
            seen += u64::from(*mark == tag);
            *mark = tag;
        }
        seen * 2 > count
    }
}

/// The finaliser of SplitMix64: spreads every input bit over the output.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_is_hot() {
        let heat = Heat::new(1 << 30);
        assert!(!heat.touch(1, 2, 0..1 << 20));
        assert!(heat.touch(1, 2, 0..1 << 20));
        assert!(!heat.touch(1, 3, 0..1 << 20), "another file");
        assert!(!heat.touch(1, 2, 1 << 20..2 << 20), "another part");
    }

    #[test]
    fn one_viewer_going_through_a_file_in_odd_steps_heats_nothing() {
        let heat = Heat::new(1 << 30);
        let mut at = 0;
        for step in (0..1000).map(|n| 45_000 + n % 7 * 40_000) {
            assert!(!heat.touch(1, 2, at..at + step));
            at += step;
        }
    }

    #[test]
    fn what_is_read_again_is_hot_in_whatever_steps() {
        for (first, second) in [(1_000, 50_000), (50_000, 1_000), (90_000, 20_000)] {
            let heat = Heat::new(1 << 30);
            let through = |step: u64| {
                (0..(1 << 20) / step).filter(|n| heat.touch(1, 2, n * step..(n + 1) * step)).count()
            };
            assert_eq!(through(first), 0);
            // Neither pass reaches the very end, so the last block is not recorded.
            let whole = (1 << 20) - 2 * BLOCK_BYTES - first;
            assert!(through(second) as u64 >= whole / second, "{first}, then {second}");
        }
    }

    #[test]
    fn what_was_read_long_ago_is_forgotten() {
        let heat = Heat::new(64 << 20);
        heat.touch(1, 2, 0..1 << 20);
        for file in 0..20_000 {
            heat.touch(9, file, 0..1 << 20);
        }
        assert!(!heat.touch(1, 2, 0..1 << 20));
    }
}
