//! A moment that means the same in the server and in its helper.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Nanoseconds of the kernel's monotonic clock, which all processes share. How long ago it was would be wrong by the time that a message takes, and
/// on a busy machine an answer of the origin arrives meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedAt(u64);

impl AskedAt {
    /// The moment of an instant in the past.
    pub fn of(instant: Instant) -> Self {
        // Both here and below, an interruption between two readings makes the moment later, which is on the safe side.
        let passed = instant.elapsed();
        Self(nanoseconds(monotonic().saturating_sub(passed)))
    }

    /// The instant of a moment in the past.
    pub fn instant(self) -> Instant {
        let passed = monotonic().saturating_sub(Duration::from_nanos(self.0));
        let now = Instant::now();
        now.checked_sub(passed).unwrap_or(now)
    }
}

fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_instant_that_it_was_made_of_or_hardly_later() {
        let before = Instant::now();
        let moment = AskedAt::of(before);
        let text = serde_json::to_string(&moment).unwrap();
        let back = serde_json::from_str::<AskedAt>(&text).unwrap().instant();
        assert!(back >= before && back <= Instant::now());
        let ago = Duration::from_millis(70);
        let back = AskedAt::of(before - ago).instant();
        assert!(back >= before - ago && back <= Instant::now() - ago);
        // A message that is not from this machine.
        assert!(AskedAt(u64::MAX).instant() <= Instant::now());
    }
}
