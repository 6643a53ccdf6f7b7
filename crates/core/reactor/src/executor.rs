//! The loop of one core: run ready tasks, submit, sleep in the ring until something completes or a deadline passes.

use crate::op::{self, Slots};
use crate::ring::{self, RingFeatures, RingOptions};
use crate::timer::Timers;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};
use libc::iovec;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

/// How long to wait before a submission is repeated. Short, because a worker can do nothing without operations. An honest guess.
const SUBMISSION_PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    static CORE: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// The state of one reactor. Reached through the thread, so that futures need not carry it.
pub(crate) struct Core {
    ring: RefCell<IoUring>,
    pub(crate) features: RefCell<RingFeatures>,
    pub(crate) slots: RefCell<Slots>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) now: Cell<Instant>,
    tasks: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<TaskId>>,
    generation: Cell<u32>,
    panicked: Cell<u64>,
}

struct Task {
    generation: u32,
    queued: bool,
    /// Absent while it is being polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

#[derive(Clone, Copy)]
struct TaskId {
    index: u32,
    generation: u32,
}

/// Calls `f` with this thread's reactor.
///
/// # Panics
/// Outside a reactor's thread: a local programming error.
pub(crate) fn with_core<R>(f: impl FnOnce(&Core) -> R) -> R {
    // Clones the count instead of borrowing the cell across `f`, because `f` may come back here.
    let core = CORE.with(|core| core.borrow().clone());
    f(&core.expect("this future runs only on a reactor's thread"))
}

/// This thread's reactor, for futures that keep it.
pub(crate) fn with_core_shared() -> Rc<Core> {
    let core = CORE.with(|core| core.borrow().clone());
    core.expect("operations are started only on a reactor's thread")
}

/// Starts `future` as a task of its own on this thread's reactor.
///
/// A task that panics ends alone: it is dropped and counted ([`tasks_panicked`]).
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    with_core(|core| core.spawn(Box::pin(future)));
}

/// How many tasks exist on this thread's reactor.
pub fn tasks_live() -> usize {
    with_core(|core| core.tasks.borrow().len())
}

/// How many tasks ended by panicking on this thread's reactor.
pub fn tasks_panicked() -> u64 {
    with_core(|core| core.panicked.get())
}

/// Lets every other ready task run once before this one goes on.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// One thread's ring and executor.
pub struct Reactor {
    core: Rc<Core>,
}

impl Reactor {
    /// Sets up the ring for this thread.
    ///
    /// # Errors
    /// Where the kernel gives no ring: see [`RingOptions`]. A thread has one reactor at a time (`EBUSY`).
    pub fn new(options: RingOptions) -> io::Result<Self> {
        if CORE.with(|core| core.borrow().is_some()) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let (ring, features) = ring::set_up(options)?;
        let core = Rc::new(Core {
            ring: RefCell::new(ring),
            features: RefCell::new(features),
            slots: RefCell::default(),
            timers: RefCell::default(),
            now: Cell::new(Instant::now()),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            generation: Cell::new(0),
            panicked: Cell::new(0),
        });
        CORE.with(|current| *current.borrow_mut() = Some(Rc::clone(&core)));
        Ok(Self { core })
    }

    /// The features that the ring runs with.
    pub fn features(&self) -> RingFeatures {
        self.core.features.borrow().clone()
    }

    /// Runs `main` and everything it spawns until `main` is done. Tasks that still run then stay for the next call.
    ///
    /// # Errors
    /// Only when the kernel refuses to wait on the ring; then no progress is possible.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> io::Result<T> {
        let output = Rc::new(Cell::new(None));
        let result = Rc::clone(&output);
        let finished = Rc::new(Cell::new(false));
        let done = FinishedOnDrop(Rc::clone(&finished));
        self.core.spawn(Box::pin(async move {
            let _done = done;
            result.set(Some(main.await));
        }));
        while !finished.get() {
            self.core.run_ready();
            let idle = self.core.ready.borrow().is_empty() && !finished.get();
            self.core.turn(idle)?;
        }
        Ok(output.take().expect("the main future panicked; its message is above"))
    }
}

/// Reports to the loop that the main task ended, by return or by panic.
struct FinishedOnDrop(Rc<Cell<bool>>);

impl Drop for FinishedOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl Drop for Reactor {
    /// Ends every task, then waits until the kernel has given back every buffer.
    fn drop(&mut self) {
        loop {
            // Taken out one at a time, outside the borrow: dropping a task may spawn, wake or cancel.
            let index = self.core.tasks.borrow().iter().next().map(|(index, _)| index);
            let Some(index) = index else { break };
            let task = self.core.tasks.borrow_mut().remove(index);
            drop(task);
        }
        self.core.drain();
        CORE.with(|core| core.borrow_mut().take());
    }
}

