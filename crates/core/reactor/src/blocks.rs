//! Memory that the threads of a silo share, in blocks of equal size. A block is either pinned by any number of readers, or claimed by the one thread
//! that fills it.
//!
//! A pin is one atomic addition, and no thread waits for another: pinning a claimed block fails, and so does claiming a pinned one. All
//! blocks start out claimed. [`Claimed::publish`] opens a filled block to readers; [`Blocks::claim`] takes a block that has no pins.
//!
//! The memory belongs to a memfd, so the kernel can send from it too ([`Pinned::file`]). The kernel keeps referring to the pages that it
//! sends until the peer has acknowledged them, whether or not the block is still pinned. Before such a block is filled again, the caller
//! must therefore give its memory back ([`Claimed::give_memory_back`]): bytes in flight keep the old pages, and the block gets new ones.
//!
//! [`Pages::Reserved`] are different. The kernel sends from no file of such pages, and memory that is given back goes to their pool, where no program
//! that is short of memory can get it. So the kernel never sends from them, and they are not given back.

use crate::mapping::{LARGE_PAGE_BYTES, Mapping};
use crate::node::prefer_node_for;
use crate::op::{Op, Operand};
use crate::{Fd, op};
use std::cell::Cell;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block: one large page.
pub const BLOCK_BYTES: usize = LARGE_PAGE_BYTES;

/// How many blocks take small pages without asking after the kernel has refused a large page: each refusal costs a search for free memory.
const UNASKED_AFTER_REFUSAL: u32 = 255;

/// The bit of a block's state that is set while the block is claimed. The bits below it count the pins.
const CLAIMED: u32 = 1 << 31;

/// The kind of pages under the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages of the usual size.
    Small,
    /// Large pages, if the kernel has them.
    Transparent,
    /// Large pages from the pool that the operator has reserved (hugetlb).
    Reserved,
}

/// Blocks of memory that threads share.
pub struct Blocks {
    memory: Mapping,
    file: OwnedFd,
    states: Box<[AtomicU32]>,
    pages: Pages,
    is_locked: bool,
    /// How many more blocks take small pages without asking for a large one.
    unasked: AtomicU32,
}

// SAFETY: the mapping lives as long as this value. A block is read only through its pins and written only through its
// one claim, and its state never allows both.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Maps `count` blocks, all of them claimed. A block takes no memory until it is filled. The pool of [reserved](Pages::Reserved) pages promises
    /// enough of them now; call [`Self::take_reserved`] before any is used.
    ///
    /// # Errors
    /// If the process is out of descriptors or address space, or the pool has too few pages.
    pub fn new(count: usize, pages: Pages) -> io::Result<(Arc<Self>, Vec<Claimed>)> {
        let bytes = count.max(1) * BLOCK_BYTES;
        let file = memfd(pages)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let memory = Mapping::of_file(file.as_fd(), bytes, pages == Pages::Reserved)?;
        let base = memory.base.cast();
        // Reserved pages are never swapped out.
        let is_locked = pages == Pages::Reserved
            // SAFETY: the mapping is ours, and locking leaves its bytes as they are. Each page is locked when it is first used; none is taken now.
            || unsafe { libc::mlock2(base, bytes, libc::MLOCK_ONFAULT) } == 0;
        let states = (0..count).map(|_| AtomicU32::new(CLAIMED)).collect();
        let unasked = AtomicU32::new(0);
        let blocks = Arc::new(Self { memory, file, states, pages, is_locked, unasked });
        // In reverse, so that callers who pop get the lowest block first, and memory fills from its beginning.
        let claimed = (0..count as u32).rev();
        let claimed = claimed
            .map(|index| Claimed {
                blocks: Arc::clone(&blocks),
                index,
                has_memory: Cell::new(false),
            })
            .collect();
        Ok((blocks, claimed))
    }

    /// The kind of pages under the blocks.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Prefers memory from this NUMA node, as long as the node has some.
    ///
    /// # Errors
    /// If the kernel knows no such node.
    pub fn prefer_node(&self, node: u32) -> io::Result<()> {
        prefer_node_for(self.memory.base, self.memory.bytes, node)
    }

    /// Takes all [reserved](Pages::Reserved) pages out of the pool, from the preferred node as long as it has some. Does nothing for other pages.
    ///
    /// The pool's promise is not enough: a limit of the control group (`hugetlb.2MB.max`), or a cpuset whose nodes have too few pages, shows only
    /// when a page is first used. A read into it then fails with `EFAULT`, each time.
    ///
    /// # Errors
    /// If the kernel does not give all of them.
    pub fn take_reserved(&self) -> io::Result<()> {
        if self.pages != Pages::Reserved {
            return Ok(());
        }
        let count = self.states.len();
        // The kernel writes zeros into each page first. Several threads do that faster, and the server's start waits for it.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = count.div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let take =
                |first| scope.spawn(move || self.take_range(first..count.min(first + share)));
            let taken: Vec<_> = (0..count).step_by(share).map(take).collect();
            taken.into_iter().try_for_each(|taken| taken.join().expect("it cannot panic"))
        })
    }

    fn take_range(&self, blocks: Range<usize>) -> io::Result<()> {
        let start = self.memory.base.wrapping_add(blocks.start * BLOCK_BYTES).cast();
        let bytes = blocks.len() * BLOCK_BYTES;
        // SAFETY: these blocks lie in the mapping, which is ours, and the call leaves its bytes as they are.
        match unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// Returns true if the memory is locked. The kernel never swaps locked memory out.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Claims a block, unless it is pinned or already claimed.
    pub fn claim(self: &Arc<Self>, index: u32) -> Option<Claimed> {
        let state = &self.states[index as usize];
        let claimed = state.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(|| Claimed {
            blocks: Arc::clone(self),
            index,
            has_memory: Cell::new(true),
        })
    }

    fn unpin(&self, index: u32) {
        self.states[index as usize].fetch_sub(1, Ordering::Release);
    }
}

