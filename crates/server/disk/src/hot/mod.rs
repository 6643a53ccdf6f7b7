//! The hot set: popular parts of films, cached in the server's own memory.
//!
//! A hit costs no read: TLS records are sealed straight from the set, whereas a window of the page cache is first copied into a buffer. A block is 2
//! MiB of one version of one file. It is filled by a direct read, and then dropped from the page cache, so that memory does not hold it twice.
//!
//! **Admission.** Each response that sends a block's first byte counts as one request for it (`demand`): so a viewer who plays through a film counts
//! once, in whatever ranges. A block may be admitted from its second request on, if the set has room. If the set is full, a block must have more
//! requests than the least popular of a few blocks, which is then evicted. So one pass through the library changes nothing.
//!
//! **Versions.** A block's key holds everything that distinguishes one version of a file from another. A reader pins the block, compares the key, and
//! checks that the file is still that version, as after any read. A file that was changed a moment ago is not admitted: time stamps advance in steps,
//! so its next change could leave the same stamp.
//!
//! **Pins.** A block to be pinned gets the highest count of requests, again after each halving (`pin`). So it is admitted before and evicted after
//! everything else, and needs no mark of its own: a block that is no longer wanted is forgotten like any other.
//!
//! The workers of a silo share one hot set, and workers of other silos may share it for films on the silo's disks. Finding a block reads one cache
//! line of the index and pins the block by one atomic addition, without a lock. Changing the set takes a lock; a worker that cannot get it at once
//! does not admit its block.

mod demand;
mod index;
mod key;
mod local;
mod pin;

pub(crate) use local::Hot;
pub use local::{HotPart, LocalHotSet};
pub use pin::{Pinning, is_small, pinned_bytes_of};

use demand::Demand;
use index::Index;
use key::{Key, SharedKey};
use reactor::blocks::{self, Blocks, Claimed, LocalBlocks, Pages, Pinned};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = blocks::BLOCK_BYTES as u64;

/// Requests that a block needs to be admitted.
const REQUESTS_MIN: u8 = 2;

/// Candidates for an eviction; the least popular of them is evicted. With eight, it is among the least popular fifth of all blocks five times out of
/// six.
const VICTIMS: usize = 8;

/// The hot set of a silo.
pub struct HotSet {
    blocks: Arc<Blocks>,
    keys: Box<[SharedKey]>,
    index: Index,
    demand: Demand,
    /// Set if the kernel was asked to send from a block: its pages may still be in flight.
    in_flight: Box<[AtomicBool]>,
    /// How many free blocks the set may still take into use.
    growth_left: AtomicU64,
    holdings: Mutex<Holdings>,
    evicted: AtomicU64,
}

/// State that may be touched only under the lock, to change the set.
struct Holdings {
    free: Vec<Claimed>,
    /// Where the last search for a block to evict ended.
    next: u32,
}

/// The result of a lookup.
enum Found {
    /// The block, pinned.
    Bytes(Pinned),
    /// The block is admitted, and its bytes are still being read from disk.
    Filling,
    /// The block is not in the set.
    Nothing,
}

impl HotSet {
    /// Makes a set of at most `bytes`. It takes memory only as it fills, except for [reserved pages](Self::take_reserved).
    ///
    /// # Errors
    /// If the process is out of descriptors or address space, or too few pages are reserved.
    pub fn new(bytes: u64, pages: Pages) -> io::Result<Arc<Self>> {
        let count = (bytes / BLOCK_BYTES) as usize;
        let (blocks, free) = Blocks::new(count, pages)?;
        Ok(Arc::new(Self {
            keys: (0..count).map(|_| SharedKey::default()).collect(),
            index: Index::new(count),
            demand: Demand::new(count),
            in_flight: (0..count).map(|_| AtomicBool::new(false)).collect(),
            growth_left: AtomicU64::new(count as u64),
            holdings: Mutex::new(Holdings { free, next: 0 }),
            evicted: AtomicU64::new(0),
            blocks,
        }))
    }

    /// Prefers memory from this NUMA node, as long as the node has some.
    ///
    /// # Errors
    /// If the kernel knows no such node.
    pub fn prefer_node(&self, node: u32) -> io::Result<()> {
        self.blocks.prefer_node(node)
    }

