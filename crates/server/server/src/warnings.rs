//! Warns the operator of trouble that occurs as often as viewers come, at most a line a second of each kind.

use crate::redact;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// One worker's warnings of one kind.
pub struct Warnings {
    last: Cell<Option<Instant>>,
    pause: Duration,
}

impl Default for Warnings {
    /// At most a line per second.
    fn default() -> Self {
        Self::every(Duration::from_secs(1))
    }
}

impl Warnings {
    /// At most a line in this time: longer if strangers can provoke it.
    pub(crate) fn every(pause: Duration) -> Self {
        Self { last: Cell::new(None), pause }
    }

    /// Writes a line to standard error, if one is due: with a bad disk under many viewers, or a proxy that sends garbage, a worker must not
    /// wait for the reader of the log. The counters count every case. Requests and file names in the line are escaped, so that
    /// they cannot control a terminal, and tokens in it lose their signatures.
    pub fn print(&self, what: &str) {
        let now = reactor::now();
        let is_due = |last| now.duration_since(last) >= self.pause;
        if self.last.get().is_none_or(is_due) {
            self.last.set(Some(now));
            eprintln!("fullbore: {}", ingest::shown(&redact::text(what.as_bytes())));
        }
    }
}
