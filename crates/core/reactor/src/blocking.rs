//! Blocking calls that io_uring does not offer, on a few threads that belong to a reactor.
//!
//! Calls wait for a thread in two queues: those whose result is awaited come before those made ahead of need ([`Priority`]), which still get their
//! share of the turns. A call that was made ahead is raised once its result is awaited.
//!
//! A hung disk blocks the threads that call it. So give each disk its own [`Threads`]: then it delays only its own calls. Those do not wait for
//! ever: if no thread returns from its call for a while, all calls that wait end with [`CallError::Stalled`], and so do new ones until a thread is
//! back. So the queue is bounded by the calls that come in twice that time, and callers can try another route.

mod queue;

use crate::executor::spawn;
use crate::remote::{Remote, remote};
use crate::timer::sleep;
use queue::Queue;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A thread that makes one call after the other needs little.
const STACK_BYTES: usize = 64 << 10;

type Call = Box<dyn FnOnce() + Send>;

/// Threads for blocking calls. They start when they are needed, and end when this is dropped, each after the call that it is making. They inherit
/// the CPUs of the reactor's thread.
#[derive(Debug)]
pub struct Threads {
    name: &'static str,
    threads_max: usize,
    stalled_after: Duration,
    next: Cell<u64>,
    shared: Arc<Shared>,
    /// Futures that wait for the result of a call, by the call's number.
    waiting: Rc<RefCell<HashMap<u64, Waker>>>,
    /// Set while a task checks that calls do not wait in vain.
    is_watched: Rc<Cell<bool>>,
    remote: Remote,
}

/// Whether the result of a call is awaited (high), or the call is made ahead of need (low). Clones are one priority: raising one raises all.
#[derive(Clone, Debug)]
pub struct Priority(Option<Rc<Low>>);

#[derive(Debug, Default)]
struct Low {
    is_raised: Cell<bool>,
    /// The call that has this priority, once it was queued.
    call: RefCell<Option<(Arc<Shared>, u64)>>,
}

impl Priority {
    /// For a call whose result is awaited.
    pub const HIGH: Self = Self(None);

    /// For one call that is made ahead of need.
    pub fn low() -> Self {
        Self(Some(Rc::default()))
    }

    /// Returns true if the result is awaited.
    pub fn is_high(&self) -> bool {
        self.0.as_ref().is_none_or(|low| low.is_raised.get())
    }

    /// Call it before waiting for the result. If the call still waits for a thread, it comes before all calls of low priority from now on.
    pub fn raise(&self) {
        let Some(low) = &self.0 else { return };
        if low.is_raised.replace(true) {
            return;
        }
        if let Some((shared, number)) = low.call.take() {
            lock(&shared.state).queue.raise(number);
        }
    }

    fn note_queued(&self, shared: &Arc<Shared>, number: u64) {
        if let Some(low) = &self.0 {
            *low.call.borrow_mut() = Some((Arc::clone(shared), number));
        }
    }
}

/// Why a call has no result.
#[derive(Debug)]
pub enum CallError {
    /// No thread can be started.
    NoThread(io::Error),
    /// The call panicked.
    Panicked,
    /// The call was not made, because no thread returns from the call that it is making.
    Stalled,
}

impl Display for CallError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThread(error) => write!(f, "no thread can be started: {error}"),
            Self::Panicked => f.write_str("a blocking call panicked"),
            Self::Stalled => {
                f.write_str("no thread has returned from its blocking call for a while")
            }
        }
    }
}

impl std::error::Error for CallError {}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wakes: Condvar,
    /// Numbers of calls that have ended since the reactor looked last.
    ended: Mutex<Vec<u64>>,
    /// Steps that calls have noted ([`Progress`]).
    steps: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: Queue<Call>,
    /// Threads that were started.
    threads: usize,
    /// Threads that wait for a call.
    idle: usize,
    /// Threads that make a call.
    calling: usize,
    /// Set when calls had waited in vain, until a thread looks for a call again.
    is_stalled: bool,
    is_closed: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("calls", &self.queue.len()).finish_non_exhaustive()
    }
}

