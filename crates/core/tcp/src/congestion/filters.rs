//! The highest and the lowest of recent measurements.

use crate::clock::Time;

/// MinRTTFilterLen: how long a shortest round trip counts.
const LEAST_US_KEPT: u64 = 10_000_000;

/// ProbeRTTInterval: without a shorter or equal round trip for this long, the flow shrinks to measure it again.
const PROBE_EVERY_US: u64 = 5_000_000;

/// The highest value of this period and of the one before. The caller ends the periods.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Highest {
    now: u64,
    before: u64,
}

impl Highest {
    pub(super) fn note(&mut self, value: u64) {
        self.now = self.now.max(value);
    }

    pub(super) fn value(&self) -> u64 {
        self.now.max(self.before)
    }

    pub(super) fn next_period(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

/// The shortest round trip, and when to look for it.
#[derive(Debug)]
pub(super) struct LeastRtt {
    /// BBR.min_rtt.
    least_us: Option<u64>,
    least_at: Time,
    /// BBR.probe_rtt_min_delay: the shortest since the last probe.
    recent_us: u64,
    recent_at: Time,
}

impl LeastRtt {
    pub(super) fn new(now: Time) -> Self {
        LeastRtt { least_us: None, least_at: now, recent_us: u64::MAX, recent_at: now }
    }

    pub(super) fn us(&self) -> Option<u64> {
        self.least_us
    }

    /// BBRUpdateMinRTT(). True: it is time to look for the shortest round trip.
    pub(super) fn note(&mut self, now: Time, rtt_us: Option<u64>) -> bool {
        let is_old = now.since_us(self.recent_at) > PROBE_EVERY_US;
        if let Some(rtt_us) = rtt_us {
            if rtt_us < self.recent_us || is_old {
                (self.recent_us, self.recent_at) = (rtt_us.max(1), now);
            }
        }
        let is_forgotten = now.since_us(self.least_at) > LEAST_US_KEPT;
        let is_less = self.least_us.is_none_or(|least_us| self.recent_us < least_us);
        if self.recent_us != u64::MAX && (is_less || is_forgotten) {
            (self.least_us, self.least_at) = (Some(self.recent_us), self.recent_at);
        }
        is_old
    }

    /// Restarts the interval after the flow has measured the shortest round trip.
    pub(super) fn looked(&mut self, now: Time) {
        self.recent_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_is_forgotten_after_two_periods() {
        let mut highest = Highest::default();
        highest.note(9);
        highest.note(5);
        highest.next_period();
        highest.note(7);
        assert_eq!(highest.value(), 9);
        highest.next_period();
        assert_eq!(highest.value(), 7);
        highest.next_period();
        highest.next_period();
        assert_eq!(highest.value(), 0);
    }

    #[test]
    fn the_shortest_round_trip_is_looked_for_after_5_s_and_forgotten_after_10() {
        let mut least = LeastRtt::new(Time(0));
        assert!(!least.note(Time(0), Some(20_000)));
        for second in 1..=5 {
            assert!(!least.note(Time(second * 1_000_000), Some(30_000)), "at {second} s");
            assert_eq!(least.us(), Some(20_000));
        }
        assert!(least.note(Time(5_100_000), Some(31_000)), "no shorter one for 5 s");
        assert_eq!(least.us(), Some(20_000), "it still counts");
        least.looked(Time(5_300_000));
        assert!(!least.note(Time(6_000_000), Some(32_000)));
        least.note(Time(10_100_000), Some(33_000));
        assert_eq!(least.us(), Some(31_000), "the shortest of the last 5 s");
    }

    #[test]
    fn a_shorter_one_counts_at_once_and_none_changes_nothing() {
        let mut least = LeastRtt::new(Time(0));
        assert!(!least.note(Time(0), None));
        assert_eq!(least.us(), None);
        least.note(Time(1), Some(20_000));
        least.note(Time(2), Some(0));
        assert_eq!(least.us(), Some(1));
    }
}
