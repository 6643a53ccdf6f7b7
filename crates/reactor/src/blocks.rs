//! Memory that the threads of a silo share: equal blocks, each read by those who pin it, or filled by the one who has claimed it.
//!
//! A pin is one atomic addition, and nobody waits for anybody: while a block is claimed, pinning it fails. All blocks are claimed at
//! first. [`Claimed::publish`] lets others read what was filled in; [`Blocks::claim`] takes a block that nobody has pinned.
//!
//! The memory is that of a memfd, so that the kernel can send from it too ([`Blocks::file`]). What it sends it refers to until the peer has
//! acknowledged it, pinned or not. So a block's pages are given back before it is filled with something else: what is on its way keeps
//! the old pages, and the block gets new ones.

use crate::op::{Op, Operand};
use crate::{Fd, op};
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block: a large page of x86-64, and of aarch64 with pages of 4 KiB.
pub const BLOCK_BYTES: usize = 2 << 20;

/// The bit of a state that says that the block is claimed. Below it is the number of pins.
const CLAIMED: u32 = 1 << 31;

/// Blocks of memory.
pub struct Blocks {
    base: *mut u8,
    file: OwnedFd,
    states: Box<[AtomicU32]>,
    is_locked: bool,
}

// SAFETY: `base` is an address of a mapping that lives as long as this. What lies there is read only through pins and written only through
// the one claim of its block, and the states keep these apart.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Maps `count` blocks, all of them claimed. No memory is taken before a block is filled. With `large_pages` the kernel is asked
    /// for large pages, and gives them where `/sys/kernel/mm/transparent_hugepage/shmem_enabled` allows that (`advise` or `always`).
    ///
    /// # Errors
    /// When the kernel has no descriptor or no addresses.
    pub fn new(count: usize, large_pages: bool) -> io::Result<(Arc<Self>, Vec<Claimed>)> {
        let bytes = count.max(1) * BLOCK_BYTES;
        // SAFETY: the name is a string that ends in zero; the call touches nobody's memory.
        let fd = unsafe { libc::memfd_create(c"fullbore-hot".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made this descriptor, and nobody else owns it.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, of a file that nobody else has open, touches nobody's memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if large_pages {
            // SAFETY: advice about a mapping of ours, which leaves its bytes as they are.
            unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: as above. Pages are locked as they come, none is taken now.
        let is_locked = unsafe { libc::mlock2(base, bytes, libc::MLOCK_ONFAULT) } == 0;
        let states = (0..count).map(|_| AtomicU32::new(CLAIMED)).collect();
        let blocks = Arc::new(Self { base: base.cast(), file, states, is_locked });
        // The lowest on top, so that memory fills from its beginning.
        let claimed = (0..count as u32).rev();
        let claimed = claimed.map(|index| Claimed { blocks: Arc::clone(&blocks), index }).collect();
        Ok((blocks, claimed))
    }

    /// Blocks in all.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// Whether the memory is locked: the kernel then never moves it out to a swap device.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// The file that the memory belongs to. Block `index` begins at `index * BLOCK_BYTES`.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Claims a block, if nobody reads it or has claimed it.
    pub fn claim(self: &Arc<Self>, index: u32) -> Option<Claimed> {
        let state = &self.states[index as usize];
        let claimed = state.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(|| Claimed { blocks: Arc::clone(self), index })
    }

    fn unpin(&self, index: u32) {
        self.states[index as usize].fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let bytes = self.states.len().max(1) * BLOCK_BYTES;
        // SAFETY: the mapping is ours; every pin, claim and running read holds the blocks, so none is left.
        unsafe { libc::munmap(self.base.cast(), bytes) };
    }
}

/// One thread's way to the blocks. Pins count it and not the blocks themselves, whose count all threads share.
#[derive(Clone)]
#[expect(
    clippy::redundant_allocation,
    reason = "pins count the inner one, so that threads do not share that count"
)]
pub struct LocalBlocks(Rc<Arc<Blocks>>);

impl LocalBlocks {
    /// For use on this thread.
    pub fn new(blocks: Arc<Blocks>) -> Self {
        Self(Rc::new(blocks))
    }

    /// Keeps a block as it is, for as long as the pin lives. `None` if it is claimed.
    pub fn pin(&self, index: u32) -> Option<Pinned> {
        let state = self.0.states[index as usize].fetch_add(1, Ordering::Acquire);
        let pinned = Pinned { blocks: self.clone(), index };
        // Dropping it takes the addition back.
        (state & CLAIMED == 0).then_some(pinned)
    }
}

