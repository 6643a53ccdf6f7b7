//! The pages under a pool's buffers: taken from the kernel, registered with the ring, and given back.
//!
//! When memory is short, the kernel may take seconds to find, compact and zero large pages. A worker that waits for them serves no viewer meanwhile.
//! So a worker that has viewers lets the ring's own threads take the pages, one buffer at a time, and registers a buffer only once its pages are
//! there ([`Pool::keep`], [`Pool::register`]). Before it has viewers it does the same on its own thread ([`Pool::touch`], [`Pool::within`]): the
//! server isn't ready before its memory is there, and there are no viewers to delay.
//!
//! Two calls stay on the worker's thread, because they are short. [`Pool::give_back`] frees pages, which takes a few milliseconds for the 64 MiB of a
//! large pool. Unregistering buffers never waits for an operation, because it is done only when none uses them.
//!
//! Invariants:
//! - The ring has at most one table of buffers. It is filled from its beginning, so `registered` says which buffers of a pool it has.
//! - Memory that is being given back is neither taken nor registered: work that takes pages in the background compares `epoch` after each wait.

use super::{Pool, Shared};
use crate::executor::with_core;
use crate::op::{self, Operand};
use std::io;
use std::rc::Rc;

/// The most buffers in a ring's table (`IORING_MAX_REG_BUFFERS` of Linux's `io_uring/rsrc.c`).
const REGISTERED_BUFFERS_MAX: usize = 1 << 14;

/// Bytes that one call advises on: its length has 32 bits in a ring's entry. Whole large pages.
const ADVISED_BYTES_MAX: usize = 1 << 30;

impl Pool {
    /// Registers buffers with the ring, so that reads can name them by a number. The pools take turns, buffer by buffer, until all are registered,
    /// the memlock limit is reached, or the kernel has no more memory. `pools` are all that share the ring's table, and of one size.
    ///
    /// The ring's threads take the pages, so other tasks go on meanwhile, and reads use each buffer's number as soon as there is one. It ends early
    /// if [`Self::give_back`] is called, and continues where an earlier call has ended.
    pub async fn register<'a>(pools: impl Iterator<Item = &'a Self>) {
        let Some(registration) = Registration::begin(pools) else { return };
        while let Some((pool, index)) = registration.next() {
            let populated = pool.populate_buffer(index).await;
            if populated.is_err() || registration.is_over() || pool.register_next().is_err() {
                return;
            }
        }
    }

    /// As [`Self::register`], but takes the pages on this thread. For pools that aren't in use yet.
    pub(super) fn register_now<'a>(pools: impl Iterator<Item = &'a Self>) {
        let Some(registration) = Registration::begin(pools) else { return };
        while let Some((pool, _)) = registration.next() {
            if pool.register_next().is_err() {
                return;
            }
        }
    }

    /// Takes all of the memory from the kernel now (`MADV_POPULATE_WRITE`), so that a lack of memory shows at once. It waits for the kernel; call it
    /// before the server has viewers.
    ///
    /// # Errors
    /// When there is not enough memory. On kernels before 5.14 it does nothing.
    pub fn touch(&self) -> io::Result<()> {
        self.0.is_touched.set(true);
        let (base, bytes) = (self.0.memory.base(), self.0.memory.bytes());
        // SAFETY: the mapping is ours, and the call leaves its contents as they are.
        match unsafe { libc::madvise(base.cast(), bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => unless_unknown(io::Error::last_os_error()),
        }
    }

    /// Gives the memory of free buffers of these pools back to the kernel. A buffer that is taken later gets small pages, so it costs no more than
    /// its size. Call it again for buffers that have become free since; [`Self::keep`] ends this.
    ///
    /// The ring forgets registered buffers, which it would keep in memory. That takes until no operation names one any more: operations that begin
    /// from now on don't. `pools` are all that share its table.
    pub fn give_back<'a>(pools: impl Iterator<Item = &'a Self> + Clone) {
        pools.clone().for_each(|Self(pool)| pool.begin_to_give_back());
        let has_table = pools.clone().any(|Self(pool)| pool.table_from.get().is_some());
        let is_named = pools.clone().any(|Self(pool)| pool.naming.get() > 0);
        if has_table && !is_named && with_core(|core| core.unregister_buffers()).is_ok() {
            for Self(pool) in pools.clone() {
                pool.table_from.set(None);
                pool.registered.set(0);
            }
            report_registered(None);
        }
        pools.for_each(|Self(pool)| pool.give_free_back());
    }

    /// Keeps the memory of free buffers from now on. The ring's threads ask for large pages again and, if the memory [was taken](Self::touch) before,
    /// take it again as far as there is some; the future ends when they are done. Other tasks go on meanwhile. It does not register anything: see
    /// [`Self::register`].
    pub async fn keep<'a>(pools: impl Iterator<Item = &'a Self>) {
        let kept = pools.filter(|Self(pool)| pool.gives_back.replace(false));
        // All are kept at once, before the first wait.
        let kept: Vec<_> = kept.map(|Self(pool)| (Rc::clone(pool), pool.epoch.get())).collect();
        for (pool, epoch) in kept {
            pool.use_large_pages().await;
            let taken = if pool.is_touched.get() { pool.count } else { 0 };
            for index in 0..taken {
                // If the kernel has no memory, that shows when the buffer is used, as it would without this.
                if pool.epoch.get() != epoch || pool.populate_buffer(index).await.is_err() {
                    break;
                }
            }
        }
    }
}

