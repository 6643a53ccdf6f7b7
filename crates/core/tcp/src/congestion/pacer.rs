//! Pacing: spreads sending over the round trip.

use crate::clock::Time;

/// In slow start the window leaves in half a round trip, so that it can double; otherwise in five sixths, so that
/// pacing itself is never the bottleneck. These are Linux's ratios.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;

/// How much a late sender may catch up: timers are no more precise than a millisecond.
const CREDIT_US: u64 = 1_000;

/// One send is a millisecond's worth: at a higher rate, fewer and larger super-segments.
const QUANTUM_US: u64 = 1_000;

/// A piece is at most this part of the window, whatever the caller prefers. Next to a flow that sends segment by segment, a flow with larger bursts
/// finds the queue full more often. With an eighth, a single flow got 17 of 50 Mbit/s next to Linux's CUBIC; with single segments it got 27
/// (docs/notes/bypass.md), but each of them costs a read and a send.
const BURST_PART: u64 = 16;

/// A piece is at least this many segments, however small the window: each piece costs a timer, a want and a frame. With two, an answer of 128 KiB
/// over a link of 25 Mbit/s left in some forty pieces. Initial windows of ten may leave at once (RFC 6928 section 2), so queues cope with four in a
/// row. From 64 segments on, [`BURST_PART`] decides.
const PIECE_SEGMENTS_MIN: u64 = 4;

/// At a known rate, as with BBR, a piece is a millisecond's worth and at least this many segments, as in Linux. Flows of BBR keep a short queue full,
/// and a flow that sends larger pieces loses more of them: with four segments a flow got 17 to 20 of 50 Mbit/s next to one with two, in the
/// simulation.
const RATE_SEGMENTS_MIN: u64 = 2;

#[derive(Debug)]
pub(crate) struct Pacer {
    enabled: bool,
    quantum_bytes_min: u64,
    /// [`BURST_PART`] of the window, or 0 at a known rate.
    burst_bytes_max: u64,
    piece_segments_min: u64,
    /// Bytes per second. None: not known yet, so nothing is held back.
    rate: Option<u64>,
    rate_max: Option<u64>,
    free_at: Time,
}

impl Pacer {
    pub(crate) fn new(enabled: bool, quantum_bytes_min: u64) -> Self {
        Pacer {
            enabled,
            quantum_bytes_min,
            burst_bytes_max: u64::MAX,
            piece_segments_min: PIECE_SEGMENTS_MIN,
            rate: None,
            rate_max: None,
            free_at: Time(0),
        }
    }

    pub(crate) fn limit(&mut self, bytes_per_second: Option<u64>) {
        self.rate_max = bytes_per_second.map(|rate| rate.max(1));
    }

