//! Whether an origin is passed over: a circuit breaker, without I/O and without a clock of its own.
//!
//! An origin that has failed [`FAILURES_MAX`] times in a row is passed over for a time. Then one request tries it again. If that fails as well, the
//! origin is passed over for twice as long, at most [`BACK_OFF_MAX`]. Any answer ends that.

use std::time::{Duration, Instant};

/// Failures in a row after which an origin is passed over. A request counts once if another origin answers it: then it has no second try.
pub(super) const FAILURES_MAX: u32 = 3;

/// For how long it is passed over at first: restarting a web server takes about that.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// For how long it is passed over at most. The trial costs one request, and nothing waits for it.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// The record of one origin.
pub(super) enum Circuit {
    /// It is asked. It has failed this often in a row.
    Closed { failures: u32 },
    /// It is passed over, until a request tries it again at `until`.
    Open { until: Instant, back_off: Duration },
    /// A request tries it again.
    HalfOpen { back_off: Duration },
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Circuit {
    /// Whether it is passed over.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    /// A request to it has ended.
    pub(super) fn note(&mut self, has_answered: bool, now: Instant) {
        match self {
            _ if has_answered => *self = Self::default(),
            Self::Closed { failures } if *failures + 1 < FAILURES_MAX => *failures += 1,
            Self::Closed { .. } => {
                *self = Self::Open { until: now + BACK_OFF_MIN, back_off: BACK_OFF_MIN };
            }
            // It was sent before, or because all origins are passed over. Only the trial counts.
            Self::Open { .. } | Self::HalfOpen { .. } => {}
        }
    }

    /// Whether it is time for the trial, which the caller then makes. It ends with [`Self::end_trial`].
    pub(super) fn begin_trial(&mut self, now: Instant) -> bool {
        match *self {
            Self::Open { until, back_off } if until <= now => {
                *self = Self::HalfOpen { back_off };
                true
            }
            _ => false,
        }
    }

    /// The trial has ended.
    pub(super) fn end_trial(&mut self, has_answered: bool, now: Instant) {
        if has_answered {
            *self = Self::default();
        } else if let Self::HalfOpen { back_off } = *self {
            let back_off = BACK_OFF_MAX.min(2 * back_off);
            *self = Self::Open { until: now + back_off, back_off };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failed_at(now: Instant) -> Circuit {
        let mut circuit = Circuit::default();
        for _ in 0..FAILURES_MAX {
            assert!(!circuit.is_open());
            circuit.note(false, now);
        }
        assert!(circuit.is_open());
        circuit
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        for _ in 0..100 {
            (1..FAILURES_MAX).for_each(|_| circuit.note(false, now));
            circuit.note(true, now);
            assert!(!circuit.is_open());
        }
        failed_at(now);
    }

    #[test]
    fn one_request_tries_it_again_after_growing_pauses() {
        let mut now = Instant::now();
        let mut circuit = failed_at(now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!circuit.begin_trial(now + seconds * SECOND - SECOND / 10), "{seconds}");
            now += seconds * SECOND;
            assert!(circuit.begin_trial(now), "{seconds}");
            assert!(!circuit.begin_trial(now) && circuit.is_open(), "there is one trial at a time");
            circuit.note(false, now);
            circuit.end_trial(false, now);
        }
        assert!(circuit.begin_trial(now + 30 * SECOND));
        circuit.end_trial(true, now);
        assert!(!circuit.is_open());
        circuit.note(false, now);
        assert!(!circuit.is_open(), "it has all its failures again");
    }

    #[test]
    fn any_answer_closes_it() {
        let now = Instant::now();
        let mut circuit = failed_at(now);
        circuit.note(true, now);
        assert!(!circuit.is_open());
        let mut circuit = failed_at(now);
        assert!(circuit.begin_trial(now + SECOND));
        circuit.note(true, now);
        circuit.end_trial(false, now);
        assert!(!circuit.is_open(), "another request was answered meanwhile");
    }
}
