//! Operations that the kernel executes, as futures.
//!
//! An operation is queued when it is made. It holds what the kernel may touch (buffer, path, descriptor). If it is dropped early, all of that moves
//! into its slot and stays there until the completion arrives.

use crate::executor::{Core, with_core_shared};
use crate::fd::Fd;
use crate::pool::{Buffer, Named};
use crate::{timeout_at, yield_now};
use io_uring::{cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use slab::Slab;
use std::collections::VecDeque;
use std::ffi::CString;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long to wait before an operation for which the kernel had no memory is repeated. An honest guess: long enough to give the processor to others,
/// short enough to go unnoticed.
pub const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);

/// Every operation that this module queues. A ring refuses any other ([`crate::ring`]), so an operation that is added here has to be listed too.
pub(crate) const OPERATIONS: [u8; 8] = [
    opcode::PollAdd::CODE,
    opcode::Read::CODE,
    opcode::ReadFixed::CODE,
    opcode::Fadvise::CODE,
    opcode::Madvise::CODE,
    opcode::OpenAt2::CODE,
    // A multishot accept too: it is a flag of this operation.
    opcode::Accept::CODE,
    opcode::AsyncCancel::CODE,
];

/// Marks completions that no future waits for.
const NOBODY: u64 = u64::MAX;

/// The operations that the kernel has, by their number.
#[derive(Default)]
pub(crate) struct Slots(Slab<Slot>);

enum Slot {
    Running(Option<Waker>),
    Done(i32),
    /// The future is gone; memory that the kernel may still touch waits here.
    Abandoned(Box<dyn Operand>),
    /// A multishot operation: results that were not taken yet.
    Many(Many),
    /// A multishot accept whose future is gone: connections that still arrive are closed.
    AbandonedAccept(#[expect(dead_code, reason = "keeps the listener open")] Fd),
}

#[derive(Default)]
struct Many {
    results: VecDeque<i32>,
    waker: Option<Waker>,
    ended: bool,
}

impl Slots {
    /// Returns true if the kernel has none of our operations left.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.iter().all(|(_, slot)| match slot {
            Slot::Done(_) => true,
            Slot::Many(many) => many.ended,
            _ => false,
        })
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        self.0.iter().map(|(index, _)| index as u64).collect()
    }

    /// Leaks the memory that the kernel may still write to.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }
}

/// Stores one completion under its operation and wakes the task that waits for it.
pub(crate) fn complete(core: &Core, user_data: u64, result: i32, flags: u32) {
    if user_data == NOBODY {
        return;
    }
    let index = user_data as usize;
    let mut slots = core.slots.borrow_mut();
    let Some(slot) = slots.0.get_mut(index) else { return };
    let more = cqueue::more(flags);
    let mut abandoned = None;
    let waker = match slot {
        Slot::Running(waker) => {
            let waker = waker.take();
            *slot = Slot::Done(result);
            waker
        }
        Slot::Many(many) => {
            many.results.push_back(result);
            many.ended = !more;
            many.waker.take()
        }
        Slot::AbandonedAccept(_) => {
            close_unseen(result);
            if !more {
                slots.0.remove(index);
            }
            None
        }
        Slot::Abandoned(_) => {
            if let Slot::Abandoned(resource) = slots.0.remove(index) {
                abandoned = Some(resource);
            }
            None
        }
        Slot::Done(_) => None,
    };
    // Outside the borrow: a buffer's return may wake a task.
    drop(slots);
    if let Some(resource) = abandoned {
        resource.completed_unseen(result);
    }
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Queues the cancellation of an operation; its own completion still arrives.
pub(crate) fn cancel(core: &Core, index: u64) {
    core.push(&opcode::AsyncCancel::new(index).build().user_data(NOBODY));
}

/// The resources of an operation, held while it is in the kernel.
pub trait Operand {
    /// Called when the operation is done and no future waits for its result: releases the descriptor or memory that the result stands for.
    fn completed_unseen(self: Box<Self>, _result: i32) {}
}

/// One operation in the kernel. `R` is what it holds, and comes back with the result.
#[must_use = "an operation is cancelled when it is dropped"]
pub struct Op<R: Operand + 'static> {
    core: Rc<Core>,
    index: usize,
    /// Present until the result has been handed out.
    resource: Option<R>,
}

