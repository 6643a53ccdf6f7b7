//! Deadlines of this core: an ordered set, checked once per turn of the loop.

use crate::executor::with_core;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The pending deadlines, earliest first. The number distinguishes timers that share a deadline.
#[derive(Default)]
pub(crate) struct Timers {
    pending: BTreeMap<(Instant, u64), Waker>,
    next_number: u64,
}

impl Timers {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.pending.keys().next().map(|(deadline, _)| *deadline)
    }

    /// Takes out one timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.pending.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        Some(entry.remove())
    }
}

/// The time at the last turn of this reactor's loop: cheap, and late by at most one turn.
pub fn now() -> Instant {
    with_core(|core| core.now.get())
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, number: None }
}

/// Waits for `duration` from now.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// A wait for a deadline; dropping it forgets the deadline.
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with_core(|core| {
            if core.now.get() >= self.deadline || Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            let mut timers = core.timers.borrow_mut();
            let number = *self.number.get_or_insert_with(|| {
                timers.next_number += 1;
                timers.next_number
            });
            timers.pending.insert((self.deadline, number), cx.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            with_core(|core| core.timers.borrow_mut().pending.remove(&(self.deadline, number)));
        }
    }
}

/// The deadline passed before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Runs `future` until `deadline`: [`Elapsed`] when the deadline came first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_until(deadline) }
}

/// A future and its deadline.
///
/// Written out rather than an `async fn`: that would keep its argument twice, as passed and as pinned, and every idle viewer waits in one of these.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned when `self` is: nothing here moves it out, and there is no `Drop` that could.
        // `sleep` is `Unpin`.
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), Pin::new(&mut this.sleep))
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep.poll(cx).map(|()| Err(Elapsed))
    }
}