/// Registers the buffers of pools that share the ring's table, from the first to the last.
struct Registration {
    /// Each with its epoch.
    pools: Vec<(Rc<Shared>, u64)>,
    /// How many buffers of each pool the table has room for.
    count_each: usize,
}

impl Registration {
    /// Makes the table if there is none, and replaces an earlier call that has not finished. `None` if there is nothing to register, because memory
    /// is given back or the kernel refuses the table: it has one already, or is older than 5.19.
    fn begin<'a>(pools: impl Iterator<Item = &'a Pool>) -> Option<Self> {
        let pools: Vec<_> = pools.map(|Pool(pool)| (Rc::clone(pool), pool.next_epoch())).collect();
        let (first, _) = pools.first()?;
        if pools.iter().any(|(pool, _)| pool.gives_back.get()) {
            return None;
        }
        let count_each = first.count.min(REGISTERED_BUFFERS_MAX / pools.len());
        if first.table_from.get().is_none() {
            // No bytes are registered if the kernel refuses.
            with_core(|core| *core.features.borrow_mut().registered_bytes.get_or_insert(0));
            let count = u32::try_from(count_each * pools.len()).ok()?;
            with_core(|core| core.register_table(count)).ok()?;
            for (nth, (pool, _)) in pools.iter().enumerate() {
                pool.table_from.set(Some(nth * count_each));
            }
        }
        Some(Self { pools, count_each })
    }

    /// Returns true if memory has been given back since, or another registration has begun.
    fn is_over(&self) -> bool {
        self.pools.iter().any(|(pool, epoch)| pool.epoch.get() != *epoch)
    }

    /// The next buffer to register: its pool, and its index there.
    fn next(&self) -> Option<(&Rc<Shared>, usize)> {
        let pools = self.pools.iter().map(|(pool, _)| pool);
        let pool = pools.min_by_key(|pool| pool.registered.get())?;
        let index = pool.registered.get();
        (index < self.count_each && !self.is_over()).then_some((pool, index))
    }
}

impl Shared {
    /// Begins a new epoch, which ends all work that takes pages in the background.
    fn next_epoch(&self) -> u64 {
        self.epoch.set(self.epoch.get() + 1);
        self.epoch.get()
    }

    /// Lets one of the ring's threads take the pages of a buffer, which may be in use.
    async fn populate_buffer(self: &Rc<Self>, index: usize) -> io::Result<()> {
        let (start, bytes) = (self.start_of(index), self.buffer_bytes);
        let advice = libc::MADV_POPULATE_WRITE;
        // SAFETY: the buffer lies in the mapping, which the operation keeps, and the advice leaves its contents as they are.
        let populating = unsafe { op::advise_memory(start, bytes, advice, Rc::clone(self)) };
        let (populated, _) = populating.await;
        populated.map(drop).or_else(unless_unknown)
    }

    /// Registers the first buffer that the ring does not know yet.
    fn register_next(&self) -> io::Result<()> {
        let index = self.registered.get();
        let (iov_base, iov_len) = (self.start_of(index).cast(), self.buffer_bytes);
        let number = self.table_from.get().and_then(|from| u32::try_from(from + index).ok());
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let buffer = libc::iovec { iov_base, iov_len };
        // SAFETY: the kernel takes its own references to these pages, so they outlive even the mapping.
        with_core(|core| unsafe { core.register_buffer(number, buffer) })?;
        self.registered.set(index + 1);
        let others = with_core(|core| core.features.borrow().registered_bytes).unwrap_or(0);
        report_registered(Some(others + self.buffer_bytes));
        Ok(())
    }

    /// Asks for large pages again, on one of the ring's threads: the call waits until no other thread changes or looks up mappings, and a thread that
    /// waits for memory may keep it waiting for long.
    async fn use_large_pages(self: &Rc<Self>) {
        let (base, bytes) = self.memory.in_large_pages();
        for from in (0..bytes).step_by(ADVISED_BYTES_MAX) {
            let (start, bytes) = (base.wrapping_add(from), ADVISED_BYTES_MAX.min(bytes - from));
            // SAFETY: these bytes lie in the mapping, which the operation keeps, and the advice leaves their contents as they are.
            let advising =
                unsafe { op::advise_memory(start, bytes, libc::MADV_HUGEPAGE, Rc::clone(self)) };
            // A kernel that refuses has no large pages.
            let _ = advising.await;
        }
        if self.gives_back.get() {
            // Giving back began meanwhile, perhaps before the last piece was advised on.
            self.memory.use_no_large_pages();
        }
    }

    fn begin_to_give_back(&self) {
        self.next_epoch();
        if !self.gives_back.replace(true) {
            self.memory.use_no_large_pages();
        }
    }

    fn give_free_back(&self) {
        if self.memory.is_pinned() {
            return;
        }
        for index in self.free.borrow().iter().map(|index| *index as usize) {
            if index >= self.registered.get() {
                // SAFETY: the buffer has no holder, because it is free, and the ring does not know it. If one of the ring's threads still takes its
                // pages, it leaves their contents as they are.
                unsafe { self.memory.give_back(index * self.buffer_bytes, self.buffer_bytes) };
            }
        }
    }
}

/// An operation on a pool's memory keeps it mapped.
impl Operand for Rc<Shared> {}

/// Ignores an unknown advice: the pages are then taken when they are first used, or registered.
fn unless_unknown(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
}

/// Records how many bytes of buffers are registered with the ring; `None` if registration was not requested.
fn report_registered(bytes: Option<usize>) {
    with_core(|core| core.features.borrow_mut().registered_bytes = bytes);
}
