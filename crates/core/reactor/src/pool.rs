//! A bounded pool of equal buffers, last in, first out: the buffer taken next is the one used last, which is the one most likely still in the cache
//! (Atlas's rule).
//!
//! An eighth of a pool is reserved for holders that finish soon ([`Pool::take`]): a caller that holds a buffer for as long as a disk takes
//! ([`Pool::take_spare`]) never gets those. So however many wait for a disk, the others go on.
//!
//! Nor does one disk get all of the rest: it may hold three times what it leaves (dynamic thresholds, as in switches with shared memory: Choudhury
//! and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). So a disk that hangs, with each of its buffers, stops no reads from other disks, and a
//! single busy disk gets three quarters.
//!
//! The memory under the buffers is managed in `pages`.

mod pages;

use crate::memory::MemoryPart;
use crate::node::preferred_node;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A pool of `count` buffers of `buffer_bytes` each, in one mapping. Memory is touched only when a buffer is first used.
#[derive(Clone)]
pub struct Pool(Rc<Shared>);

struct Shared {
    memory: MemoryPart,
    buffer_bytes: usize,
    count: usize,
    /// How many of these [`Pool::take_spare`] leaves.
    kept: usize,
    /// The ring's number for the first buffer, if the ring has a table for this pool's buffers.
    table_from: Cell<Option<usize>>,
    /// How many buffers, from the first on, are registered with the ring.
    registered: Cell<usize>,
    /// Changes when memory is given back, and when a registration begins.
    epoch: Cell<u64>,
    /// Operations under way that name a buffer by its number.
    naming: Cell<usize>,
    /// Set while memory of free buffers [is given back](Pool::give_back).
    gives_back: Cell<bool>,
    /// Set if all memory [was taken at once](Pool::touch).
    is_touched: Cell<bool>,
    /// First in, first out instead, to measure what last-in-first-out is worth.
    fifo: bool,
    free: RefCell<VecDeque<u32>>,
    /// Buffers that are held for something that waits for this disk.
    held: RefCell<BTreeMap<Disk, usize>>,
    /// Callers with reserved buffers first, then disk by disk; each queue in order of arrival. No queue is empty.
    waiting: RefCell<BTreeMap<For, BTreeMap<u64, Waker>>>,
    waits: Cell<u64>,
}

/// A number for each disk.
type Disk = u64;

/// The purpose of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    /// Work that is done soon.
    Now,
    /// Work that waits for a disk.
    Waiting(Disk),
}

/// One disk may hold at most this many times what is left.
const SHARE_OF_LEFT: usize = 3;

/// Settings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Bytes per buffer: a multiple of the page size, so that each is fit for direct reads.
    pub buffer_bytes: usize,
    /// The most buffers.
    pub count: usize,
    /// Registers buffers with the ring, as many as the memlock limit allows.
    pub register: bool,
    /// Hands out the buffer that was unused longest instead of the one used last.
    pub fifo: bool,
    /// Asks the kernel for large pages.
    pub large_pages: bool,
}

impl Pool {
    /// Maps the memory, on the NUMA node that the thread prefers, and registers as many buffers as it may; the ring's features then show how many.
    ///
    /// # Errors
    /// If there is no address space for it.
    ///
    /// # Panics
    /// If a size is zero or not a multiple of the page size.
    pub fn new(options: PoolOptions) -> io::Result<Self> {
        let mut pools = Self::on_nodes(options, &[preferred_node()])?;
        Ok(pools.pop().expect("one for each node"))
    }

