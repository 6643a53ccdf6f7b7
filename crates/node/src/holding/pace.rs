//! Spreads bytes over time.

use std::time::Duration;

/// A bound on bytes per second. Time in which nothing was taken gives no credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    free_at: Duration,
}

impl Pace {
    /// So many bytes per second; 0 means no bound.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, free_at: Duration::ZERO }
    }

    /// Changes the bound from now on.
    pub(crate) fn set(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second;
    }

    /// Takes `bytes`, and returns how long to wait before they may be used. `now` is any clock that only goes forward.
    pub(crate) fn take(&mut self, bytes: u64, now: Duration) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let begin = self.free_at.max(now);
        self.free_at = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        begin - now
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    #[test]
    fn bytes_leave_as_fast_as_the_bound_allows_and_rest_is_not_saved_up() {
        let mut pace = Pace::new(1000);
        let second = Duration::from_secs(1);
        assert_eq!(pace.take(1000, Duration::ZERO), Duration::ZERO);
        assert_eq!(pace.take(500, Duration::ZERO), second);
        assert_eq!(pace.take(500, second), second / 2);
        assert_eq!(pace.take(1000, 60 * second), Duration::ZERO);
        assert_eq!(pace.take(1000, 60 * second), second);
        pace.set(0);
        assert_eq!(pace.take(1 << 40, 60 * second), Duration::ZERO);
    }
}
