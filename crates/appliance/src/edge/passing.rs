//! What must not be kept, on its way to the one viewer who asked for it.
//!
//! A session draws a [`Ticket`], and the helper's answer is for that ticket alone: two viewers never get the same file. If the session ends
//! before, its ticket does, and the answer is dropped when it comes.

use super::link::{Cached, Live};
use disk::ArrivedBlocks;
use edge::contract::{Described, Trouble};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Viewers who wait for such an answer. Everybody else is told to come back: the helper fetches a few of them at a time.
const WAITING_MAX: usize = 1000;

/// The room on the cache's disk that such answers may take, besides what is cached. Slow viewers hold theirs for long.
const BYTES_MAX: u64 = 256 << 20;

/// Everybody who waits.
#[derive(Default)]
pub(super) struct Passing {
    waiting: Mutex<HashMap<u64, Option<Result<ForOne, Trouble>>>>,
    last: AtomicU64,
    bytes: Arc<AtomicU64>,
}

/// What one viewer gets.
pub(super) struct ForOne {
    pub(super) cached: Arc<Cached>,
    pub(super) taken: Taken,
}

/// Room that is given back when this is dropped.
pub(super) struct Taken {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Relaxed);
    }
}

/// A viewer's question.
pub(super) struct Ticket<'a> {
    pub(super) number: u64,
    passing: &'a Passing,
}

impl Ticket<'_> {
    /// The answer, once it is there.
    pub(super) fn answer(&self) -> Option<Result<ForOne, Trouble>> {
        self.passing.waiting().get_mut(&self.number)?.take()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let _unclaimed = self.passing.waiting().remove(&self.number);
    }
}

impl Passing {
    /// A new question.
    pub(super) fn begin(&self) -> Result<Ticket<'_>, Trouble> {
        let mut waiting = self.waiting();
        if waiting.len() >= WAITING_MAX {
            return Err(Trouble::Full);
        }
        let number = self.last.fetch_add(1, Relaxed) + 1;
        waiting.insert(number, None);
        Ok(Ticket { number, passing: self })
    }

    /// The helper's answer.
    pub(super) fn take(&self, ticket: u64, described: Described, file: Option<OwnedFd>) {
        // Out of descriptors: the kernel has dropped it.
        let Some(file) = file else { return self.refuse(ticket, Trouble::Full) };
        let (bytes, of) = (described.size, Arc::clone(&self.bytes));
        let before = of.fetch_add(bytes, Relaxed);
        let taken = Taken { bytes, of };
        if before.saturating_add(bytes) > BYTES_MAX {
            return self.refuse(ticket, Trouble::Full);
        }
        let arrived = ArrivedBlocks::new(described.size);
        arrived.note(0..u64::MAX);
        let live = Arc::new(Live::new(described.object, file, arrived));
        let cached = Arc::new(Cached::new(live, described));
        self.put(ticket, Ok(ForOne { cached, taken }));
    }

    /// There is nothing for this ticket.
    pub(super) fn refuse(&self, ticket: u64, why: Trouble) {
        self.put(ticket, Err(why));
    }

    /// Nobody works on any of these any more.
    pub(super) fn forget(&self) {
        for answer in self.waiting().values_mut() {
            answer.get_or_insert(Err(Trouble::Unreachable));
        }
    }

    fn put(&self, ticket: u64, answer: Result<ForOne, Trouble>) {
        if let Some(waiting) = self.waiting().get_mut(&ticket) {
            *waiting = Some(answer);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Option<Result<ForOne, Trouble>>>> {
        self.waiting.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(passing: &Passing, ticket: u64, size: u64) {
        let described = Described {
            path: "/a".into(),
            object: 1 << 63,
            size,
            etag: "\"x\"".into(),
            content_type: None,
            modified: None,
            cache_control: None,
            fresh_ms: 0,
            stale_ms: 0,
            age_ms: 0,
            is_stale: false,
        };
        passing.take(ticket, described, Some(tempfile::tempfile().unwrap().into()));
    }

    #[test]
    fn an_answer_is_for_one_ticket_and_its_room_is_given_back() {
        let passing = Passing::default();
        let (first, second) = (passing.begin().unwrap(), passing.begin().unwrap());
        assert!(first.answer().is_none());
        told(&passing, first.number, BYTES_MAX - 1);
        assert!(second.answer().is_none());
        let held = first.answer().unwrap().ok();
        assert!(held.is_some() && first.answer().is_none());
        told(&passing, second.number, 2);
        assert_eq!(second.answer().unwrap().err(), Some(Trouble::Full));
        drop(held);
        told(&passing, second.number, 2);
        assert!(second.answer().unwrap().is_ok());
        let gone = first.number;
        drop(first);
        told(&passing, gone, BYTES_MAX);
        assert_eq!(passing.bytes.load(Relaxed), 0, "nobody waits for it");
    }

    #[test]
    fn who_waits_is_bounded_and_hears_when_nobody_answers_any_more() {
        let passing = Passing::default();
        let tickets: Vec<_> = (0..WAITING_MAX).map(|_| passing.begin().unwrap()).collect();
        assert_eq!(passing.begin().err(), Some(Trouble::Full));
        passing.forget();
        assert_eq!(tickets[0].answer().unwrap().err(), Some(Trouble::Unreachable));
        drop(tickets);
        assert!(passing.begin().is_ok());
    }
}
