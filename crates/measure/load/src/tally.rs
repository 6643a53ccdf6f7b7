//! The counts of one thread. Its viewers write and any thread may read: relaxed atomics on the thread's own cache line.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One kind of error: its count, and the first example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorKind {
    /// Number of errors.
    pub count: u64,
    /// The first one, as text.
    pub example: String,
}

/// Counts since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Bytes of bodies, whether or not the responses were complete.
    pub body_bytes: u64,
    /// Complete responses.
    pub requests: u64,
    /// Responses aborted on purpose.
    pub aborted: u64,
    /// TLS handshakes completed.
    pub handshakes: u64,
    /// How many of these resumed a session.
    pub resumed: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Errors of all kinds.
    pub errors: u64,
    /// Responses compared in full and found correct.
    pub verified: u64,
}

impl Snapshot {
    fn fields(&mut self) -> [&mut u64; 9] {
        [
            &mut self.body_bytes,
            &mut self.requests,
            &mut self.aborted,
            &mut self.handshakes,
            &mut self.resumed,
            &mut self.connections_opened,
            &mut self.connections_open,
            &mut self.errors,
            &mut self.verified,
        ]
    }

    /// The sum with another thread's counts.
    pub(crate) fn plus(mut self, mut other: Self) -> Self {
        self.fields().into_iter().zip(other.fields()).for_each(|(sum, more)| *sum += *more);
        self
    }

    /// The difference from `earlier`. The number of open connections stays the current one.
    pub fn since(mut self, mut earlier: Self) -> Self {
        let open = self.connections_open;
        self.fields()
            .into_iter()
            .zip(earlier.fields())
            .for_each(|(now, then)| *now = now.saturating_sub(*then));
        self.connections_open = open;
        self
    }
}

/// The counters themselves.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) body_bytes: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) connections_opened: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) verified: AtomicU64,
    kinds: Mutex<BTreeMap<&'static str, ErrorKind>>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// Counts an error.
    pub(crate) fn error(&self, kind: &'static str, example: impl FnOnce() -> String) {
        add(&self.errors, 1);
        // The counts stay valid if a thread panicked elsewhere.
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(kind).or_insert_with(|| ErrorKind { count: 0, example: example() }).count += 1;
    }

    /// The errors so far.
    pub(crate) fn kinds(&self) -> BTreeMap<&'static str, ErrorKind> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All counts, read at about the same moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            body_bytes: read(&self.body_bytes),
            requests: read(&self.requests),
            aborted: read(&self.aborted),
            handshakes: read(&self.handshakes),
            resumed: read(&self.resumed),
            connections_opened: read(&self.connections_opened),
            connections_open: read(&self.connections_open),
            errors: read(&self.errors),
            verified: read(&self.verified),
        }
    }
}

/// Adds one thread's errors to those of others.
pub(crate) fn merge(
    into: &mut BTreeMap<&'static str, ErrorKind>,
    more: BTreeMap<&'static str, ErrorKind>,
) {
    for (kind, error) in more {
        let count = error.count;
        into.entry(kind).and_modify(|known| known.count += count).or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_with_the_first_example() {
        let (one, other) = (Counters::default(), Counters::default());
        one.error("short", || "a".into());
        one.error("short", || "b".into());
        other.error("short", || "c".into());
        other.error("reset", || "d".into());
        let mut all = one.kinds();
        merge(&mut all, other.kinds());
        assert_eq!(all["short"], ErrorKind { count: 3, example: "a".into() });
        assert_eq!(all["reset"], ErrorKind { count: 1, example: "d".into() });
        assert_eq!(one.snapshot().plus(other.snapshot()).errors, 4);
    }

    #[test]
    fn a_difference_of_snapshots_keeps_what_is_open() {
        let counters = Counters::default();
        add(&counters.requests, 3);
        add(&counters.connections_open, 2);
        let earlier = counters.snapshot();
        add(&counters.requests, 4);
        let since = counters.snapshot().since(earlier);
        assert_eq!((since.requests, since.connections_open), (4, 2));
    }
}
