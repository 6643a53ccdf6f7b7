//! Memory that is allocated in one place and used in several, on several threads: only the owner of each part touches its bytes.
//!
//! A kernel interface that registers memory (a NIC's ring) wants it in one piece. So it is mapped in one piece, and cut.

use crate::mapping::Mapping;
use crate::node::prefer_node_for;
use std::io;
use std::sync::Arc;

/// Bytes of a mapping, and the right to touch them.
pub struct MemoryPart {
    whole: Arc<Whole>,
    start: usize,
    bytes: usize,
    /// Set if the kernel holds the pages, so that they must stay mapped here.
    is_pinned: bool,
}

/// The mapping that all parts lie in.
struct Whole(Mapping);

// SAFETY: the mapping belongs to the process, not to a thread. Its parts have no byte in common, and only the owner of a part touches its bytes.
// Calls on the whole through a part only advise the kernel.
unsafe impl Send for Whole {}
// SAFETY: as above.
unsafe impl Sync for Whole {}

impl MemoryPart {
    /// New memory, zeroed. `large_pages` asks the kernel for large pages.
    ///
    /// # Errors
    /// If there is no address space for it.
    pub fn new(bytes: usize, large_pages: bool) -> io::Result<Self> {
        let whole = Arc::new(Whole(Mapping::anonymous(bytes, large_pages)?));
        Ok(Self { whole, start: 0, bytes, is_pinned: false })
    }

    /// Cuts off the first `bytes` and returns them. `self` keeps the rest.
    ///
    /// # Panics
    /// If it is shorter.
    pub fn split_to(&mut self, bytes: usize) -> Self {
        assert!(bytes <= self.bytes, "a part of this memory");
        let first = Self { whole: Arc::clone(&self.whole), bytes, ..*self };
        self.start += bytes;
        self.bytes -= bytes;
        first
    }

    /// Records that the kernel holds the pages. They are never given back then: the kernel would go on with the old pages, and this process would get
    /// new ones.
    pub fn pin(&mut self) {
        self.is_pinned = true;
    }

    /// Its first byte.
    pub fn base(&self) -> *mut u8 {
        self.whole.0.base.wrapping_add(self.start)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the kernel holds the pages.
    pub(crate) fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// Prefers `node` for its pages, whichever thread uses them first. If the kernel refuses, that is recorded, and pages come from the node that
    /// first uses them.
    pub fn prefer_node(&self, node: u32) {
        let _ = prefer_node_for(self.base(), self.bytes, node);
    }

    /// As [`Mapping::in_large_pages`]; of memory that was cut, for all parts.
    pub(crate) fn in_large_pages(&self) -> (*mut u8, usize) {
        self.whole.0.in_large_pages()
    }

    /// As [`Mapping::use_no_large_pages`]; of memory that was cut, for all parts.
    pub(crate) fn use_no_large_pages(&self) {
        self.whole.0.use_no_large_pages();
    }

    /// Gives these bytes, whole pages, back to the kernel. They are zero when they are used next.
    ///
    /// # Panics
    /// If they do not all lie in this part, or it is pinned.
    ///
    /// # Safety
    /// As for [`Mapping::give_back`].
    pub(crate) unsafe fn give_back(&self, from: usize, bytes: usize) {
        assert!(from + bytes <= self.bytes && !self.is_pinned);
        // SAFETY: the caller's promise.
        unsafe { self.whole.0.give_back(self.start + from, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, PoolOptions};

    #[test]
    fn parts_lie_behind_one_another_and_keep_the_whole() {
        let mut rest = MemoryPart::new(3 * 4096, false).unwrap();
        let base = rest.base();
        let first = rest.split_to(4096);
        assert_eq!((first.base(), first.bytes()), (base, 4096));
        assert_eq!((rest.base(), rest.bytes()), (base.wrapping_add(4096), 2 * 4096));
        drop(first);
        // SAFETY: the page belongs to this part.
        unsafe { rest.base().write(7) };
        let rest = std::thread::spawn(move || rest).join().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { rest.base().read() }, 7);
    }

    /// The first byte of a buffer after free buffers were given back.
    fn kept_in(memory: MemoryPart) -> u8 {
        let options = PoolOptions {
            buffer_bytes: 4096,
            count: 3,
            register: false,
            fifo: false,
            large_pages: false,
        };
        let pools = Pool::within(vec![memory], options);
        assert_eq!(pools[0].count(), 2, "there is no room for more");
        pools[0].try_take().unwrap()[0] = 7;
        Pool::give_back(pools.iter());
        pools[0].try_take().unwrap()[0]
    }

    #[test]
    fn a_pool_gives_back_only_what_nobody_else_holds() {
        assert_eq!(kept_in(MemoryPart::new(2 * 4096 + 100, false).unwrap()), 0);
        let mut memory = MemoryPart::new(2 * 4096 + 100, false).unwrap();
        memory.pin();
        assert_eq!(kept_in(memory), 7);
    }
}
