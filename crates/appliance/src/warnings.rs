//! Warns the operator of trouble that comes as often as viewers do, at most a line a second of each kind.

use crate::redact;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// One worker's warnings of one kind.
pub struct Warnings {
    last: Cell<Option<Instant>>,
    pause: Duration,
}

impl Default for Warnings {
    /// A line a second at most.
    fn default() -> Self {
        Self::every(Duration::from_secs(1))
    }
}

impl Warnings {
    /// A line in this time at most: longer where strangers can provoke it.
    pub(crate) fn every(pause: Duration) -> Self {
        Self { last: Cell::new(None), pause }
    }

    /// Writes a line to standard error, if it is time for one: with one bad disk under many viewers, or a proxy that sends garbage, a worker must not
    /// wait for whoever reads it. The counters count every case. Requests and file names in the line are escaped, so that
    /// they cannot control a terminal, and tokens in it lose their signatures.
    pub fn print(&self, what: &str) {
        let now = reactor::now();
        let is_due = |last| now.duration_since(last) >= self.pause;
        if self.last.get().is_none_or(is_due) {
            self.last.set(Some(now));
            eprintln!("fullbore: {}", library::shown(&redact::text(what.as_bytes())));
        }
    }
}
