//! Limits a rate: spreads bytes over time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;
use crate::stop::Wakeup;

/// The longest wait before checking the limit again: it may have changed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A limit in bytes per second. Unused time gives no credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    /// Bytes taken ahead of their time, as of `at`. Kept in bytes, so that they are paid off at the current limit.
    owed_bytes: f64,
    at: Duration,
}

impl Pace {
    /// A limit of `bytes_per_second`; 0 means no limit.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, owed_bytes: 0.0, at: Duration::ZERO }
    }

    /// Changes the limit. `now` is any monotonic clock.
    pub(crate) fn set(&mut self, bytes_per_second: u64, now: Duration) {
        self.pay(now);
        self.bytes_per_second = bytes_per_second;
    }

    /// How long to wait until more may be taken, if the limit stays the same.
    pub(crate) fn wait(&mut self, now: Duration) -> Duration {
        self.pay(now);
        match self.bytes_per_second {
            0 => Duration::ZERO,
            bound => Duration::from_secs_f64(self.owed_bytes / bound as f64),
        }
    }

    /// Takes `bytes`. The next taker has to wait for them.
    pub(crate) fn take(&mut self, bytes: u64, now: Duration) {
        self.pay(now);
        if self.bytes_per_second > 0 {
            self.owed_bytes += bytes as f64;
        }
    }

    fn pay(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        self.owed_bytes = match self.bytes_per_second {
            0 => 0.0,
            bound => (self.owed_bytes - seconds * bound as f64).max(0.0),
        };
        self.at = self.at.max(now);
    }
}

/// Waits until `bytes` may be taken, and takes them. Returns whether to go on: `false` if the thread of `wakeup` must stop, or `wants`
/// returns `false`.
pub(crate) fn keep_pace(
    pace: &Mutex<Pace>,
    bytes: u64,
    since: Instant,
    wakeup: &Wakeup,
    wants: &dyn Fn() -> bool,
) -> bool {
    loop {
        let wait = lock(pace).wait(since.elapsed());
        if wakeup.is_stopped() || !wants() {
            return false;
        }
        if wait.is_zero() {
            lock(pace).take(bytes, since.elapsed());
            return true;
        }
        wakeup.pause(wait.min(LOOK_AGAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn bytes_leave_as_fast_as_the_bound_allows_and_rest_is_not_saved_up() {
        let mut pace = Pace::new(1000);
        assert_eq!(pace.wait(Duration::ZERO), Duration::ZERO);
        pace.take(1000, Duration::ZERO);
        assert_eq!(pace.wait(Duration::ZERO), SECOND);
        pace.take(500, Duration::ZERO);
        assert_eq!(pace.wait(SECOND), SECOND / 2);
        assert_eq!(pace.wait(60 * SECOND), Duration::ZERO);
        pace.take(1000, 60 * SECOND);
        assert_eq!(pace.wait(60 * SECOND), SECOND);
        pace.set(0, 60 * SECOND);
        pace.take(1 << 40, 60 * SECOND);
        assert_eq!(pace.wait(60 * SECOND), Duration::ZERO);
    }

    #[test]
    fn what_was_taken_under_a_lower_bound_is_paid_off_at_the_next_one() {
        let mut pace = Pace::new(100);
        pace.take(1000, Duration::ZERO);
        assert_eq!(pace.wait(Duration::ZERO), 10 * SECOND);
        pace.set(1000, 5 * SECOND);
        assert_eq!(pace.wait(5 * SECOND), SECOND / 2);
        pace.set(100, 5 * SECOND);
        assert_eq!(pace.wait(5 * SECOND), 5 * SECOND);
    }
}
