//! The hot set: the parts of films that many ask for, in memory of our own.
//!
//! What lies here costs no read: records are sealed straight from it, where a window of the page cache is copied into a buffer first. A block
//! is 2 MiB of one version of one file. It is filled by a read past the page cache, and what the page cache has of it is dropped there, so
//! nothing lies in memory twice.
//!
//! **What gets in.** Each viewer that comes to a block counts as one request for it (`demand`). A block that was asked for at least twice
//! gets in where there is room. Where there is none it takes the place of the least wanted of a few blocks, if it is wanted more itself. So
//! going once through the library changes nothing.
//!
//! **Whose bytes they are.** A block's key has all that tells one version of a file from another. A reader pins the block, compares the key,
//! and asks the file whether it is still that version, as after any read. A file that was changed a moment ago is not let in: a clock that
//! ticks every few milliseconds could not tell the next change from the last.
//!
//! Workers of one silo share a hot set. Finding a block reads one cache line of the index and pins the block by one atomic addition. Only
//! what changes the set takes a lock, and a worker that does not get it at once goes without.

mod demand;
mod index;
mod key;
mod local;

pub(crate) use local::Hot;
pub use local::{HotPart, LocalHotSet};

use demand::Demand;
use index::Index;
use key::{Key, SharedKey};
use reactor::blocks::{self, Blocks, Claimed, LocalBlocks, Pinned};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = blocks::BLOCK_BYTES as u64;

/// Requests after which a block is worth memory.
const REQUESTS_MIN: u8 = 2;

/// Blocks among which the least wanted has to make room. Eight find one of the least wanted fifth five times out of six.
const VICTIMS: usize = 8;

/// The hot set of a silo.
pub struct HotSet {
    blocks: Arc<Blocks>,
    keys: Box<[SharedKey]>,
    index: Index,
    demand: Demand,
    /// Blocks that the kernel was told to send: it may still refer to their pages.
    lent: Box<[AtomicBool]>,
    /// Blocks that it may still begin to use.
    growth_left: AtomicU64,
    holdings: Mutex<Holdings>,
    evicted: AtomicU64,
}

/// What only those who change the set touch.
struct Holdings {
    free: Vec<Claimed>,
    /// The next block to look at when somebody has to make room.
    next: u32,
}

/// What the index knows of a block.
enum Found {
    /// Its bytes.
    Bytes(Pinned),
    /// Somebody is filling it.
    Filling,
    Nothing,
}

impl HotSet {
    /// A set of at most `bytes`. It takes memory as it fills.
    ///
    /// # Errors
    /// When the kernel has no addresses.
    pub fn new(bytes: u64, large_pages: bool) -> io::Result<Arc<Self>> {
        let count = (bytes / BLOCK_BYTES) as usize;
        let (blocks, free) = Blocks::new(count, large_pages)?;
        Ok(Arc::new(Self {
            keys: (0..count).map(|_| SharedKey::default()).collect(),
            index: Index::new(count),
            demand: Demand::new(count),
            lent: (0..count).map(|_| AtomicBool::new(false)).collect(),
            growth_left: AtomicU64::new(count as u64),
            holdings: Mutex::new(Holdings { free, next: 0 }),
            evicted: AtomicU64::new(0),
            blocks,
        }))
    }

    /// Bytes of blocks that are in use.
    pub fn used_bytes(&self) -> u64 {
        (self.blocks.count() - self.hold().free.len()) as u64 * BLOCK_BYTES
    }

    /// Bytes that it may use at most.
    pub fn bytes_max(&self) -> u64 {
        self.blocks.count() as u64 * BLOCK_BYTES
    }

    /// Bytes that made room for others, or were given back.
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted.load(Relaxed) * BLOCK_BYTES
    }

    /// Whether its memory is locked.
    pub fn is_locked(&self) -> bool {
        self.blocks.is_locked()
    }

    /// How many bytes more than now it may use, until this is called again. At first it may use all of them.
    pub fn let_grow(&self, bytes: u64) {
        self.growth_left.store(bytes / BLOCK_BYTES, Relaxed);
    }

    /// Gives at least `bytes` back to the kernel, if nobody is just reading all of them, and stops growing. Returns the bytes given back.
    pub fn give_back(&self, bytes: u64) -> u64 {
        self.let_grow(0);
        let mut holdings = self.hold();
        let mut given = 0;
        for _ in 0..self.blocks.count() {
            if given >= bytes {
                break;
            }
            let Some(claimed) = self.evict(&mut holdings, u16::MAX) else { continue };
            if claimed.give_memory_back().is_ok() {
                given += BLOCK_BYTES;
            }
            holdings.free.push(claimed);
        }
        given
    }

    fn hold(&self) -> MutexGuard<'_, Holdings> {
        // Nothing in there is half done when a thread panics.
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Takes a block for `key`, which was asked for `requests` times: a free one, or that of somebody less wanted. It stands in the index
    /// from then on.
    fn admit(&self, key: &Key, requests: u8) -> Option<Claimed> {
        let mut holdings = match self.holdings.try_lock() {
            Ok(holdings) => holdings,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let hash = key.hash();
        // Somebody else may have been faster.
        if self.index.candidates(hash).any(|block| self.keys[block as usize].get() == *key) {
            return None;
        }
        let growth_left = self.growth_left.load(Relaxed);
        let free = if growth_left > 0 { holdings.free.pop() } else { None };
        if free.is_some() {
            self.growth_left.store(growth_left - 1, Relaxed);
        }
        let claimed = match free {
            Some(claimed) => claimed,
            None => self.evict(&mut holdings, requests.into())?,
        };
        self.keys[claimed.index() as usize].set(key);
        if self.index.insert(hash, claimed.index()) {
            return Some(claimed);
        }
        holdings.free.push(claimed);
        None
    }

    /// Takes the block away that is the least wanted of a few, if it was asked for less than `requests` times.
    fn evict(&self, holdings: &mut Holdings, requests: u16) -> Option<Claimed> {
        let count = self.blocks.count() as u32;
        let mut least: Option<(u16, u32, u64)> = None;
        for _ in 0..VICTIMS.min(count as usize) {
            // Blocks of one film lie side by side, so the step is long; it is a prime, so it comes to all of them.
            holdings.next = ((u64::from(holdings.next) + 0x9e37_79b1) % u64::from(count)) as u32;
            let block = holdings.next;
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
        if self.lent[block as usize].swap(false, Relaxed) && claimed.give_memory_back().is_err() {
            // Nobody may write there any more. That has no cause that is known of, and costs one block.
            return None;
        }
        Some(claimed)
    }

    /// Takes a block back whose fill has come to nothing.
    fn take_back(&self, key: &Key, claimed: Claimed) {
        let mut holdings = self.hold();
        self.index.remove(key.hash(), claimed.index());
        holdings.free.push(claimed);
    }
}