    /// `least_us` is the shortest recent round trip. A round trip shorter than one send's worth cannot be spread:
    /// timers would only hold back what the window allows.
    pub(crate) fn update(
        &mut self,
        window_bytes: u64,
        srtt_us: u64,
        least_us: u64,
        slow_start: bool,
    ) {
        if !self.enabled || srtt_us == 0 {
            return;
        }
        if least_us < QUANTUM_US {
            (self.rate, self.burst_bytes_max) = (None, u64::MAX);
            return;
        }
        self.burst_bytes_max = window_bytes / BURST_PART;
        let percent = if slow_start { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
        let rate = window_bytes as u128 * percent as u128 * 10_000 / srtt_us as u128;
        self.rate = Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1));
    }

    /// Like [`Pacer::update`], at a known rate.
    pub(crate) fn follow(&mut self, bytes_per_second: u64, least_us: u64) {
        self.piece_segments_min = RATE_SEGMENTS_MIN;
        if !self.enabled || least_us < QUANTUM_US {
            (self.rate, self.burst_bytes_max) = (None, u64::MAX);
            return;
        }
        self.burst_bytes_max = 0;
        self.rate = Some(bytes_per_second.max(1));
    }

    /// Bytes per second, if sending is paced.
    pub(crate) fn rate(&self) -> Option<u64> {
        if !self.enabled {
            return None;
        }
        match (self.rate, self.rate_max) {
            (Some(rate), Some(most)) => Some(rate.min(most)),
            (rate, most) => rate.or(most),
        }
    }

    /// Returns true if the caller's limit is what holds sending back.
    pub(crate) fn is_capped(&self) -> bool {
        let Some(most) = self.rate_max.filter(|_| self.enabled) else { return false };
        self.rate.is_none_or(|rate| most < rate)
    }

    /// When the next bytes may be sent.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    pub(crate) fn is_free(&self, now: Time) -> bool {
        self.rate().is_none() || self.free_at <= now
    }

    pub(crate) fn sent(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.rate() else { return };
        let takes_us = (bytes as u128 * 1_000_000 / rate as u128) as u64;
        self.free_at = self.free_at.max(now.before_us(CREDIT_US)).after_us(takes_us);
    }

    /// Takes back bytes that were counted as sent and will not be sent.
    pub(crate) fn take_back(&mut self, bytes: u64) {
        let Some(rate) = self.rate() else { return };
        let takes_us = (bytes as u128 * 1_000_000 / rate as u128) as u64;
        self.free_at = self.free_at.before_us(takes_us);
    }

    /// How much may be sent at once, in whole segments: a millisecond's worth, at least a few segments.
    pub(crate) fn quantum_bytes(&self, mss: u64, most: u64) -> u64 {
        let quantum = match self.rate() {
            Some(rate) => (rate as u128 * QUANTUM_US as u128 / 1_000_000) as u64,
            None => most,
        };
        let wanted = self.quantum_bytes_min.min(self.burst_bytes_max);
        let least = wanted.div_ceil(mss).max(self.piece_segments_min) * mss;
        (quantum.clamp(least, most.max(least)) / mss * mss).min(most.max(mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_spread_over_the_round_trip() {
        let mut pacer = Pacer::new(true, 0);
        pacer.update(100_000, 100_000, 100_000, false);
        assert_eq!(pacer.rate(), Some(1_200_000));
        let mut now = Time(10_000_000);
        let mut sent = 0;
        while now < Time(10_100_000) {
            if pacer.is_free(now) {
                pacer.sent(now, 2000);
                sent += 2000;
            }
            now = now.after_us(10);
        }
        assert!((118_000..=124_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_piece_is_a_small_part_of_the_window() {
        let mut pacer = Pacer::new(true, 64_000);
        assert_eq!(pacer.quantum_bytes(1000, 500_000), 500_000);
        for (window_bytes, piece_bytes) in [(10_000, 4_000), (80_000, 5_000), (2_000_000, 64_000)] {
            pacer.update(window_bytes, 100_000, 100_000, false);
            assert_eq!(pacer.quantum_bytes(1000, 500_000), piece_bytes);
        }
    }

    #[test]
    fn lateness_beyond_a_millisecond_is_not_made_up_for() {
        let mut pacer = Pacer::new(true, 0);
        pacer.update(100_000, 100_000, 100_000, false);
        pacer.sent(Time(1_000_000), 1200);
        pacer.sent(Time(9_000_000), 1200);
        assert_eq!(pacer.free_at(), Time(9_000_000));
    }

    #[test]
    fn a_way_of_less_than_a_millisecond_is_paced_only_by_a_cap() {
        let mut pacer = Pacer::new(true, 0);
        pacer.update(100_000, 100_000, 100_000, false);
        pacer.update(100_000, 5_000, 999, false);
        assert_eq!(pacer.rate(), None);
        assert!(!pacer.is_capped());
        pacer.limit(Some(7));
        assert_eq!(pacer.rate(), Some(7));
        assert!(pacer.is_capped());
    }

    #[test]
    fn a_known_rate_is_followed_up_to_the_cap() {
        let mut pacer = Pacer::new(true, 0);
        pacer.limit(Some(1_000_000));
        pacer.follow(300_000, 20_000);
        assert_eq!((pacer.rate(), pacer.is_capped()), (Some(300_000), false));
        assert_eq!(pacer.quantum_bytes(1000, 60_000), 2000);
        pacer.follow(2_000_000, 20_000);
        assert_eq!((pacer.rate(), pacer.is_capped()), (Some(1_000_000), true));
        pacer.follow(0, 20_000);
        assert_eq!(pacer.rate(), Some(1), "it never stops");
        pacer.follow(300_000, 999);
        assert_eq!(pacer.rate(), Some(1_000_000), "too short a way to spread over");
    }

    #[test]
    fn a_cap_holds_before_a_round_trip_is_known() {
        let mut pacer = Pacer::new(true, 0);
        pacer.limit(Some(1_000_000));
        pacer.sent(Time(5_000_000), 10_000);
        assert_eq!(pacer.free_at(), Time(5_009_000));
        assert_eq!(pacer.quantum_bytes(1000, 60_000), 4000);
    }
}