impl Core {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let index =
            self.tasks.borrow_mut().insert(Task { generation, queued: true, future: Some(future) });
        let index = u32::try_from(index).expect("fewer than 2^32 tasks");
        self.ready.borrow_mut().push_back(TaskId { index, generation });
    }

    /// Polls the tasks that are ready now. Tasks that they wake wait for the next turn, so that none starves the ring.
    fn run_ready(&self) {
        let count = self.ready.borrow().len();
        for _ in 0..count {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return };
            self.poll(id);
        }
    }

    fn poll(&self, id: TaskId) {
        let index = id.index as usize;
        let future = match self.tasks.borrow_mut().get_mut(index) {
            Some(task) if task.generation == id.generation => {
                task.queued = false;
                task.future.take()
            }
            _ => None,
        };
        let Some(mut future) = future else { return };
        let waker = waker(id);
        let mut cx = Context::from_waker(&waker);
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            future.as_mut().poll(&mut cx)
        }));
        match polled {
            Ok(Poll::Pending) => {
                if let Some(task) = self.tasks.borrow_mut().get_mut(index) {
                    task.future = Some(future);
                }
                return;
            }
            Ok(Poll::Ready(())) => {}
            Err(_) => self.panicked.set(self.panicked.get() + 1),
        }
        self.tasks.borrow_mut().try_remove(index);
    }

    /// Submits, waits if `idle`, takes completions in, and wakes the tasks that completions or the clock concern.
    fn turn(&self, idle: bool) -> io::Result<()> {
        if idle {
            self.enter(self.until_deadline())?;
        } else if self.has_business() {
            self.enter(Some(Duration::ZERO))?;
        }
        self.now.set(Instant::now());
        self.reap();
        loop {
            let due = self.timers.borrow_mut().pop_due(self.now.get());
            let Some(waker) = due else { return Ok(()) };
            waker.wake();
        }
    }

    /// Returns true if the kernel has to be entered although tasks are ready: entries wait to be submitted, or completions wait to be run. The kernel
    /// sets a flag for the latter, but not on rings where it runs them whenever it likes.
    fn has_business(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        let queue = ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn until_deadline(&self) -> Option<Duration> {
        let deadline = self.timers.borrow().next_deadline()?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Enters the kernel once: `None` waits for a completion without end, zero only submits and collects.
    fn enter(&self, wait: Option<Duration>) -> io::Result<()> {
        let ring = self.ring.borrow();
        let submitter = ring.submitter();
        let entered = match wait {
            None => submitter.submit_and_wait(1),
            Some(Duration::ZERO) => {
                submitter.submit_with_args(0, &SubmitArgs::new().timespec(&Timespec::new()))
            }
            Some(duration) => {
                let timespec = Timespec::from(duration);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            // ETIME: the deadline passed. EINTR: a signal. EBUSY: completions must be taken in first.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                // The kernel has no memory for an operation, and has taken none. An immediate retry would fail the same way.
                Some(libc::EAGAIN) => {
                    std::thread::sleep(SUBMISSION_PAUSE);
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    fn reap(&self) {
        loop {
            let next = self.ring.borrow_mut().completion().next();
            let Some(completion) = next else { return };
            op::complete(self, completion.user_data(), completion.result(), completion.flags());
        }
    }

    /// Queues one operation; a full queue is submitted first.
    pub(crate) fn push(&self, entry: &squeue::Entry) {
        loop {
            // SAFETY: every caller keeps what the entry points to alive in its slot until the completion arrives,
            // which is the invariant of `op`.
            if unsafe { self.ring.borrow_mut().submission().push(entry) }.is_ok() {
                return;
            }
            // Completions are taken in as well: a kernel that is short of room for them submits nothing more.
            let _ = self.enter(Some(Duration::ZERO));
            self.reap();
        }
    }

    /// Gives the ring a table for this many buffers, all of them empty (Linux 5.19).
    pub(crate) fn register_table(&self, count: u32) -> io::Result<()> {
        self.ring.borrow().submitter().register_buffers_sparse(count)
    }

    /// Puts a buffer into the table, so that reads can name it by its number there.
    ///
    /// # Safety
    /// The buffer's memory is mapped.
    pub(crate) unsafe fn register_buffer(&self, number: u32, buffer: iovec) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.ring.borrow().submitter().register_buffers_update(number, &[buffer], None) }
    }

    /// Removes the table. On some kernels this waits for the operations that use its buffers, so there should be none.
    pub(crate) fn unregister_buffers(&self) -> io::Result<()> {
        self.ring.borrow().submitter().unregister_buffers()
    }

    /// Waits until no operation is left in the kernel. Everything is cancelled first.
    fn drain(&self) {
        let running = self.slots.borrow().running();
        running.into_iter().for_each(|index| op::cancel(self, index));
        while !self.slots.borrow().is_quiet() {
            if self.enter(Some(Duration::from_millis(100))).is_err() {
                // No more completions will arrive. The memory must stay, since the kernel may still write to it.
                self.slots.borrow_mut().leak();
                return;
            }
            self.reap();
        }
    }

    fn wake(&self, id: TaskId) {
        if let Some(task) = self.tasks.borrow_mut().get_mut(id.index as usize) {
            if task.generation == id.generation && !task.queued {
                task.queued = true;
                self.ready.borrow_mut().push_back(id);
            }
        }
    }
}

/// A waker is a number, not a reference: nothing to count, nothing to free, nothing that can dangle.
fn waker(id: TaskId) -> Waker {
    let packed = (u64::from(id.generation) << 32) | u64::from(id.index);
    // SAFETY: the table's functions only read the number, so every rule of RawWaker holds on any thread.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::without_provenance(packed as usize), &WAKER)) }
}

static WAKER: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &WAKER), wake_by_number, wake_by_number, |_| {});

fn wake_by_number(data: *const ()) {
    let packed = data.addr() as u64;
    let id = TaskId { index: packed as u32, generation: (packed >> 32) as u32 };
    // A thread without a reactor has no task to wake: wakers do not cross threads here.
    let core = CORE.with(|core| core.borrow().clone());
    if let Some(core) = core {
        core.wake(id);
    }
}
