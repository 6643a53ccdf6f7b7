//! What the operator is told of trouble with the library: a line a second at most.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// One worker's complaints.
#[derive(Default)]
pub struct Complaints {
    last: Cell<Option<Instant>>,
}

impl Complaints {
    /// Tells the operator of trouble with the library, once a second at most: one bad disk under many viewers must not
    /// make a worker wait for whoever reads standard error. The counters tell of all of it. What viewers and names of files have to do
    /// with it steers nobody's terminal.
    pub fn tell(&self, what: &str) {
        let now = reactor::now();
        let is_due = |last| now.duration_since(last) >= Duration::from_secs(1);
        if self.last.get().is_none_or(is_due) {
            self.last.set(Some(now));
            eprintln!("fullbore: {}", library::shown(what));
        }
    }
}
