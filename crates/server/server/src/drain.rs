//! Ends waits: those of idle sessions when the server shuts down, and those for connections when another server accepts them. Decides when the
//! viewers of a server leave for the one that replaces it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A worker's shutdown, or the end of its accepting. A session that waits for a request also waits for this.
#[derive(Default)]
pub struct Drain {
    leaving: RefCell<Option<Leaving>>,
    begun: Cell<bool>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Drain {
    /// Whether the shutdown has begun or is to come: another server accepts connections.
    pub fn is_announced(&self) -> bool {
        self.leaving.borrow().is_some() || self.begun.get()
    }

    /// Whether another server accepts connections in this one's place.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.borrow().is_some()
    }

    /// Makes viewers leave for another server, or stay again. Waiting sessions are left alone: closing a connection while its viewer sends a
    /// request looks like a failure to the viewer, unless the last response announced the end.
    pub(crate) fn announce(&self, leaving: Option<Leaving>) {
        let mut now = self.leaving.borrow_mut();
        if now.is_some() != leaving.is_some() {
            *now = leaving;
        }
    }

    /// Whether the response to a request that came `now` should announce the end of its connection; if so, that viewer counts as leaving.
    pub fn sends_away(&self, now: Instant) -> bool {
        self.begun.get() || self.leaving.borrow_mut().as_mut().is_some_and(|all| all.is_turn(now))
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

/// The viewers of a server that another one replaces. Each of them makes a handshake with the other server, so they leave one after the other: if
/// all left at once, they would wait for each other, and new viewers with them.
#[derive(Debug)]
pub(crate) struct Leaving {
    since: Instant,
    within: Duration,
    viewers_per_second: f64,
    sent: u64,
}

/// At least this many viewers leave per second, because their handshakes cost a core little (2% of it).
const VIEWERS_PER_SECOND_MIN: f64 = 50.0;

impl Leaving {
    /// Makes `viewers` leave `within` a time from `now`, if they send requests.
    pub(crate) fn new(viewers: usize, now: Instant, within: Duration) -> Self {
        let spread = viewers as f64 / within.as_secs_f64().max(0.001);
        Self { since: now, within, viewers_per_second: spread.max(VIEWERS_PER_SECOND_MIN), sent: 0 }
    }

    /// Whether a viewer leaves with the response to a request that arrives now.
    fn is_turn(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        let due = self.viewers_per_second * elapsed.as_secs_f64();
        let is_turn = elapsed >= self.within || (self.sent as f64) < due;
        self.sent += u64::from(is_turn);
        is_turn
    }
}

/// A session's entry in the list of waiting ones. Dropping it removes the entry.
struct Place<'a> {
    drain: &'a Drain,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.drain.waiting.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `asking` requests at this time, in milliseconds from the beginning, and counts the viewers that leave.
    fn go(drain: &Drain, begun: Instant, asking: usize, at: u64) -> usize {
        let now = begun + Duration::from_millis(at);
        (0..asking).filter(|_| drain.sends_away(now)).count()
    }

    #[test]
    fn viewers_leave_one_after_the_other_and_all_in_the_end() {
        let (drain, begun) = (Drain::default(), Instant::now());
        assert_eq!(go(&drain, begun, 9, 0), 0, "no viewer has to leave");
        let within = Duration::from_secs(5);
        let leaving = || Some(Leaving::new(1000, begun, within));
        drain.announce(leaving());
        assert_eq!(go(&drain, begun, 500, 100), 20);
        drain.announce(leaving());
        assert_eq!(go(&drain, begun, 500, 1000), 180, "they count as before");
        assert_eq!(go(&drain, begun, 10, 4000), 10);
        assert_eq!(go(&drain, begun, 500, 4000), 500);
        assert_eq!(go(&drain, begun, 2000, 5000), 2000, "the time is over");
        drain.announce(None);
        assert_eq!(go(&drain, begun, 9, 6000), 0, "the server came back");
        drain.begin();
        assert_eq!(go(&drain, begun, 9, 6000), 9);
    }

    #[test]
    fn few_viewers_leave_at_once() {
        let (drain, begun) = (Drain::default(), Instant::now());
        drain.announce(Some(Leaving::new(3, begun, Duration::from_secs(5))));
        assert_eq!(go(&drain, begun, 3, 60), 3);
        drain.announce(None);
        drain.announce(Some(Leaving::new(3, begun, Duration::ZERO)));
        assert_eq!(go(&drain, begun, 3, 0), 3, "there is no time");
    }
}
