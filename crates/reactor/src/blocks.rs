//! Memory that the threads of a silo share, in blocks of equal size. A block is either pinned by any number of readers, or claimed by
//! the one thread that fills it.
//!
//! A pin is one atomic addition, and no thread waits for another: pinning a claimed block fails, and so does claiming a pinned one. All
//! blocks start out claimed. [`Claimed::publish`] opens a filled block to readers; [`Blocks::claim`] takes a block that has no pins.
//!
//! The memory belongs to a memfd, so the kernel can send from it too ([`Pinned::file`]). The kernel keeps referring to the pages that it
//! sends until the peer has acknowledged them, whether or not the block is still pinned. Before such a block is filled again, the caller
//! must therefore give its memory back ([`Claimed::give_memory_back`]): bytes in flight keep the old pages, and the block gets new ones.

use crate::node::prefer_node_for;
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

/// The bit of a block's state that is set while the block is claimed. The bits below it count the pins.
const CLAIMED: u32 = 1 << 31;

/// Blocks of memory that threads share.
pub struct Blocks {
    base: *mut u8,
    file: OwnedFd,
    states: Box<[AtomicU32]>,
    is_locked: bool,
}

// SAFETY: `base` points to a mapping that lives as long as this value. A block is read only through its pins and written only through its
// one claim, and its state never allows both.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Maps `count` blocks, all of them claimed. A block takes no memory until it is filled. `large_pages` asks the kernel for large
    /// pages; it grants them if `/sys/kernel/mm/transparent_hugepage/shmem_enabled` allows them (`advise` or `always`).
    ///
    /// # Errors
    /// If the process is out of descriptors or address space.
    pub fn new(count: usize, large_pages: bool) -> io::Result<(Arc<Self>, Vec<Claimed>)> {
        let bytes = count.max(1) * BLOCK_BYTES;
        // SAFETY: the name is a string that ends in zero; the call changes no memory.
        let fd = unsafe { libc::memfd_create(c"fullbore-hot".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made this descriptor, so this is its only owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at addresses of the kernel's choice, changes no other memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if large_pages {
            // SAFETY: the mapping is ours, and this advice leaves its bytes as they are.
            unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: as above. Each page is locked when it is first used; none is taken now.
        let is_locked = unsafe { libc::mlock2(base, bytes, libc::MLOCK_ONFAULT) } == 0;
        let states = (0..count).map(|_| AtomicU32::new(CLAIMED)).collect();
        let blocks = Arc::new(Self { base: base.cast(), file, states, is_locked });
        // In reverse, so that callers who pop get the lowest block first, and memory fills from its beginning.
        let claimed = (0..count as u32).rev();
        let claimed = claimed.map(|index| Claimed { blocks: Arc::clone(&blocks), index }).collect();
        Ok((blocks, claimed))
    }

    /// Has the memory come from this NUMA node, as long as that has some.
    ///
    /// # Errors
    /// If the kernel knows no such node.
    pub fn prefer_node(&self, node: u32) -> io::Result<()> {
        prefer_node_for(self.base, self.states.len().max(1) * BLOCK_BYTES, node)
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// Whether the memory is locked. The kernel never swaps locked memory out.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Claims a block, unless it is pinned or already claimed.
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
        // SAFETY: the mapping is ours. Every pin, claim and running read keeps the blocks alive, so none is left.
        unsafe { libc::munmap(self.base.cast(), bytes) };
    }
}

/// One thread's handle to the blocks. Each pin counts a reference to this handle, because the count of the blocks themselves is shared by
/// all threads.
#[derive(Clone)]
#[expect(
    clippy::redundant_allocation,
    reason = "each pin counts the outer one, so that threads do not contend for the inner count"
)]
pub struct LocalBlocks(Rc<Arc<Blocks>>);

impl LocalBlocks {
    /// For use on this thread.
    pub fn new(blocks: Arc<Blocks>) -> Self {
        Self(Rc::new(blocks))
    }

    /// Pins a block: its bytes stay as they are while the pin lives. `None` if the block is claimed.
    pub fn pin(&self, index: u32) -> Option<Pinned> {
        let state = self.0.states[index as usize].fetch_add(1, Ordering::Acquire);
        let pinned = Pinned { blocks: self.clone(), index };
        // If the block is claimed, dropping `pinned` takes the addition back.
        (state & CLAIMED == 0).then_some(pinned)
    }
}

/// A pin: while it lives, the block's bytes stay as they are.
pub struct Pinned {
    blocks: LocalBlocks,
    index: u32,
}

impl Pinned {
    /// The block's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The file that the kernel may send the block from, where it begins at `index * BLOCK_BYTES`.
    pub fn file(&self) -> &OwnedFd {
        &self.blocks.0.file
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping, which the pin keeps alive. A pinned block is not claimed, and only a claim allows writing.
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

/// A claim: no thread reads the block, and its holder may fill it.
pub struct Claimed {
    blocks: Arc<Blocks>,
    index: u32,
}

impl Claimed {
    /// The block's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Ends the claim and lets readers pin the block.
    pub fn publish(self) {
        self.blocks.states[self.index as usize].fetch_and(!CLAIMED, Ordering::Release);
    }

    /// Gives the block's memory back to the kernel. The block then reads as zeros, and takes memory again when it is filled.
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

/// What a read into a block keeps alive.
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
    // SAFETY: `filling` holds the claim and the file until the read is done. The claim keeps the mapping alive, and no other thread reads
    // or writes a claimed block.
    unsafe { op::read_into(file.as_raw_fd(), memory, bytes, file_offset, filling) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reactor, RingOptions};
    use std::io::Write;

    /// Fills a block with `byte`.
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
            assert!(local.pin(first.index()).is_none(), "a block is not read while it is filled");
            assert!(blocks.claim(first.index()).is_none(), "a block is claimed only once");
            let first = filled(first, 7).await;
            let index = first.index();
            first.publish();
            let pinned = local.pin(index).unwrap();
            assert!(pinned.iter().all(|byte| *byte == 7));
            assert!(blocks.claim(index).is_none(), "a pinned block cannot be claimed");
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
            // By now only the operation keeps the blocks alive.
            drop(fill(&file, free.pop().unwrap(), 0..BLOCK_BYTES, 0));
        };
        reactor.run(test).unwrap();
    }
}
