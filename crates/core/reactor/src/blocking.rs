//! Calls that block and that io_uring does not have, on a few threads of a reactor's own.
//!
//! Calls wait in one queue, in the order in which they came. So give each disk its own [`Threads`]: then a disk that hangs stops only its own calls.

use crate::executor::spawn;
use crate::remote::{Remote, remote};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A thread that makes one call after the other needs little.
const STACK_BYTES: usize = 64 << 10;

type Call = Box<dyn FnOnce() + Send>;

/// Threads for blocking calls. They start when they are needed, and end when this is dropped, each after the call that it is making. They inherit
/// the CPUs of the reactor's thread.
#[derive(Debug)]
pub struct Threads {
    name: &'static str,
    threads_max: usize,
    threads: Cell<usize>,
    next: Cell<u64>,
    shared: Arc<Shared>,
    /// Futures that wait for the result of a call, by the call's number.
    waiting: Rc<RefCell<HashMap<u64, Waker>>>,
    remote: Remote,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wakes: Condvar,
    /// Numbers of calls that have ended since the reactor looked last.
    ended: Mutex<Vec<u64>>,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Call>,
    /// Threads that wait for a call.
    idle: usize,
    is_closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

impl Threads {
    /// At most `threads_max` threads of this name for the reactor that is running.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(name: &'static str, threads_max: usize) -> io::Result<Self> {
        let (remote, woken) = remote()?;
        let (shared, waiting) = (Arc::new(Shared::default()), Rc::default());
        let threads = Self {
            name,
            threads_max,
            threads: Cell::new(0),
            next: Cell::new(0),
            shared: Arc::clone(&shared),
            waiting: Rc::clone(&waiting),
            remote,
        };
        let wake = move || {
            for number in std::mem::take(&mut *lock(&shared.ended)) {
                waiting.borrow_mut().remove(&number).into_iter().for_each(Waker::wake);
            }
            !lock(&shared.queue).is_closed
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
    /// When no thread can be started, or the call panics.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let number = self.next.get();
        self.next.set(number + 1);
        let slot = Arc::new(Mutex::new(Slot::Pending));
        let ending = Ending {
            slot: Arc::clone(&slot),
            number,
            shared: Arc::clone(&self.shared),
            remote: self.remote.clone(),
        };
        self.queue(Box::new(move || ending.end_with(call())))?;
        poll_fn(|context| match std::mem::replace(&mut *lock(&slot), Slot::Pending) {
            Slot::Done(result) => Poll::Ready(Ok(result)),
            Slot::Lost => Poll::Ready(Err(io::Error::other("a blocking call panicked"))),
            Slot::Pending => {
                self.waiting.borrow_mut().insert(number, context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn queue(&self, call: Call) -> io::Result<()> {
        let mut queue = lock(&self.shared.queue);
        if queue.idle <= queue.calls.len() && self.threads.get() < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.to_owned());
            match thread.stack_size(STACK_BYTES).spawn(move || shared.work()) {
                Ok(_) => self.threads.set(self.threads.get() + 1),
                Err(error) if self.threads.get() == 0 => return Err(error),
                // The others make the call later.
                Err(_) => {}
            }
        }
        queue.calls.push_back(call);
        self.shared.wakes.notify_one();
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_closed = true;
        queue.calls.clear();
        drop(queue);
        self.shared.wakes.notify_all();
        self.remote.wake();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(call) = queue.calls.pop_front() {
                drop(queue);
                // The panic is reported already; the next call still needs a thread.
                let _ = catch_unwind(AssertUnwindSafe(call));
                queue = lock(&self.queue);
            } else if queue.is_closed {
                return;
            } else {
                queue.idle += 1;
                queue = self.wakes.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

/// Where a call leaves its result.
enum Slot<T> {
    Pending,
    Done(T),
    /// It has none.
    Lost,
}

/// The end of one call, which the reactor learns of even if the call panics or is never made.
struct Ending<T> {
    slot: Arc<Mutex<Slot<T>>>,
    number: u64,
    shared: Arc<Shared>,
    remote: Remote,
}

impl<T> Ending<T> {
    fn end_with(self, result: T) {
        *lock(&self.slot) = Slot::Done(result);
    }
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.slot);
        if matches!(*slot, Slot::Pending) {
            *slot = Slot::Lost;
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

    fn run(future: impl Future<Output = ()> + 'static) {
        Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
    }

    #[test]
    fn calls_run_on_other_threads_and_bring_their_results_back() {
        run(async {
            let threads = Threads::new("blocking", 2).unwrap();
            let own = std::thread::current().id();
            for number in 0..10 {
                let (result, thread) =
                    threads.run(move || (number * 2, std::thread::current().id())).await.unwrap();
                assert_eq!(result, number * 2);
                assert_ne!(thread, own);
            }
            assert!((1..=2).contains(&threads.threads.get()));
        });
    }

    #[test]
    fn a_call_that_waits_leaves_the_other_threads_to_others() {
        run(async {
            let threads = Rc::new(Threads::new("blocking", 2).unwrap());
            let (release, released) = mpsc::channel::<()>();
            let (done, is_done) = (Rc::new(Cell::new(false)), Rc::clone(&threads));
            let slow = Rc::clone(&done);
            spawn(async move {
                is_done.run(move || released.recv()).await.unwrap().unwrap();
                slow.set(true);
            });
            crate::yield_now().await;
            for _ in 0..5 {
                threads.run(|| ()).await.unwrap();
            }
            assert!(!done.get());
            assert_eq!(threads.threads.get(), 2);
            release.send(()).unwrap();
            while !done.get() {
                threads.run(|| ()).await.unwrap();
            }
        });
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_its_thread_makes_the_next() {
        run(async {
            let threads = Threads::new("blocking", 1).unwrap();
            let panic = || -> u8 { panic!("planted") };
            assert!(threads.run(panic).await.unwrap_err().to_string().contains("panicked"));
            assert_eq!(threads.run(|| 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn calls_of_futures_that_were_dropped_are_made_and_forgotten() {
        run(async {
            let threads = Threads::new("blocking", 1).unwrap();
            let (send, receive) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            {
                // Its thread may be quicker than this one, so the call waits until its future is gone.
                let call = move || released.recv().is_ok() && send.send(5).is_ok();
                let mut call = std::pin::pin!(threads.run(call));
                poll_fn(|context| {
                    assert!(call.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            release.send(()).unwrap();
            assert_eq!(threads.run(|| 6).await.unwrap(), 6, "what came later is made after it");
            assert_eq!(receive.try_recv(), Ok(5));
        });
    }
}
