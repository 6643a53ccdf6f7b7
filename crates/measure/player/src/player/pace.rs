//! The last guard against a server or manifest that would make the player send requests without pause.
//!
//! Retries have their own, slower limits. This one holds whatever happens elsewhere.

use crate::Time;
use std::time::Duration;

/// Requests per second. Filling two minutes of buffer with segments of two seconds takes 120, over any network other than loopback.
pub(crate) const REQUESTS_PER_SECOND_MAX: u32 = 100;

/// A second that straddles two windows has the requests of both.
const PER_WINDOW_MAX: u32 = REQUESTS_PER_SECOND_MAX / 2;

const WINDOW: Duration = Duration::from_secs(1);

/// Counts the requests of the current window, which begins with its first request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    since: Time,
    sent: u32,
}

impl Pace {
    /// Returns true if another request may be sent now.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.sent < PER_WINDOW_MAX || now >= self.ends_at()
    }

    /// When requests are allowed again, if they are not now.
    pub(crate) fn allows_at(&self, now: Time) -> Option<Time> {
        (!self.allows(now)).then(|| self.ends_at())
    }

    /// Counts a request.
    pub(crate) fn handle_request(&mut self, now: Time) {
        if now >= self.ends_at() {
            *self = Self { since: now, sent: 0 };
        }
        self.sent += 1;
    }

    fn ends_at(&self) -> Time {
        self.since.saturating_add(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_requests_than_the_bound() {
        let mut pace = Pace::default();
        let mut sent = Vec::new();
        for ms in 0..5000 {
            let now = Duration::from_millis(ms);
            while pace.allows(now) {
                assert_eq!(pace.allows_at(now), None);
                pace.handle_request(now);
                sent.push(now);
            }
            assert!(pace.allows_at(now).is_some_and(|at| at > now));
        }
        for begin in &sent {
            let in_second = sent.iter().filter(|at| *at >= begin && **at < *begin + WINDOW).count();
            assert!(in_second <= REQUESTS_PER_SECOND_MAX as usize);
        }
        assert_eq!(sent.len(), 250);
    }
}
