//! Time inside an endpoint: microseconds since it was made, in eight bytes. The caller's `Instant` is converted on entry.

use std::time::{Duration, Instant};

/// A moment, in microseconds since the endpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) u64);

impl Time {
    /// Later than every moment: a timer that is not set.
    pub(crate) const NEVER: Time = Time(u64::MAX);

    pub(crate) fn of(now: Instant, epoch: Instant) -> Time {
        Time(micros(now.saturating_duration_since(epoch)))
    }

    pub(crate) fn instant(self, epoch: Instant) -> Option<Instant> {
        if self == Time::NEVER {
            return None;
        }
        epoch.checked_add(Duration::from_micros(self.0))
    }

    pub(crate) fn after_us(self, us: u64) -> Time {
        Time(self.0.saturating_add(us))
    }

    pub(crate) fn before_us(self, us: u64) -> Time {
        Time(self.0.saturating_sub(us))
    }

    /// Microseconds from `earlier` to here; zero if it is later.
    pub(crate) fn since_us(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn milliseconds(self) -> u64 {
        self.0 / 1000
    }

    pub(crate) fn is_set(self) -> bool {
        self != Time::NEVER
    }
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