// Nothing in an operation is pinned in place: the memory that the kernel points to lies behind `R`'s own pointers.
impl<R: Operand> Unpin for Op<R> {}

impl<R: Operand + 'static> Op<R> {
    /// Queues `entry`.
    ///
    /// # Safety
    /// All memory that `entry` points to is owned by `resource`, stays where it is when `resource` moves, and is not
    /// touched through `resource` while the operation holds it. Its descriptor is held by `resource` too.
    unsafe fn start(entry: squeue::Entry, resource: R) -> Self {
        let core = with_core_shared();
        let index = core.slots.borrow_mut().0.insert(Slot::Running(None));
        core.push(&entry.user_data(index as u64));
        Self { core, index, resource: Some(resource) }
    }
}

impl<R: Operand + 'static> Future for Op<R> {
    type Output = (io::Result<u32>, R);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = {
            let mut slots = self.core.slots.borrow_mut();
            match slots.0.get_mut(self.index) {
                Some(Slot::Done(result)) => {
                    let result = *result;
                    slots.0.remove(self.index);
                    result
                }
                Some(Slot::Running(waker)) => {
                    *waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                _ => unreachable!("a live operation's slot is running or done"),
            }
        };
        let resource = self.resource.take().expect("an operation is not polled after it is done");
        Poll::Ready((as_result(result), resource))
    }
}

impl<R: Operand + 'static> Drop for Op<R> {
    fn drop(&mut self) {
        let Some(resource) = self.resource.take() else { return };
        let mut slots = self.core.slots.borrow_mut();
        match slots.0.get_mut(self.index) {
            Some(slot @ Slot::Running(_)) => {
                *slot = Slot::Abandoned(Box::new(resource));
                drop(slots);
                cancel(&self.core, self.index as u64);
            }
            Some(Slot::Done(result)) => {
                let result = *result;
                slots.0.remove(self.index);
                drop(slots);
                Box::new(resource).completed_unseen(result);
            }
            // Leaked when the reactor ended: the kernel may still write to it.
            _ => std::mem::forget(resource),
        }
    }
}

fn as_result(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl Operand for Fd {}

/// Waits until `fd` has something to read, or its peer is gone. The result is the poll's events.
pub fn readable(fd: &Fd) -> Op<Fd> {
    poll_for(fd, libc::POLLIN | libc::POLLRDHUP)
}

/// Waits until `fd` takes bytes again, or its peer is gone. The result is the poll's events.
pub fn writable(fd: &Fd) -> Op<Fd> {
    poll_for(fd, libc::POLLOUT)
}

/// Waits for either: until `fd` has something to read or takes bytes again, or its peer is gone. The result is the poll's events.
pub fn readable_or_writable(fd: &Fd) -> Op<Fd> {
    poll_for(fd, libc::POLLIN | libc::POLLRDHUP | libc::POLLOUT)
}

/// Waits until the peer of `fd`, a stream socket, has closed its end or is gone. The result is the poll's events.
pub fn peer_closed(fd: &Fd) -> Op<Fd> {
    poll_for(fd, libc::POLLRDHUP)
}

fn poll_for(fd: &Fd, events: libc::c_short) -> Op<Fd> {
    let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), events as u32).build();
    // SAFETY: a poll points to no memory; the descriptor is held.
    unsafe { Op::start(entry, fd.clone()) }
}

/// Owned by a read in the kernel: its buffer, and the file kept open.
pub struct Reading {
    /// The buffer that was read into.
    pub buffer: Buffer,
    _named: Option<Named>,
    _file: Fd,
}