fn memfd(pages: Pages) -> io::Result<OwnedFd> {
    let huge = libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;
    let flags = libc::MFD_CLOEXEC | if pages == Pages::Reserved { huge } else { 0 };
    // SAFETY: the name is a string that ends in zero; the call changes no memory.
    let fd = unsafe { libc::memfd_create(c"fullbore-hot".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just made this descriptor, so this is its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One thread's handle to the blocks. Each pin counts a reference to this handle, because all threads share the count of the blocks themselves.
#[derive(Clone)]
#[expect(
    clippy::redundant_allocation,
    reason = "each pin counts the outer one, so that threads do not contend for the inner count"
)]
pub struct LocalBlocks(Rc<Arc<Blocks>>);

impl LocalBlocks {
    /// A handle for this thread.
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

    /// Returns true if it is a block of `blocks`.
    pub fn is_of(&self, blocks: &LocalBlocks) -> bool {
        Rc::ptr_eq(&self.blocks.0, &blocks.0)
    }

    /// The file from which the kernel may send the block, where the block begins at `index * BLOCK_BYTES`. None for reserved pages: the kernel sends
    /// from no file of them.
    pub fn file(&self) -> Option<&OwnedFd> {
        (self.blocks.0.pages != Pages::Reserved).then_some(&self.blocks.0.file)
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping, which the pin keeps alive. A pinned block is not claimed, and only a claim allows writing.
        unsafe {
            let start = self.blocks.0.memory.base.add(self.index as usize * BLOCK_BYTES);
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
    /// Set once it took memory, until it gives the memory back.
    has_memory: Cell<bool>,
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

    /// Gives the block's memory back to the kernel. The block then reads as zeros, and takes memory again when it is filled. Reserved pages are kept:
    /// giving them back would also give up the claim to them, and the next use could raise SIGBUS.
    ///
    /// # Errors
    /// Those of `fallocate`.
    pub fn give_memory_back(&self) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        if self.blocks.pages == Pages::Reserved {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let start = u64::from(self.index) * BLOCK_BYTES as u64;
        rustix::fs::fallocate(&self.blocks.file, flags, start, BLOCK_BYTES as u64)?;
        self.has_memory.set(false);
        Ok(())
    }

    /// The start of the block.
    fn start(&self) -> *mut u8 {
        self.blocks.memory.base.wrapping_add(self.index as usize * BLOCK_BYTES)
    }

    /// Returns true if a large page should be requested. Call it once for each time that the block takes memory.
    fn wants_large_page(&self) -> bool {
        let blocks = &self.blocks;
        if self.has_memory.replace(true) || blocks.pages != Pages::Transparent {
            return false;
        }
        let fewer = |unasked: u32| unasked.checked_sub(1);
        blocks.unasked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    }
}

impl Operand for Claimed {}

/// Takes memory for a block that will be filled, unless it has some: a large page if it may. By default kernels give shared memory no large pages
/// unless the operator allows it (`shmem_enabled`), but they make one of a block on request (`MADV_COLLAPSE`, Linux 6.1), if its first page is there.
/// On an idle machine that took 0.3 ms, and 512 small pages take 2 ms (Zen 3, Linux 6.18); a virtual machine that has not used the memory before
/// waits 3 ms for its host. So one of the ring's threads does it, and the worker's viewers do not wait. If the kernel refuses, the read that fills
/// the block takes small pages.
pub async fn take_memory(claimed: Claimed) -> Claimed {
    if !claimed.wants_large_page() {
        return claimed;
    }
    let start = claimed.start();
    // SAFETY: the block lies in the mapping, and no other thread reads or writes a claimed one.
    unsafe { start.write_volatile(0) };
    // SAFETY: the block lies in the mapping, which the claim keeps alive.
    let (collapsed, claimed) = unsafe { op::collapse(start, BLOCK_BYTES, claimed) }.await;
    if collapsed.is_err() {
        claimed.blocks.unasked.store(UNASKED_AFTER_REFUSAL, Ordering::Relaxed);
    }
    claimed
}

/// Owned by a read into a block while it runs.
pub struct Filling {
    /// The block.
    pub claimed: Claimed,
    _file: Fd,
}

impl Operand for Filling {}

/// Reads up to `range.len()` bytes at `file_offset` into `range` of a block. Call [`take_memory`] first.
///
/// # Panics
/// If `range` does not lie in a block.
pub fn fill(file: &Fd, claimed: Claimed, range: Range<usize>, file_offset: u64) -> Op<Filling> {
    assert!(range.start <= range.end && range.end <= BLOCK_BYTES);
    let memory = claimed.start().wrapping_add(range.start);
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
        let claimed = take_memory(claimed).await;
        let (result, filling) = fill(&file, claimed, 0..BLOCK_BYTES, 0).await;
        assert_eq!(result.unwrap() as usize, BLOCK_BYTES);
        filling.claimed
    }

    #[test]
    fn a_block_is_either_read_or_claimed() {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async {
            let (blocks, mut free) = Blocks::new(2, Pages::Transparent).unwrap();
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

    /// Returns true if the block lies in a large page: `ShmemPmdMapped` of its mapping (proc_pid_smaps(5)).
    fn is_large(block: &Pinned) -> bool {
        let start = format!("{:x}-", block.blocks.0.memory.base.addr());
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let line = own.into_iter().find(|line| line.starts_with("ShmemPmdMapped:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10 >= BLOCK_BYTES
    }

    #[test]
    fn a_block_is_a_large_page_if_that_is_asked_for() {
        let forced = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        let is_forced = |set: String| set.contains("[always]") || set.contains("[force]");
        if forced.is_ok_and(|set| !is_forced(set)) {
            for (pages, large_pages) in [(Pages::Transparent, true), (Pages::Small, false)] {
                let test = async move {
                    let (blocks, mut free) = Blocks::new(1, pages).unwrap();
                    filled(free.pop().unwrap(), 3).await.publish();
                    let is_refused = blocks.unasked.load(Ordering::Relaxed) > 0;
                    let block = LocalBlocks::new(blocks).pin(0).unwrap();
                    assert_eq!(is_large(&block), large_pages && !is_refused);
                    if is_refused {
                        eprintln!(
                            "skipped: this kernel refuses large pages (before 6.1, or it has none left)"
                        );
                    }
                    assert!(block.iter().all(|byte| *byte == 3));
                };
                Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
            }
        } else {
            eprintln!("skipped: this kernel has no large pages, or gives them unasked");
        }
    }

    #[test]
    fn a_read_that_is_dropped_keeps_its_block_until_the_kernel_is_done() {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async {
            let (_, mut free) = Blocks::new(1, Pages::Small).unwrap();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![1; BLOCK_BYTES]).unwrap();
            let file = Fd::from(OwnedFd::from(file));
            // From here on only the operation keeps the blocks alive.
            drop(fill(&file, free.pop().unwrap(), 0..BLOCK_BYTES, 0));
        };
        reactor.run(test).unwrap();
    }
}
