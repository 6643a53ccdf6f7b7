//! Keys of blocks: file, version and position.

use super::BLOCK_BYTES;
use crate::heat::mix;
use crate::stamp::Stamp;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Identifies a block: a file, its version, and the block's position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u64; Self::WORDS]);

impl Key {
    const WORDS: usize = 7;

    /// The key of the block in which `offset` lies.
    pub(crate) fn new(stamp: &Stamp, offset: u64) -> Self {
        let nanoseconds =
            u64::from(stamp.modified_nanoseconds) << 32 | u64::from(stamp.changed_nanoseconds);
        Self([
            stamp.device,
            stamp.inode,
            stamp.size,
            stamp.modified_seconds as u64,
            stamp.changed_seconds as u64,
            nanoseconds,
            offset / BLOCK_BYTES,
        ])
    }

    /// A hash whose bits are evenly spread.
    pub(crate) fn hash(&self) -> u64 {
        self.0.iter().fold(0, |hash, word| mix(hash ^ word))
    }
}

/// A key that one thread may write while others read it. They may then see a mixture of two keys, so a key is valid only while its block is pinned:
/// no thread writes it then.
#[derive(Default)]
pub(crate) struct SharedKey([AtomicU64; Key::WORDS]);

impl SharedKey {
    pub(crate) fn set(&self, key: &Key) {
        self.0.iter().zip(key.0).for_each(|(shared, word)| shared.store(word, Relaxed));
    }

    pub(crate) fn get(&self) -> Key {
        Key(std::array::from_fn(|index| self.0[index].load(Relaxed)))
    }
}