impl Operand for Reading {}

/// Reads up to `range.len()` bytes at `file_offset` into `range` of the buffer.
///
/// `rw_flags` are the kernel's `RWF_*`. If the buffer is registered, the kernel gets its index.
///
/// # Panics
/// If `range` does not lie in the buffer.
pub fn read_at(
    file: &Fd,
    mut buffer: Buffer,
    range: Range<usize>,
    file_offset: u64,
    rw_flags: i32,
) -> Op<Reading> {
    let bytes = u32::try_from(range.len()).expect("a buffer is smaller than 4 GiB");
    let memory = buffer[range].as_mut_ptr();
    let fd = types::Fd(file.as_raw_fd());
    let named = buffer.named();
    let entry = match &named {
        Some(named) => opcode::ReadFixed::new(fd, memory, bytes, named.number)
            .offset(file_offset)
            .rw_flags(rw_flags)
            .build(),
        None => opcode::Read::new(fd, memory, bytes).offset(file_offset).rw_flags(rw_flags).build(),
    };
    // SAFETY: the pool's memory stays where it is while the buffer is held, and `Reading` holds it and the file.
    unsafe { Op::start(entry, Reading { buffer, _named: named, _file: file.clone() }) }
}

/// Reads into memory that belongs to no pool.
///
/// # Safety
/// `memory` has room for `bytes`, and `resource` owns both the memory and the descriptor `fd`, as [`Op::start`] requires.
pub(crate) unsafe fn read_into<R: Operand + 'static>(
    fd: i32,
    memory: *mut u8,
    bytes: u32,
    file_offset: u64,
    resource: R,
) -> Op<R> {
    let entry = opcode::Read::new(types::Fd(fd), memory, bytes).offset(file_offset).build();
    // SAFETY: the caller's promise.
    unsafe { Op::start(entry, resource) }
}

/// Asks the kernel to read a part of a file into its page cache (`posix_fadvise`, `WILLNEED`). It is done when the disk has the request, not when the
/// bytes have arrived. Waits for the disk's queue, or for the location of the file's blocks, happen on one of the ring's threads. The kernel may read
/// less.
pub fn will_need(file: &Fd, file_offset: u64, bytes: u32) -> Op<Fd> {
    advise(file, file_offset, bytes, libc::POSIX_FADV_WILLNEED)
}

/// Asks the kernel to drop a part of a file from its page cache (`posix_fadvise`, `DONTNEED`). The kernel keeps pages that are dirty or in
/// use.
pub fn wont_need(file: &Fd, file_offset: u64, bytes: u32) -> Op<Fd> {
    advise(file, file_offset, bytes, libc::POSIX_FADV_DONTNEED)
}

fn advise(file: &Fd, file_offset: u64, bytes: u32, advice: i32) -> Op<Fd> {
    let fd = types::Fd(file.as_raw_fd());
    let entry = opcode::Fadvise::new(fd, bytes.into(), advice).offset(file_offset).build();
    // SAFETY: advice points to no memory; the descriptor is held.
    unsafe { Op::start(entry, file.clone()) }
}

/// From Linux's `asm-generic/mman-common.h`: `libc` has it for glibc only.
const MADV_COLLAPSE: i32 = 25;

/// Asks the kernel to put memory into large pages (`madvise`, `MADV_COLLAPSE`), on one of the ring's threads.
///
/// # Safety
/// The `bytes` from `memory` on are mapped, and stay mapped while `resource` lives.
pub(crate) unsafe fn collapse<R: Operand + 'static>(
    memory: *mut u8,
    bytes: usize,
    resource: R,
) -> Op<R> {
    // SAFETY: the caller's promise; the advice leaves the memory's bytes as they are.
    unsafe { advise_memory(memory, bytes, MADV_COLLAPSE, resource) }
}

