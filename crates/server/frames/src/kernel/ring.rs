//! Rings shared with the kernel (Documentation/networking/af_xdp.rst). One side writes entries and advances the
//! producer's index, the other reads them and advances the consumer's. Both indices count freely and wrap at 2^32.
//!
//! Invariants:
//! - The producer's index is at most a ring's length ahead of the consumer's, so neither side touches entries that the other uses. The kernel is
//!   trusted to keep its half of that. Users of the ring check the values that it writes into entries.
//! - An index is published with release ordering after the entries it covers, and read with acquire ordering before them.

use crate::kernel::mapping::Mapping;
use rustix::net::xdp::XdpRingOffset;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// `XDP_RING_NEED_WAKEUP`: the kernel wants a call when there are new entries.
const NEED_WAKEUP: u32 = 1;

/// The part that both kinds of ring share.
struct Shared<T> {
    mapping: Mapping,
    offset: XdpRingOffset,
    entries: u32,
    entry: PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    fn map(fd: BorrowedFd<'_>, at: u64, offset: XdpRingOffset, entries: u32) -> io::Result<Self> {
        assert!(entries.is_power_of_two(), "indices are masked");
        let bytes = offset.desc as usize + entries as usize * size_of::<T>();
        let mapping = Mapping::of(fd, bytes, at)?;
        let last = [Some(offset.producer), Some(offset.consumer), offset.flags];
        let fits = last.into_iter().flatten().all(|at| at % 4 == 0 && at as usize + 4 <= bytes);
        assert!(fits && offset.desc as usize % align_of::<T>() == 0, "the kernel's layout");
        Ok(Self { mapping, offset, entries, entry: PhantomData })
    }

    fn index(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `map` has checked that the mapping, which lives as long as `self`, has four aligned bytes there; both
        // sides touch them with atomic operations only.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(at as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.offset.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.offset.consumer)
    }

    fn entry(&self, index: u32) -> *mut T {
        let slot = (index & (self.entries - 1)) as usize;
        // SAFETY: the mapping was made long enough for `entries`, and the index is masked by their number.
        unsafe { self.mapping.base().add(self.offset.desc as usize).cast::<T>().add(slot) }
    }
}

/// A ring that this process fills: the fill ring, the transmit ring.
pub(crate) struct Producer<T> {
    shared: Shared<T>,
    /// The number of the next entry; may be ahead of the published index.
    next: u32,
}

impl<T: Copy> Producer<T> {
    /// Maps the ring that the kernel provides at `at` of the socket.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        at: u64,
        offset: XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        Ok(Self { shared: Shared::map(fd, at, offset, entries)?, next: 0 })
    }

    /// How many more entries fit.
    pub(crate) fn room(&self) -> u32 {
        self.shared.entries.saturating_sub(self.pending())
    }

    /// How many entries the kernel has not taken yet.
    pub(crate) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire))
    }

    /// Adds an entry. The kernel sees it once it is published.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.room() > 0, "the caller has checked that there is room");
        // SAFETY: there is room, so the slot is ours until the index is published; it is aligned and in bounds.
        unsafe { self.shared.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Lets the kernel see the pushed entries.
    pub(crate) fn publish(&mut self) {
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Returns true if the kernel waits for a call before it looks at the ring.
    pub(crate) fn needs_wakeup(&self) -> bool {
        match self.shared.offset.flags {
            Some(at) => self.shared.index(at).load(Ordering::Relaxed) & NEED_WAKEUP != 0,
            None => true,
        }
    }
}

/// A ring that the kernel fills: the receive ring, the completion ring.
pub(crate) struct Consumer<T> {
    shared: Shared<T>,
    /// The next entry to take; may be ahead of the entries given back.
    next: u32,
    /// How far the kernel had filled the ring at the last check.
    filled: u32,
}

impl<T: Copy> Consumer<T> {
    /// Maps the ring that the kernel provides at `at` of the socket.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        at: u64,
        offset: XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        Ok(Self { shared: Shared::map(fd, at, offset, entries)?, next: 0, filled: 0 })
    }

    /// Takes the next entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.next == self.filled {
            self.filled = self.shared.producer().load(Ordering::Acquire);
            if self.next == self.filled {
                return None;
            }
        }
        // SAFETY: the kernel has published this entry and does not touch it until it is given back. Any bits are a valid `T`, which is a number or a
        // plain structure of numbers.
        let value = unsafe { self.shared.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(value)
    }

    /// Gives the slots of the taken entries back to the kernel.
    pub(crate) fn release(&mut self) {
        self.shared.consumer().store(self.next, Ordering::Release);
    }
}