impl Threads {
    /// At most `threads_max` threads of this name for the reactor that is running. Calls that wait end once all threads have made the same calls for
    /// `stalled_after`, or for up to twice as long.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(
        name: &'static str,
        threads_max: usize,
        stalled_after: Duration,
    ) -> io::Result<Self> {
        let (remote, woken) = remote()?;
        let (shared, waiting) = (Arc::new(Shared::default()), Rc::default());
        let threads = Self {
            name,
            threads_max,
            stalled_after,
            next: Cell::new(0),
            shared: Arc::clone(&shared),
            waiting: Rc::clone(&waiting),
            is_watched: Rc::default(),
            remote,
        };
        let wake = move || {
            for number in std::mem::take(&mut *lock(&shared.ended)) {
                waiting.borrow_mut().remove(&number).into_iter().for_each(Waker::wake);
            }
            !lock(&shared.state).is_closed
        };
        // If the kernel refuses the poll, calls are made all the same, but their futures never wake: the worker is of no more use.
        spawn(async move {
            let _ = woken.each(wake).await;
        });
        Ok(threads)
    }

    /// Makes a call on one of the threads and returns its result. A future that is dropped does not stop its call.
    ///
    /// # Errors
    /// When no thread can be started or comes back from its call, or the call panics.
    pub async fn run<T: Send + 'static>(
        &self,
        priority: &Priority,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let number = self.next.get();
        self.next.set(number + 1);
        let slot = Arc::new(Mutex::new(Slot::Pending));
        let ending = Ending {
            slot: Arc::clone(&slot),
            number,
            has_begun: false,
            shared: Arc::clone(&self.shared),
            remote: self.remote.clone(),
        };
        self.queue(number, priority, Box::new(move || ending.make(call)))?;
        poll_fn(|context| match std::mem::replace(&mut *lock(&slot), Slot::Pending) {
            Slot::Done(result) => Poll::Ready(Ok(result)),
            Slot::Panicked => Poll::Ready(Err(CallError::Panicked)),
            Slot::NotMade => Poll::Ready(Err(CallError::Stalled)),
            Slot::Pending => {
                self.waiting.borrow_mut().insert(number, context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// For calls that last: where they note each step, so that a slow disk is not taken for one that hangs.
    pub fn progress(&self) -> Progress {
        Progress(Arc::clone(&self.shared))
    }

    fn queue(&self, number: u64, priority: &Priority, call: Call) -> Result<(), CallError> {
        let mut state = lock(&self.shared.state);
        if state.idle <= state.queue.len() && state.threads < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.to_owned());
            match thread.stack_size(STACK_BYTES).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(CallError::NoThread(error)),
                // The others make the call later.
                Err(_) => {}
            }
        }
        if state.is_stalled {
            return Err(CallError::Stalled);
        }
        let is_high = priority.is_high();
        state.queue.add(number, is_high, call);
        drop(state);
        if !is_high {
            priority.note_queued(&self.shared, number);
        }
        self.shared.wakes.notify_one();
        if !self.is_watched.replace(true) {
            let (shared, is_watched) = (Arc::clone(&self.shared), Rc::clone(&self.is_watched));
            let stalled_after = self.stalled_after;
            spawn(async move {
                shared.watch(stalled_after).await;
                is_watched.set(false);
            });
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_closed = true;
        let calls = state.queue.take_all();
        drop(state);
        drop(calls);
        self.shared.wakes.notify_all();
        self.remote.wake();
    }
}

/// The progress of calls on some [`Threads`].
#[derive(Clone, Debug)]
pub struct Progress(Arc<Shared>);

impl Progress {
    /// Notes that a call has made a step.
    pub fn note(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// What each thread does.
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            state.is_stalled = false;
            if let Some(call) = state.queue.take() {
                state.calling += 1;
                drop(state);
                // The panic is reported already; the next call still needs a thread.
                let _ = catch_unwind(AssertUnwindSafe(call));
                state = lock(&self.state);
                state.calling -= 1;
            } else if state.is_closed {
                return;
            } else {
                state.idle += 1;
                state = self.wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// Ends the calls that wait while no thread takes one or gets on with its own. Returns when none waits.
    async fn watch(&self, stalled_after: Duration) {
        loop {
            let seen = (lock(&self.state).queue.taken(), self.steps.load(Ordering::Relaxed));
            sleep(stalled_after).await;
            self.end_stalled(seen);
            if lock(&self.state).queue.len() == 0 {
                return;
            }
        }
    }

    /// Ends the calls that wait, if all threads are in calls, and none has taken another or made a step since these were `seen`.
    fn end_stalled(&self, seen: (u64, u64)) {
        let mut state = lock(&self.state);
        // A thread that is in no call will take one as soon as it gets a CPU.
        let now = (state.queue.taken(), self.steps.load(Ordering::Relaxed));
        let are_busy = state.calling == state.threads && now == seen;
        if are_busy && state.queue.len() > 0 {
            state.is_stalled = true;
            let calls = state.queue.take_all();
            drop(state);
            // That ends their futures.
            drop(calls);
        }
    }
}

/// Where a call leaves its result.
enum Slot<T> {
    Pending,
    Done(T),
    Panicked,
    NotMade,
}

/// The end of one call, which the reactor learns of even if the call panics or is never made.
struct Ending<T> {
    slot: Arc<Mutex<Slot<T>>>,
    number: u64,
    has_begun: bool,
    shared: Arc<Shared>,
    remote: Remote,
}

impl<T> Ending<T> {
    fn make(mut self, call: impl FnOnce() -> T) {
        self.has_begun = true;
        let result = call();
        *lock(&self.slot) = Slot::Done(result);
    }
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.slot);
        if matches!(*slot, Slot::Pending) {
            *slot = if self.has_begun { Slot::Panicked } else { Slot::NotMade };
        }
        drop(slot);
        lock(&self.shared.ended).push(self.number);
        self.remote.wake();
    }
}

/// A panic in a call leaves nothing invalid behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Reactor;
    use crate::ring::RingOptions;
    use std::sync::mpsc;

    /// Longer than a test takes, however slow the machine is.
    const LONG: Duration = Duration::from_secs(3600);

    fn run(future: impl Future<Output = ()> + 'static) {
        Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
    }

    #[test]
    fn calls_run_on_other_threads_and_bring_their_results_back() {
        run(async {
            let threads = Threads::new("blocking", 2, LONG).unwrap();
            let own = std::thread::current().id();
            for number in 0..10 {
                let (result, thread) = threads
                    .run(&Priority::HIGH, move || (number * 2, std::thread::current().id()))
                    .await
                    .unwrap();
                assert_eq!(result, number * 2);
                assert_ne!(thread, own);
            }
            assert!((1..=2).contains(&lock(&threads.shared.state).threads));
        });
    }

    #[test]
    fn a_call_that_waits_leaves_the_other_threads_to_others() {
        run(async {
            let threads = Rc::new(Threads::new("blocking", 2, LONG).unwrap());
            let (release, released) = mpsc::channel::<()>();
            let (done, is_done) = (Rc::new(Cell::new(false)), Rc::clone(&threads));
            let slow = Rc::clone(&done);
            spawn(async move {
                is_done.run(&Priority::HIGH, move || released.recv()).await.unwrap().unwrap();
                slow.set(true);
            });
            crate::yield_now().await;
            for _ in 0..5 {
                threads.run(&Priority::HIGH, || ()).await.unwrap();
            }
            assert!(!done.get());
            assert_eq!(lock(&threads.shared.state).threads, 2);
            release.send(()).unwrap();
            while !done.get() {
                threads.run(&Priority::HIGH, || ()).await.unwrap();
            }
        });
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_its_thread_makes_the_next() {
        run(async {
            let threads = Threads::new("blocking", 1, LONG).unwrap();
            let panic = || -> u8 { panic!("planted") };
            assert!(
                threads
                    .run(&Priority::HIGH, panic)
                    .await
                    .unwrap_err()
                    .to_string()
                    .contains("panicked")
            );
            assert_eq!(threads.run(&Priority::HIGH, || 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn calls_of_futures_that_were_dropped_are_made_and_forgotten() {
        run(async {
            let threads = Threads::new("blocking", 1, LONG).unwrap();
            let (send, receive) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            {
                // Its thread may be quicker than this one, so the call waits until its future is gone.
                let call = move || released.recv().is_ok() && send.send(5).is_ok();
                let high = Priority::HIGH;
                let mut call = std::pin::pin!(threads.run(&high, call));
                poll_fn(|context| {
                    assert!(call.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            release.send(()).unwrap();
            assert_eq!(
                threads.run(&Priority::HIGH, || 6).await.unwrap(),
                6,
                "what came later is made after it"
            );
            assert_eq!(receive.try_recv(), Ok(5));
        });
    }

    /// A thread that makes a call until the sender is dropped. The call has begun.
    async fn busy(threads: &Rc<Threads>) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let threads = Rc::clone(threads);
        spawn(async move {
            let call = move || {
                begin.send(()).unwrap();
                // It fails once the sender is gone.
                let _ = released.recv();
            };
            threads.run(&Priority::HIGH, call).await.unwrap();
        });
        crate::yield_now().await;
        begun.recv().unwrap();
        release
    }

    #[test]
    fn a_call_whose_result_is_awaited_does_not_wait_for_those_made_ahead() {
        run(async {
            let threads = Rc::new(Threads::new("blocking", 1, LONG).unwrap());
            let release = busy(&threads).await;
            let (send, made) = mpsc::channel();
            let priorities = [Priority::low(), Priority::low(), Priority::low(), Priority::HIGH];
            let ended = Rc::new(Cell::new(0));
            for (number, priority) in priorities.iter().cloned().enumerate() {
                let (threads, send, ended) = (Rc::clone(&threads), send.clone(), Rc::clone(&ended));
                spawn(async move {
                    threads.run(&priority, move || send.send(number).unwrap()).await.unwrap();
                    ended.set(ended.get() + 1);
                });
            }
            crate::yield_now().await;
            priorities[1].raise();
            assert!(priorities[1].is_high() && !priorities[0].is_high());
            drop(release);
            while ended.get() < priorities.len() {
                crate::yield_now().await;
            }
            assert_eq!(made.try_iter().collect::<Vec<_>>(), [1, 3, 0, 2]);
        });
    }

    #[test]
    fn a_call_raised_before_it_is_queued_is_of_high_priority_and_one_raised_afterwards_is_made_once()
     {
        run(async {
            let threads = Threads::new("blocking", 1, LONG).unwrap();
            let priority = Priority::low();
            priority.raise();
            assert!(priority.is_high());
            assert_eq!(threads.run(&priority, || 5).await.unwrap(), 5);
            let late = Priority::low();
            assert_eq!(threads.run(&late, || 6).await.unwrap(), 6);
            late.raise();
            assert_eq!(lock(&threads.shared.state).queue.len(), 0);
        });
    }

    #[test]
    fn calls_that_wait_for_a_thread_that_hangs_end_and_are_made_again_once_it_is_back() {
        run(async {
            let short = Duration::from_millis(1);
            let threads = Rc::new(Threads::new("blocking", 1, short).unwrap());
            let other = Threads::new("blocking", 1, LONG).unwrap();
            let release = busy(&threads).await;
            let waited = threads.run(&Priority::HIGH, || ()).await;
            assert!(matches!(waited, Err(CallError::Stalled)), "{waited:?}");
            let refused = threads.run(&Priority::low(), || ()).await;
            assert!(matches!(refused, Err(CallError::Stalled)), "{refused:?}");
            assert_eq!(lock(&threads.shared.state).queue.len(), 0, "nothing waits");
            assert_eq!(other.run(&Priority::low(), || 8).await.unwrap(), 8, "they hang alone");
            drop(release);
            let made = loop {
                match threads.run(&Priority::HIGH, || 9).await {
                    Err(CallError::Stalled) => crate::yield_now().await,
                    made => break made,
                }
            };
            assert_eq!(made.unwrap(), 9);
        });
    }

    /// A slow disk is not one that hangs.
    #[test]
    fn calls_wait_while_the_thread_gets_on_with_its_call() {
        run(async {
            let threads = Rc::new(Threads::new("blocking", 1, LONG).unwrap());
            let release = busy(&threads).await;
            let waiting = Rc::clone(&threads);
            spawn(async move {
                let _ = waiting.run(&Priority::HIGH, || ()).await;
            });
            crate::yield_now().await;
            let (shared, progress) = (Arc::clone(&threads.shared), threads.progress());
            let seen = || (lock(&shared.state).queue.taken(), shared.steps.load(Ordering::Relaxed));
            let before = seen();
            progress.note();
            shared.end_stalled(before);
            assert_eq!(lock(&shared.state).queue.len(), 1, "there was a step");
            shared.end_stalled(seen());
            assert_eq!(lock(&shared.state).queue.len(), 0, "there was none");
            drop(release);
        });
    }
}