/// Gives the kernel advice on memory (`madvise`), on one of the ring's threads.
///
/// # Panics
/// On 4 GiB or more.
///
/// # Safety
/// The `bytes` from `memory` on are mapped, and stay mapped while `resource` lives. The advice leaves their contents as they are.
pub(crate) unsafe fn advise_memory<R: Operand + 'static>(
    memory: *mut u8,
    bytes: usize,
    advice: i32,
    resource: R,
) -> Op<R> {
    let bytes = u32::try_from(bytes).expect("an entry's length has 32 bits");
    let entry = opcode::Madvise::new(memory.cast(), bytes.into(), advice).build();
    // SAFETY: the caller's promise.
    unsafe { Op::start(entry, resource) }
}

/// Owned by a touch in the kernel.
pub struct Touching {
    byte: Box<u8>,
    _file: Fd,
}

impl Operand for Touching {}

/// Reads one byte through the page cache, which loads its page. The result is 0 past the end of the file.
pub fn touch(file: &Fd, file_offset: u64) -> Op<Touching> {
    let mut touching = Touching { byte: Box::new(0), _file: file.clone() };
    let fd = types::Fd(file.as_raw_fd());
    let entry = opcode::Read::new(fd, &raw mut *touching.byte, 1).offset(file_offset).build();
    // SAFETY: the byte lies on the heap, where it stays while `touching` holds it, as it holds the file.
    unsafe { Op::start(entry, touching) }
}

/// Owned by an open in the kernel.
pub struct Opening {
    path: CString,
    how: Box<types::OpenHow>,
    directory: Fd,
}

impl Operand for Opening {
    fn completed_unseen(self: Box<Self>, result: i32) {
        close_unseen(result);
    }
}

/// Opens `path` below `directory` (`openat2`). The new descriptor comes from [`opened`].
pub fn open_at(directory: &Fd, path: CString, flags: i32, resolve: u64) -> Op<Opening> {
    let how = Box::new(types::OpenHow::new().flags(flags as u64).resolve(resolve));
    let opening = Opening { path, how, directory: directory.clone() };
    let fd = types::Fd(opening.directory.as_raw_fd());
    let entry = opcode::OpenAt2::new(fd, opening.path.as_ptr(), &raw const *opening.how).build();
    // SAFETY: path and how are heap memory owned by `opening`, which is not touched meanwhile.
    unsafe { Op::start(entry, opening) }
}

