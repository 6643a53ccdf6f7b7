//! The current states of a run's viewers, and the events so far: counters that one thread writes and others read.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A viewer's state, as an observer would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has pressed play and has no picture yet.
    Waiting,
    Playing,
    Stalled,
    Gone,
}

/// The counters of one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    states: [AtomicU64; 4],
    pub(crate) body_bytes: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) connections_opened: AtomicU64,
    pub(crate) failures: AtomicU64,
    kinds: Mutex<BTreeMap<&'static str, FailureKind>>,
}

/// One kind of failed requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureKind {
    /// Number of failures.
    pub count: u64,
    /// The first one, as text.
    pub example: String,
}

/// All viewers at one moment, and the counts until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Seconds since the run began.
    pub seconds: f64,
    /// Viewers waiting for the first picture.
    pub waiting: u64,
    /// Viewers watching the film.
    pub playing: u64,
    /// Viewers whose playback has stopped because the buffer is empty.
    pub stalled: u64,
    /// Viewers who have left or finished.
    pub gone: u64,
    /// Bytes of bodies so far.
    pub body_bytes: u64,
    /// Complete responses so far.
    pub requests: u64,
    /// Stalls so far.
    pub stalls: u64,
    /// Failed requests so far.
    pub failures: u64,
    /// TLS handshakes so far.
    pub handshakes: u64,
    /// How many of these resumed a session.
    pub resumed: u64,
    /// Connections opened so far.
    pub connections_opened: u64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// Moves a viewer from one state to another; `None` means that it is new.
    pub(crate) fn goes(&self, from: Option<State>, to: State) {
        if let Some(from) = from {
            self.states[from as usize].fetch_sub(1, Ordering::Relaxed);
        }
        add(&self.states[to as usize], 1);
    }

    /// Counts a failed request.
    pub(crate) fn failed(&self, kind: &'static str, example: impl FnOnce() -> String) {
        add(&self.failures, 1);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(kind).or_insert_with(|| FailureKind { count: 0, example: example() }).count +=
            1;
    }

    /// The failures so far, added to `into`.
    pub(crate) fn add_kinds(&self, into: &mut BTreeMap<&'static str, FailureKind>) {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, failure) in kinds.iter() {
            let known = into.entry(kind);
            known.and_modify(|known| known.count += failure.count).or_insert(failure.clone());
        }
    }
}

impl Moment {
    /// The sum of all threads' counters, read at about the same moment.
    pub(crate) fn of<'a>(after: Duration, all: impl Iterator<Item = &'a Counters>) -> Self {
        let mut moment = Self { seconds: after.as_secs_f64(), ..Self::default() };
        for counters in all {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let at = |state: State| read(&counters.states[state as usize]);
            for (sum, count) in [
                (&mut moment.waiting, at(State::Waiting)),
                (&mut moment.playing, at(State::Playing)),
                (&mut moment.stalled, at(State::Stalled)),
                (&mut moment.gone, at(State::Gone)),
                (&mut moment.body_bytes, read(&counters.body_bytes)),
                (&mut moment.requests, read(&counters.requests)),
                (&mut moment.stalls, read(&counters.stalls)),
                (&mut moment.failures, read(&counters.failures)),
                (&mut moment.handshakes, read(&counters.handshakes)),
                (&mut moment.resumed, read(&counters.resumed)),
                (&mut moment.connections_opened, read(&counters.connections_opened)),
            ] {
                *sum += count;
            }
        }
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_counted_by_their_state() {
        let (one, other) = (Counters::default(), Counters::default());
        one.goes(None, State::Waiting);
        one.goes(Some(State::Waiting), State::Playing);
        other.goes(None, State::Waiting);
        let moment = Moment::of(Duration::from_secs(2), [&one, &other].into_iter());
        assert_eq!((moment.waiting, moment.playing, moment.stalled, moment.gone), (1, 1, 0, 0));
        assert_eq!(moment.seconds, 2.0);
    }

    #[test]
    fn failures_of_all_threads_are_added_by_kind_with_the_first_example() {
        let (one, other) = (Counters::default(), Counters::default());
        one.failed("reset", || "a".into());
        one.failed("reset", || "b".into());
        other.failed("reset", || "c".into());
        let mut all = BTreeMap::new();
        one.add_kinds(&mut all);
        other.add_kinds(&mut all);
        assert_eq!(all["reset"], FailureKind { count: 3, example: "a".into() });
    }
}
