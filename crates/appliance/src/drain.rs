//! Telling idle sessions that the server is going away.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// A worker's farewell: sessions that wait for requests wait for this too.
#[derive(Default)]
pub struct Drain {
    begun: Cell<bool>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Drain {
    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// Begins, and wakes every session that waits.
    pub fn begin(&self) {
        self.begun.set(true);
        std::mem::take(&mut *self.waiting.borrow_mut()).into_values().for_each(Waker::wake);
    }

    /// Runs `future` unless the farewell begins first; then `None`.
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

/// A session's place among those who wait; given up when it waits no more.
struct Place<'a> {
    drain: &'a Drain,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.drain.waiting.borrow_mut().remove(&self.number);
    }
}