/// The descriptor that a finished [`open_at`] made.
///
/// # Errors
/// The kernel's error.
pub fn opened(result: io::Result<u32>) -> io::Result<OwnedFd> {
    let fd = result?;
    // SAFETY: a successful openat2 returns a descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// How often [`Incoming::next`] polls its listener's accept queue. Workers wake once a second anyway, and viewers tolerate a wait of that length.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The connections that arrive at a listener.
///
/// Several rings may accept from one listener; during an upgrade, they belong to two processes. The kernel wakes exactly one of them per connection
/// (io_uring's accepts wait with `EPOLLEXCLUSIVE`) and does not check that the connection is accepted. If the woken accept is being cancelled, or its
/// ring torn down, the connection stays in the listener's queue until the next one arrives. Two rules prevent that:
/// - A ring that stops accepting ([`Self::last`]) empties the queue after its accept has ended. From then on the kernel wakes another ring.
/// - A ring that accepts polls the queue once a second, in case the woken accept belonged to a process that has ended.
pub struct Incoming {
    core: Rc<Core>,
    listener: Fd,
    /// The multishot operation, while one is armed.
    armed: Option<usize>,
    /// Set once the kernel was asked to stop.
    is_ending: bool,
    /// When to poll the queue next.
    looks_at: Instant,
}

impl Incoming {
    /// Accepts connections from `listener`, which becomes non-blocking.
    pub fn new(listener: Fd) -> Self {
        // This can't fail for an open descriptor.
        if let Ok(flags) = rustix::fs::fcntl_getfl(listener.borrowed()) {
            let flags = flags | rustix::fs::OFlags::NONBLOCK;
            let _ = rustix::fs::fcntl_setfl(listener.borrowed(), flags);
        }
        let (core, looks_at) = (with_core_shared(), Instant::now() + LOOK_EVERY);
        Self { core, listener, armed: None, is_ending: false, looks_at }
    }

    /// The next connection, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// The error of accept. `EMFILE` and similar ones pass: wait a little and call again.
    pub async fn next(&mut self) -> io::Result<OwnedFd> {
        loop {
            let looks_at = self.looks_at;
            let woken = timeout_at(looks_at, std::future::poll_fn(|cx| self.poll_next(cx))).await;
            if let Ok(result) = woken {
                let fd = as_result(result)?;
                // SAFETY: a successful accept returns a descriptor that has no other owner.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            }
            if let Some(connection) = accept_queued(&self.listener) {
                // There may be more: the next call checks again.
                return Ok(connection);
            }
            // By the clock and not by `now()`: the turn may have begun longer than that ago, and a deadline that has passed would never let it end.
            self.looks_at = Instant::now() + LOOK_EVERY;
        }
    }

    /// Stops accepting, and returns one by one the connections that this ring must still answer: those that the kernel had accepted by then, and
    /// those left in the listener's queue once the accept has ended, because the kernel may have woken only this accept for them. Dropping them would
    /// reset innocent viewers, or leave them waiting.
    pub async fn last(&mut self) -> Option<OwnedFd> {
        if let (Some(index), false) = (self.armed, self.is_ending) {
            cancel(&self.core, index as u64);
            self.is_ending = true;
        }
        while self.armed.is_some() {
            let result = std::future::poll_fn(|cx| self.poll_next(cx)).await;
            if result >= 0 {
                // SAFETY: a successful accept returns a descriptor that has no other owner.
                return Some(unsafe { OwnedFd::from_raw_fd(result) });
            }
        }
        // Lets other tasks run, however fast connections arrive.
        yield_now().await;
        accept_queued(&self.listener)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<i32> {
        let index = match self.armed {
            Some(index) => index,
            None => self.arm(),
        };
        let mut slots = self.core.slots.borrow_mut();
        let Some(Slot::Many(many)) = slots.0.get_mut(index) else {
            unreachable!("an armed accept has its slot")
        };
        let Some(result) = many.results.pop_front() else {
            many.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        if many.ended && many.results.is_empty() {
            slots.0.remove(index);
            self.armed = None;
        }
        Poll::Ready(result)
    }

    fn arm(&mut self) -> usize {
        let index = self.core.slots.borrow_mut().0.insert(Slot::Many(Many::default()));
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = types::Fd(self.listener.as_raw_fd());
        let entry = if self.core.features.borrow().multishot_accept {
            opcode::AcceptMulti::new(fd).flags(flags).build()
        } else {
            opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).flags(flags).build()
        };
        self.core.push(&entry.user_data(index as u64));
        self.armed = Some(index);
        index
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(index) = self.armed else { return };
        let mut slots = self.core.slots.borrow_mut();
        let Some(Slot::Many(many)) = slots.0.get_mut(index) else { return };
        many.results.drain(..).for_each(close_unseen);
        if many.ended {
            slots.0.remove(index);
            return;
        }
        slots.0[index] = Slot::AbandonedAccept(self.listener.clone());
        drop(slots);
        cancel(&self.core, index as u64);
    }
}

/// Accepts a connection from the queue of `listener`, which is non-blocking. `None` if it is empty, or the kernel can't accept now.
fn accept_queued(listener: &Fd) -> Option<OwnedFd> {
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(listener.borrowed(), flags) {
            Ok(connection) => return Some(connection),
            // The viewer disconnected before it was accepted.
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn close_unseen(result: i32) {
    if result >= 0 {
        // SAFETY: a descriptor that an operation made and that was never taken: ours to close.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}