    /// As [`Self::new`], but makes a pool on each of these NUMA nodes; `None` is any. They share the ring's table of registered buffers.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn on_nodes(options: PoolOptions, nodes: &[Option<u32>]) -> io::Result<Vec<Self>> {
        let bytes = options.count * options.buffer_bytes;
        let memories = nodes.iter().map(|node| memory_on(*node, bytes, options.large_pages));
        Ok(Self::within(memories.collect::<io::Result<_>>()?, options))
    }

    /// As [`Self::on_nodes`], but makes the pools in existing memory. Each gets as many buffers as fit into the smallest of `memories`, and no more
    /// than the options allow.
    ///
    /// # Panics
    /// If one is too small for a buffer, and as [`Self::new`].
    pub fn within(memories: Vec<MemoryPart>, options: PoolOptions) -> Vec<Self> {
        assert!(options.buffer_bytes > 0 && options.buffer_bytes % 4096 == 0);
        let room = memories.iter().map(|memory| memory.bytes() / options.buffer_bytes).min();
        let count = options.count.min(room.unwrap_or(options.count));
        assert!(count > 0, "room for a buffer");
        let options = PoolOptions { count, ..options };
        let pools: Vec<_> = memories.into_iter().map(|memory| Self::of(memory, options)).collect();
        if options.register {
            // The worker has no viewers yet, so the pages delay no one.
            Self::register_now(pools.iter());
        }
        pools
    }

    fn of(memory: MemoryPart, options: PoolOptions) -> Self {
        // Low indices on top: they are the registered ones.
        let free =
            (0..u32::try_from(options.count).expect("fewer than 2^32 buffers")).rev().collect();
        Self(Rc::new(Shared {
            memory,
            buffer_bytes: options.buffer_bytes,
            count: options.count,
            kept: (options.count / 8).max(1).min(options.count - 1),
            table_from: Cell::new(None),
            registered: Cell::new(0),
            epoch: Cell::new(0),
            naming: Cell::new(0),
            gives_back: Cell::new(false),
            is_touched: Cell::new(false),
            fifo: options.fifo,
            free: RefCell::new(free),
            held: RefCell::default(),
            waiting: RefCell::default(),
            waits: Cell::new(0),
        }))
    }

    /// A buffer, when one is free. Its bytes are whatever was there before, or zero.
    pub fn try_take(&self) -> Option<Buffer> {
        let mut free = self.0.free.borrow_mut();
        let index = if self.0.fifo { free.pop_front() } else { free.pop_back() }?;
        drop(free);
        Some(Buffer { pool: Rc::clone(&self.0), index, held_for: None })
    }

    /// Waits for a buffer. Callers are served in order of arrival.
    pub async fn take(&self) -> Buffer {
        self.take_for(For::Now).await
    }

    /// As [`Self::take`], for a caller that holds it while it waits for `disk`: leaves some buffers for the others.
    pub async fn take_spare(&self, disk: u64) -> Buffer {
        self.take_for(For::Waiting(disk)).await
    }

    async fn take_for(&self, wanted: For) -> Buffer {
        if let Some(buffer) = self.take_in_turn(wanted, u64::MAX) {
            return buffer;
        }
        self.0.waits.set(self.0.waits.get() + 1);
        let mut place = Place { pool: self, wanted, number: self.0.waits.get() };
        poll_fn(|cx| place.poll(cx)).await
    }

    /// A buffer for the caller that arrived as `number`, if it is its turn.
    fn take_in_turn(&self, wanted: For, number: u64) -> Option<Buffer> {
        if !self.0.is_turn_of(wanted, number) {
            return None;
        }
        let mut buffer = self.try_take()?;
        if let For::Waiting(disk) = wanted {
            buffer.hold_for(disk);
        }
        Some(buffer)
    }

    /// Returns whether `buffer`, which [`Self::take`] gave, may be held like one of [`Self::take_spare`] from now on: enough are left, and no caller
    /// waits for one to hold.
    pub fn may_hold(&self, buffer: &mut Buffer, disk: u64) -> bool {
        let has_room = self.0.has_room_beside(For::Waiting(disk), 1);
        let may_hold = has_room && !self.0.anybody_has_room();
        if may_hold {
            buffer.hold_for(disk);
        }
        may_hold
    }

    /// Buffers that are not taken.
    pub fn free(&self) -> usize {
        self.0.free.borrow().len()
    }

    /// Buffers in all.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Bytes per buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes
    }

    /// How often a caller had to wait for a buffer.
    pub fn waits(&self) -> u64 {
        self.0.waits.get()
    }

    /// Returns true if so few buffers are left that idle ones should be given back, or a caller waits for one. (Excluding callers whose disk has its
    /// share: they would not get it.)
    pub fn is_scarce(&self) -> bool {
        self.free() * 4 < self.0.count
            || self.free() <= self.0.kept
            || self.0.waiting.borrow().keys().any(|wanted| self.0.is_within_share(*wanted, 0))
    }

    /// Returns true if [`Self::take_spare`] would wait for a buffer for this disk, or take one of the last.
    pub fn is_scarce_for(&self, disk: u64) -> bool {
        let is_waited_for = self.0.waiting.borrow().contains_key(&For::Waiting(disk));
        is_waited_for || self.is_scarce() || !self.0.has_room_beside(For::Waiting(disk), 0)
    }
}

/// Memory for a pool, from `node` if one is given.
fn memory_on(node: Option<u32>, bytes: usize, large_pages: bool) -> io::Result<MemoryPart> {
    let memory = MemoryPart::new(bytes, large_pages)?;
    if let Some(node) = node {
        // Set before first use: a large page may reach into the pool of another thread, unless that pool prefers another node.
        memory.prefer_node(node);
    }
    Ok(memory)
}

/// A place in a queue for a buffer. Leaving it, served or not, lets the next one check.
struct Place<'a> {
    pool: &'a Pool,
    wanted: For,
    number: u64,
}

