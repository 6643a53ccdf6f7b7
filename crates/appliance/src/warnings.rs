//! Warns the operator of trouble that comes as often as viewers do, at most a line a second.

use crate::redact;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// One worker's warnings of one kind.
#[derive(Default)]
pub struct Warnings {
    last: Cell<Option<Instant>>,
}

impl Warnings {
    /// Writes a line to standard error, at most once a second: with one bad disk under many viewers, or a proxy that sends garbage, a worker must not
    /// wait for whoever reads it. The counters count every case. Requests and file names in the line are escaped, so that
    /// they cannot control a terminal, and tokens in it lose their signatures.
    pub fn print(&self, what: &str) {
        let now = reactor::now();
        let is_due = |last| now.duration_since(last) >= Duration::from_secs(1);
        if self.last.get().is_none_or(is_due) {
            self.last.set(Some(now));
            eprintln!("fullbore: {}", library::shown(&redact::text(what.as_bytes())));
        }
    }
}
