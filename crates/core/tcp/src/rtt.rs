//! Round-trip times and the retransmission timeout (RFC 6298), and the shortest recent round trip.

use crate::clock::Time;

/// Before there is a measurement (RFC 6298 section 2.1).
const RTO_INITIAL_US: u64 = 1_000_000;

/// RFC 6298 section 2.4 says that the minimum SHOULD be one second. With tail loss probes before it, a spurious timeout is rare and is undone. So 200
/// ms, as in widely deployed stacks, is better for a viewer.
const RTO_US_MIN: u64 = 200_000;

/// RFC 6298 section 2.5: a maximum must be at least 60 seconds.
pub(crate) const RTO_US_MAX: u64 = 60_000_000;

/// Clock granularity G of RFC 6298 section 2: times are in microseconds, but timers are served about every millisecond.
const GRANULARITY_US: u64 = 1_000;

/// The shortest round trip is forgotten after twice this, because a path may change. The value is a guess.
const MINIMUM_BUCKET_US: u64 = 15_000_000;

#[derive(Debug)]
pub(crate) struct Rtt {
    srtt_us: u64,
    rttvar_us: u64,
    /// The minimum within this interval and within the one before.
    minimum_us: [u64; 2],
    bucket_since: Time,
    /// Doublings of the timeout (RFC 6298 section 5.5).
    backoff: u32,
}

impl Rtt {
    pub(crate) fn new(now: Time) -> Self {
        Rtt { srtt_us: 0, rttvar_us: 0, minimum_us: [u64::MAX; 2], bucket_since: now, backoff: 0 }
    }

    /// A measurement on bytes that were sent once (the caller applies Karn's rule). `samples` is how many are expected
    /// per round trip. The gains are divided by it, because otherwise the average would cover only a fraction of a
    /// round trip (RFC 7323 appendix G).
    pub(crate) fn sample(&mut self, now: Time, rtt_us: u64, samples: u64) {
        let rtt_us = rtt_us.max(1);
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us;
            self.rttvar_us = rtt_us / 2;
        } else {
            // RFC 6298 section 2.3: beta is 1/4, alpha is 1/8; RTTVAR first.
            let deviation = self.srtt_us.abs_diff(rtt_us);
            self.rttvar_us = nudge(self.rttvar_us, deviation, 4 * samples.max(1));
            self.srtt_us = nudge(self.srtt_us, rtt_us, 8 * samples.max(1)).max(1);
        }
        self.note_minimum(now, rtt_us);
    }

    fn note_minimum(&mut self, now: Time, rtt_us: u64) {
        if now.since_us(self.bucket_since) > MINIMUM_BUCKET_US {
            self.minimum_us = [u64::MAX, self.minimum_us[0]];
            self.bucket_since = now;
        }
        self.minimum_us[0] = self.minimum_us[0].min(rtt_us);
    }

    /// Zero before the first measurement.
    pub(crate) fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    pub(crate) fn rttvar_us(&self) -> u64 {
        self.rttvar_us
    }

    /// The shortest recent one; zero before the first measurement.
    pub(crate) fn minimum_us(&self) -> u64 {
        match self.minimum_us[0].min(self.minimum_us[1]) {
            u64::MAX => self.srtt_us,
            minimum => minimum,
        }
    }

    /// The timeout with its doublings.
    pub(crate) fn rto_us(&self) -> u64 {
        (self.rto_base_us() << self.backoff.min(16)).min(RTO_US_MAX)
    }

    /// The timeout without its doublings.
    pub(crate) fn rto_base_us(&self) -> u64 {
        if self.srtt_us == 0 {
            return RTO_INITIAL_US;
        }
        (self.srtt_us + (4 * self.rttvar_us).max(GRANULARITY_US)).clamp(RTO_US_MIN, RTO_US_MAX)
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Resets the backoff, because something new was acknowledged (RFC 6298 section 5.7 leaves open when to reset; this is common practice).
    pub(crate) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }
}

/// `value` moved towards `to` by one part in `parts`.
fn nudge(value: u64, to: u64, parts: u64) -> u64 {
    if to >= value { value + (to - value) / parts } else { value - (value - to) / parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298() {
        let mut rtt = Rtt::new(Time(0));
        assert_eq!(rtt.rto_us(), 1_000_000);
        rtt.sample(Time(0), 400_000, 1);
        assert_eq!((rtt.srtt_us(), rtt.rttvar_us(), rtt.rto_us()), (400_000, 200_000, 1_200_000));
        rtt.sample(Time(0), 480_000, 1);
        assert_eq!((rtt.srtt_us(), rtt.rttvar_us()), (410_000, 170_000));
        rtt.back_off();
        assert_eq!(rtt.rto_us(), 2 * (410_000 + 4 * 170_000));
        for _ in 0..80 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto_us(), RTO_US_MAX);
    }

    #[test]
    fn the_minimum_is_forgotten_after_a_while() {
        let mut rtt = Rtt::new(Time(0));
        rtt.sample(Time(0), 5_000, 1);
        for second in 1..60 {
            rtt.sample(Time(second * 1_000_000), 20_000, 1);
            assert_eq!(rtt.minimum_us() == 5_000, second <= 31, "at second {second}");
        }
    }
}
