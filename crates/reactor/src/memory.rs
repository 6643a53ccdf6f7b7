//! Memory that is made in one place and used in several, on several threads: the owner of each part is the only one who touches its bytes.
//!
//! A kernel that is told of memory (a ring of a network card) wants it in one piece. So it is mapped in one piece, and cut.

use crate::mapping::Mapping;
use crate::node::prefer_node_for;
use std::io;
use std::sync::Arc;

/// Bytes of a mapping, and the right to touch them.
pub struct MemoryPart {
    whole: Arc<Whole>,
    start: usize,
    bytes: usize,
    /// Somebody else holds the pages, so they must stay what is mapped here.
    is_pinned: bool,
}

/// What all parts are of.
struct Whole(Mapping);

// SAFETY: the mapping belongs to the process, not to a thread. Its parts have no byte in common, and each byte is touched by the owner of its part
// alone. What is done with the whole through a part only advises the kernel.
unsafe impl Send for Whole {}
// SAFETY: as above.
unsafe impl Sync for Whole {}

impl MemoryPart {
    /// New memory, zeroed. `large_pages` asks the kernel for large pages.
    ///
    /// # Errors
    /// When the address space cannot be had.
    pub fn new(bytes: usize, large_pages: bool) -> io::Result<Self> {
        let whole = Arc::new(Whole(Mapping::anonymous(bytes, large_pages)?));
        Ok(Self { whole, start: 0, bytes, is_pinned: false })
    }

    /// The first `bytes` of it. This is the rest then.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_to(&mut self, bytes: usize) -> Self {
        assert!(bytes <= self.bytes, "a part of this memory");
        let first = Self { whole: Arc::clone(&self.whole), bytes, ..*self };
        self.start += bytes;
        self.bytes -= bytes;
        first
    }

    /// Notes that the kernel holds the pages. Whoever has this part then never gives them back: the kernel would go on with the pages from
    /// before, and this process with new ones.
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

    /// Whether the kernel holds the pages.
    pub(crate) fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// Has its pages come from `node`, whoever uses them first. If the kernel refuses, that is noted, and memory is where it is used first.
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

    /// Gives these bytes, whole pages, back to the kernel. They are zero when they are next used.
    ///
    /// # Panics
    /// If they are not all of this part, or it is pinned.
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
        // SAFETY: the page is of this part.
        unsafe { rest.base().write(7) };
        let rest = std::thread::spawn(move || rest).join().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { rest.base().read() }, 7);
    }

    /// What a buffer has in it after free buffers were given back.
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