    /// Takes its reserved pages out of their pool, if it uses such pages. Call it after [`Self::prefer_node`], and before the set is used.
    ///
    /// # Errors
    /// If the kernel does not give all of them: then the set cannot be used.
    pub fn take_reserved(&self) -> io::Result<()> {
        self.blocks.take_reserved()
    }

    /// Bytes of the blocks in use.
    pub fn used_bytes(&self) -> u64 {
        (self.blocks.count() - self.hold().free.len()) as u64 * BLOCK_BYTES
    }

    /// The most bytes that the set may use.
    pub fn bytes_max(&self) -> u64 {
        self.blocks.count() as u64 * BLOCK_BYTES
    }

    /// Bytes evicted since the start: replaced by more popular ones, or given back to the kernel.
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted.load(Relaxed) * BLOCK_BYTES
    }

    /// Returns true if the set's memory is locked.
    pub fn is_locked(&self) -> bool {
        self.blocks.is_locked()
    }

    /// Returns false for reserved pages: they only go back to their pool, so giving them back helps no other program.
    pub fn gives_back(&self) -> bool {
        self.blocks.pages() != Pages::Reserved
    }

    /// Lets the set grow by `bytes` from its size now, until the next call. Before the first call it may grow to its full size.
    pub fn let_grow(&self, bytes: u64) {
        self.growth_left.store(bytes / BLOCK_BYTES, Relaxed);
    }

    /// Evicts an unpopular block and gives its memory back to the kernel. Returns the bytes given back: 0 if it finds no block that can be
    /// evicted.
    pub fn give_back_block(&self) -> u64 {
        let attempts = self.blocks.count().div_ceil(VICTIMS);
        let evicted = (0..attempts).find_map(|_| self.evict(&mut self.hold(), u16::MAX));
        evicted.map_or(0, |claimed| {
            self.free(claimed);
            BLOCK_BYTES
        })
    }

    /// Puts a block back among the free ones, which have no memory. Does not hold the lock while the kernel takes the memory.
    fn free(&self, claimed: Claimed) {
        // A block that keeps its memory is not used again. We know of no cause for this error.
        if claimed.give_memory_back().is_ok() {
            self.hold().free.push(claimed);
        }
    }

    fn hold(&self) -> MutexGuard<'_, Holdings> {
        // A thread that panics leaves nothing in there half done.
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, if no other thread has it now.
    fn try_hold(&self) -> Option<MutexGuard<'_, Holdings>> {
        match self.holdings.try_lock() {
            Ok(holdings) => Some(holdings),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn find(&self, local: &LocalBlocks, key: &Key) -> Found {
        let hash = key.hash();
        for block in self.index.candidates(hash) {
            let pinned = local.pin(block);
            if self.keys[block as usize].get() == *key {
                return pinned.map_or(Found::Filling, Found::Bytes);
            }
        }
        Found::Nothing
    }

    /// Admits `key`, which has had `requests` requests, and returns the block to fill: a free one, or that of a less popular key. From then on the
    /// index has the block.
    fn admit(&self, holdings: &mut Holdings, key: &Key, requests: u8) -> Option<Claimed> {
        let hash = key.hash();
        // Another worker may have admitted it meanwhile.
        let is_known =
            self.index.candidates(hash).any(|block| self.keys[block as usize].get() == *key);
        if is_known {
            return None;
        }
        let claimed = if self.index.has_room(hash) {
            self.grow(holdings).or_else(|| self.evict(holdings, requests.into()))?
        } else {
            self.evict_least(self.index.line_blocks(hash), requests.into())?
        };
        self.keys[claimed.index() as usize].set(key);
        self.index.insert(hash, claimed.index());
        Some(claimed)
    }

    /// A free block, if the set may grow.
    fn grow(&self, holdings: &mut Holdings) -> Option<Claimed> {
        let growth_left = self.growth_left.load(Relaxed);
        let free = if growth_left > 0 { holdings.free.pop() } else { None };
        if free.is_some() {
            self.growth_left.store(growth_left - 1, Relaxed);
        }
        free
    }

    /// Evicts the least popular of a few blocks, if it has had fewer than `requests` requests.
    fn evict(&self, holdings: &mut Holdings, requests: u16) -> Option<Claimed> {
        let count = self.blocks.count() as u32;
        let victims = (0..VICTIMS.min(count as usize)).map(|_| {
            // A long step, because neighbours are often of one film; and a prime one, so that the search reaches every block.
            holdings.next = ((u64::from(holdings.next) + 0x9e37_79b1) % u64::from(count)) as u32;
            holdings.next
        });
        self.evict_least(victims, requests)
    }

    /// Evicts the least popular of these blocks, if it has had fewer than `requests` requests. The caller holds the lock.
    fn evict_least(&self, victims: impl Iterator<Item = u32>, requests: u16) -> Option<Claimed> {
        let mut least: Option<(u16, u32, u64)> = None;
        for block in victims {
            let hash = self.keys[block as usize].get().hash();
            let wanted = self.demand.of(hash).into();
            if self.index.has(hash, block) && least.is_none_or(|(fewest, ..)| wanted < fewest) {
                least = Some((wanted, block, hash));
            }
        }
        let (_, block, hash) = least.filter(|(wanted, ..)| *wanted < requests)?;
        let claimed = self.blocks.claim(block)?;
        self.index.remove(hash, block);
        self.evicted.fetch_add(1, Relaxed);
        if self.in_flight[block as usize].swap(false, Relaxed)
            && claimed.give_memory_back().is_err()
        {
            // The block stays claimed for good, because writing to it could change bytes in flight. We know of no cause for this error.
            return None;
        }
        Some(claimed)
    }

    /// Takes back a block that could not be filled.
    fn take_back(&self, key: &Key, claimed: Claimed) {
        let holdings = self.hold();
        self.index.remove(key.hash(), claimed.index());
        drop(holdings);
        self.free(claimed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    /// The same keys in each run, so that the same ones share lines.
    fn keys() -> impl Iterator<Item = Key> {
        let stamp = Stamp {
            device: 1,
            inode: 2,
            size: 3,
            modified_seconds: 4,
            modified_nanoseconds: 5,
            changed_seconds: 6,
            changed_nanoseconds: 7,
        };
        (0..).map(move |block| Key::new(&stamp, block * BLOCK_BYTES))
    }

    fn has(set: &Arc<HotSet>, key: &Key) -> bool {
        matches!(set.find(&LocalBlocks::new(Arc::clone(&set.blocks)), key), Found::Bytes(_))
    }

    fn pin(set: &HotSet, key: &Key) -> bool {
        set.demand.raise(key.hash());
        set.admit_pinned(key).map(Claimed::publish).is_some()
    }

    #[test]
    fn a_key_whose_line_is_full_takes_the_place_of_a_less_popular_one_there() {
        let set = HotSet::new(64 * BLOCK_BYTES, Pages::Small).unwrap();
        let first = keys().next().unwrap().hash();
        let of_line = keys().filter(|key| set.index.is_same_line(key.hash(), first));
        let of_line: Vec<_> = of_line.take(9).collect();
        assert!(of_line[..8].iter().all(|key| pin(&set, key)));
        assert!(!pin(&set, &of_line[8]), "all of them are as popular");
        (0..8).for_each(|_| set.demand.halve());
        of_line[1..8].iter().for_each(|key| set.demand.raise(key.hash()));
        assert!(pin(&set, &of_line[8]));
        assert!(!has(&set, &of_line[0]));
        assert!(of_line[1..].iter().all(|key| has(&set, key)));
        assert_eq!(set.used_bytes(), 8 * BLOCK_BYTES, "it took that one's memory");
    }

    #[test]
    fn a_pinned_block_finds_the_one_block_that_is_not_pinned() {
        let set = HotSet::new(64 * BLOCK_BYTES, Pages::Small).unwrap();
        let mut taken: Vec<Key> = Vec::new();
        for key in keys() {
            let same = taken.iter().filter(|old| set.index.is_same_line(old.hash(), key.hash()));
            if taken.len() < 65 && same.count() < 4 {
                taken.push(key);
            } else if taken.len() == 65 {
                break;
            }
        }
        assert!(taken[..64].iter().all(|key| pin(&set, key)));
        (0..8).for_each(|_| set.demand.halve());
        let (newcomer, other) = (&taken[64], &taken[20]);
        taken[..64].iter().filter(|key| *key != other).for_each(|key| {
            set.demand.raise(key.hash());
        });
        assert!(pin(&set, newcomer), "one of 64 can be replaced");
        assert!(!has(&set, other) && has(&set, newcomer));
        assert_eq!(set.evicted_bytes(), BLOCK_BYTES);
    }
}
