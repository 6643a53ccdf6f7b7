//! Answers of the kernel that stay good for a moment, so that not each window asks again.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long they stay good: a small part of a second, which is what a program that wants to write waits at least (`fs.lease-break-time` is in whole
/// seconds, 45 unless somebody changed it).
const AGE_MAX: Duration = Duration::from_millis(100);

/// When the kernel last gave the good answer.
#[derive(Default)]
pub(crate) struct Lately(Cell<Option<Instant>>);

impl Lately {
    /// Whether that is a moment ago.
    pub(crate) fn is_good(&self) -> bool {
        let now = reactor::now();
        self.0.get().is_some_and(|at| now.saturating_duration_since(at) < AGE_MAX)
    }

    /// It is now.
    pub(crate) fn note(&self) {
        self.0.set(Some(reactor::now()));
    }
}
