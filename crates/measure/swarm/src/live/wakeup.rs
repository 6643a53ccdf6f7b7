//! Wakes one task of this thread from another.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

/// A signal that one task at a time waits for. It stays set until that task has seen it.
#[derive(Default)]
pub(crate) struct Wakeup {
    is_woken: Cell<bool>,
    listener: Cell<Option<Waker>>,
}

impl Wakeup {
    /// Sets the signal.
    pub(crate) fn wake(&self) {
        self.is_woken.set(true);
        if let Some(listener) = self.listener.take() {
            listener.wake();
        }
    }

    /// Waits until the signal is set, and clears it.
    pub(crate) async fn woken(&self) {
        poll_fn(|context| {
            if self.is_woken.replace(false) {
                return Poll::Ready(());
            }
            self.listener.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Runs `work` to its end, or drops it once the signal is set, in which case there is no output.
    pub(crate) async fn unless_woken<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.is_woken.get() {
                return Poll::Ready(None);
            }
            self.listener.set(Some(context.waker().clone()));
            work.as_mut().poll(context).map(Some)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Reactor, RingOptions, sleep, spawn, yield_now};
    use std::rc::Rc;
    use std::time::Duration;

    fn run(work: impl Future<Output = ()> + 'static) {
        Reactor::new(RingOptions::default()).unwrap().run(work).unwrap();
    }

    #[test]
    fn a_bell_that_rang_before_anybody_listened_is_heard() {
        run(async {
            let wakeup = Wakeup::default();
            wakeup.wake();
            wakeup.woken().await;
        });
    }

    #[test]
    fn work_ends_when_the_bell_rings_and_is_dropped() {
        run(async {
            let (wakeup, held) = (Rc::new(Wakeup::default()), Rc::new(()));
            let (ringer, work) = (Rc::clone(&wakeup), Rc::clone(&held));
            spawn(async move {
                yield_now().await;
                ringer.wake();
            });
            let endless = async move {
                // sleeps: work that never ends by itself
                sleep(Duration::from_secs(3600)).await;
                drop(work);
            };
            assert_eq!(wakeup.unless_woken(endless).await, None);
            assert_eq!(Rc::strong_count(&held), 1);
        });
    }

    #[test]
    fn work_that_is_done_first_has_its_output() {
        run(async {
            let wakeup = Wakeup::default();
            assert_eq!(wakeup.unless_woken(async { 7 }).await, Some(7));
        });
    }
}
