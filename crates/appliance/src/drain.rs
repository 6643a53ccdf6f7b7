//! Ends waits: those of idle sessions when the server shuts down, and those for connections when another server accepts them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// A worker's shutdown, or the end of its accepting. A session that waits for a request waits for this, too.
#[derive(Default)]
pub struct Drain {
    announced: Cell<bool>,
    begun: Cell<bool>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Drain {
    /// Whether responses say that their connection ends with them: the shutdown has begun, or will.
    pub fn is_announced(&self) -> bool {
        self.announced.get() || self.begun.get()
    }

    /// Has responses say so, or no longer. Sessions that wait are left alone: a connection that is closed while its viewer sends a request
    /// looks broken to the viewer, and one that said that it would end does not.
    pub fn announce(&self, is_announced: bool) {
        self.announced.set(is_announced);
    }

    /// Whether the shutdown has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// Begins the shutdown, and wakes every waiting session.
    pub fn begin(&self) {
        self.begun.set(true);
        std::mem::take(&mut *self.waiting.borrow_mut()).into_values().for_each(Waker::wake);
    }

    /// Runs `future`, or returns `None` if the shutdown begins first.
    pub async fn unless_begun<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let place = Place { drain: self, number: self.next.replace(self.next.get() + 1) };
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if self.begun.get() {
                return Poll::Ready(None);
            }
            self.waiting.borrow_mut().insert(place.number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A session's place among those that wait. Dropping it gives the place up.
struct Place<'a> {
    drain: &'a Drain,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.drain.waiting.borrow_mut().remove(&self.number);
    }
}
