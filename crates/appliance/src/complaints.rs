//! Reports trouble with the library to the operator, at most a line a second.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// One worker's complaints.
#[derive(Default)]
pub struct Complaints {
    last: Cell<Option<Instant>>,
}

impl Complaints {
    /// Reports trouble with the library, at most once a second: with one bad disk under many viewers, a worker must not wait
    /// for the reader of standard error. The counters count all of it. Requests and file names in the line are escaped, so that they cannot
    /// control the operator's terminal.
    pub fn tell(&self, what: &str) {
        let now = reactor::now();
        let is_due = |last| now.duration_since(last) >= Duration::from_secs(1);
        if self.last.get().is_none_or(is_due) {
            self.last.set(Some(now));
            eprintln!("fullbore: {}", library::shown(what));
        }
    }
}