/// A block that stays as it is.
pub struct Pinned {
    blocks: LocalBlocks,
    index: u32,
}

impl Pinned {
    /// The block's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The file that the kernel may send the block from.
    pub fn file(&self) -> &OwnedFd {
        &self.blocks.0.file
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping, which the pin keeps. A pinned block is not claimed, and only who has claimed it writes.
        unsafe {
            let start = self.blocks.0.base.add(self.index as usize * BLOCK_BYTES);
            std::slice::from_raw_parts(start, BLOCK_BYTES)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.blocks.0.unpin(self.index);
    }
}

/// A block that nobody reads: its holder may fill it.
pub struct Claimed {
    blocks: Arc<Blocks>,
    index: u32,
}

impl Claimed {
    /// The block's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Lets others read it.
    pub fn publish(self) {
        self.blocks.states[self.index as usize].fetch_and(!CLAIMED, Ordering::Release);
    }

    /// Gives the block's memory back to the kernel. It reads as zeros then, and takes memory again when it is filled.
    ///
    /// # Errors
    /// Those of `fallocate`.
    pub fn give_memory_back(&self) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let start = u64::from(self.index) * BLOCK_BYTES as u64;
        rustix::fs::fallocate(&self.blocks.file, flags, start, BLOCK_BYTES as u64)?;
        Ok(())
    }
}

/// What a read into a block holds.
pub struct Filling {
    /// The block.
    pub claimed: Claimed,
    _file: Fd,
}

impl Operand for Filling {}

/// Reads up to `range.len()` bytes at `file_offset` into `range` of a block.
///
/// # Panics
/// If `range` does not lie in a block.
pub fn fill(file: &Fd, claimed: Claimed, range: Range<usize>, file_offset: u64) -> Op<Filling> {
    assert!(range.start <= range.end && range.end <= BLOCK_BYTES);
    let offset = claimed.index as usize * BLOCK_BYTES + range.start;
    let memory = claimed.blocks.base.wrapping_add(offset);
    let bytes = range.len() as u32;
    let filling = Filling { claimed, _file: file.clone() };
    // SAFETY: the mapping stays where it is while the claim is held, nobody else reads or writes a claimed block, and `filling` holds the
    // claim and the file.
    unsafe { op::read_into(file.as_raw_fd(), memory, bytes, file_offset, filling) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reactor, RingOptions};
    use std::io::Write;

    /// Fills a block with what `byte` is.
    async fn filled(claimed: Claimed, byte: u8) -> Claimed {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![byte; BLOCK_BYTES]).unwrap();
        let file = Fd::from(OwnedFd::from(file));
        let (result, filling) = fill(&file, claimed, 0..BLOCK_BYTES, 0).await;
        assert_eq!(result.unwrap() as usize, BLOCK_BYTES);
        filling.claimed
    }

    #[test]
    fn a_block_is_either_read_or_claimed() {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async {
            let (blocks, mut free) = Blocks::new(2, true).unwrap();
            let local = LocalBlocks::new(Arc::clone(&blocks));
            let first = free.pop().unwrap();
            assert!(local.pin(first.index()).is_none(), "nobody reads what is being filled");
            assert!(blocks.claim(first.index()).is_none(), "nor claims it a second time");
            let first = filled(first, 7).await;
            let index = first.index();
            first.publish();
            let pinned = local.pin(index).unwrap();
            assert!(pinned.iter().all(|byte| *byte == 7));
            assert!(blocks.claim(index).is_none(), "nobody claims what is read");
            let again = local.pin(index).unwrap();
            drop(pinned);
            assert!(blocks.claim(index).is_none());
            drop(again);
            let claimed = blocks.claim(index).unwrap();
            claimed.give_memory_back().unwrap();
            claimed.publish();
            assert!(local.pin(index).unwrap().iter().all(|byte| *byte == 0));
        };
        reactor.run(test).unwrap();
    }

    #[test]
    fn a_read_that_is_dropped_keeps_its_block_until_the_kernel_is_done() {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async {
            let (_, mut free) = Blocks::new(1, false).unwrap();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![1; BLOCK_BYTES]).unwrap();
            let file = Fd::from(OwnedFd::from(file));
            // The blocks themselves are gone by then but for the operation.
            drop(fill(&file, free.pop().unwrap(), 0..BLOCK_BYTES, 0));
        };
        reactor.run(test).unwrap();
    }
}