impl Place<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Buffer> {
        let waker = cx.waker().clone();
        let mut waiting = self.pool.0.waiting.borrow_mut();
        waiting.entry(self.wanted).or_default().insert(self.number, waker);
        drop(waiting);
        self.pool.take_in_turn(self.wanted, self.number).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.pool.0.waiting.borrow_mut();
        if let Some(queue) = waiting.get_mut(&self.wanted) {
            queue.remove(&self.number);
            if queue.is_empty() {
                waiting.remove(&self.wanted);
            }
        }
        drop(waiting);
        self.pool.0.wake_first();
    }
}

impl Shared {
    /// The start of a buffer.
    fn start_of(&self, index: usize) -> *mut u8 {
        self.memory.base().wrapping_add(index * self.buffer_bytes)
    }

    /// Returns true if the next buffer is for the caller that arrived as `number`: there is one, and no earlier caller could take it.
    fn is_turn_of(&self, wanted: For, number: u64) -> bool {
        self.has_room_beside(wanted, 0)
            && self.first().is_none_or(|(first, came_as)| match (first, wanted) {
                (For::Now, For::Waiting(_)) => false,
                (For::Waiting(_), For::Now) => true,
                _ => came_as >= number,
            })
    }

    /// The first caller in the queue, among those that may have a buffer.
    fn first(&self) -> Option<(For, u64)> {
        let waiting = self.waiting.borrow();
        let heads =
            waiting.iter().filter_map(|(wanted, queue)| Some((*wanted, *queue.keys().next()?)));
        let with_room = heads.filter(|(wanted, _)| self.has_room_beside(*wanted, 0));
        with_room.min_by_key(|(wanted, number)| (*wanted != For::Now, *number))
    }

    /// Returns true if a caller waits whose disk may hold one more buffer.
    fn anybody_has_room(&self) -> bool {
        let waiting = self.waiting.borrow();
        waiting.keys().any(|wanted| *wanted != For::Now && self.is_within_share(*wanted, 1))
    }

    /// Returns true if there is a buffer for this caller, if `taken` of those in use are its own already.
    fn has_room_beside(&self, wanted: For, taken: usize) -> bool {
        let left = match wanted {
            For::Now => 0,
            For::Waiting(_) => self.kept,
        };
        self.free.borrow().len() + taken > left && self.is_within_share(wanted, taken)
    }

    /// Returns true if a disk may hold one more. A disk without buffers may always have one.
    fn is_within_share(&self, wanted: For, taken: usize) -> bool {
        let For::Waiting(disk) = wanted else { return true };
        let left = (self.free.borrow().len() + taken).saturating_sub(self.kept + 1);
        let held = self.held.borrow().get(&disk).copied().unwrap_or(0);
        held == 0 || held < SHARE_OF_LEFT * left
    }

    fn wake_first(&self) {
        if let Some((wanted, number)) = self.first() {
            self.waiting.borrow()[&wanted][&number].wake_by_ref();
        }
    }
}

/// One buffer out of a pool; it goes back when it is dropped.
pub struct Buffer {
    pool: Rc<Shared>,
    index: u32,
    /// The disk that its holder waits for.
    held_for: Option<Disk>,
}

impl Buffer {
    fn hold_for(&mut self, disk: Disk) {
        self.held_for = Some(disk);
        *self.pool.held.borrow_mut().entry(disk).or_default() += 1;
    }

    /// The number by which an operation may refer to this buffer, if the ring knows it and should keep it.
    pub(crate) fn named(&self) -> Option<Named> {
        let (pool, index) = (&self.pool, self.index as usize);
        if index >= pool.registered.get() || pool.gives_back.get() {
            return None;
        }
        let number = u16::try_from(pool.table_from.get()? + index).ok()?;
        pool.naming.set(pool.naming.get() + 1);
        Some(Named { pool: Rc::clone(pool), number })
    }

    fn base(&self) -> *mut u8 {
        self.pool.start_of(self.index as usize)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the index was taken out of the free list, so this part of the mapping has no other user. The mapping is as long as `count` buffers
        // and lives as long as the pool that this buffer holds.
        unsafe { std::slice::from_raw_parts(self.base(), self.pool.buffer_bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base(), self.pool.buffer_bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(disk) = self.held_for {
            // Entries at zero stay: there are few disks, and this runs for every cold window.
            *self.pool.held.borrow_mut().entry(disk).or_default() -= 1;
        }
        self.pool.free.borrow_mut().push_back(self.index);
        self.pool.wake_first();
    }
}

/// Keeps the ring from forgetting registered buffers while an operation names one.
pub(crate) struct Named {
    pool: Rc<Shared>,
    /// The ring's number for the buffer.
    pub(crate) number: u16,
}

impl Drop for Named {
    fn drop(&mut self) {
        self.pool.naming.set(self.pool.naming.get() - 1);
    }
}
