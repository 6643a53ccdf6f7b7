//! When things are due. This is arithmetic only: the callers have the clock.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The golden ratio's fractional part: its multiples spread any number of viewers evenly over an interval (Weyl's theorem).
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// When viewer `number` of `count` starts, as a time since the start of the run: evenly over the ramp. Viewers that send requests at
/// intervals are also spread over one interval, so that they are not in step.
pub(crate) fn viewer_start(
    number: usize,
    count: usize,
    ramp: Duration,
    interval: Duration,
) -> Duration {
    let ramp_share = number as f64 / count.max(1) as f64;
    ramp.mul_f64(ramp_share) + interval.mul_f64((number as f64 * GOLDEN).fract())
}

/// The playing time of `bytes`.
pub(crate) fn playing_time(bytes: u64, bits_per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 * 8.0 / bits_per_second as f64)
}

/// A viewer's playback clock: what it requested plays at its rate from the moment it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlayingClock {
    began: Instant,
    bits_per_second: u64,
    asked_bytes: u64,
}

impl PlayingClock {
    pub(crate) fn new(began: Instant, bits_per_second: u64) -> Self {
        Self { began, bits_per_second, asked_bytes: 0 }
    }

    /// When the next bytes are due: when the requested ones will have been played.
    pub(crate) fn due(&self) -> Instant {
        self.began + playing_time(self.asked_bytes, self.bits_per_second)
    }

    /// Counts requested bytes.
    pub(crate) fn asked(&mut self, bytes: u64) {
        self.asked_bytes += bytes;
    }
}

/// Limits how many bytes a slow reader may have read by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingClock {
    bytes_per_second: f64,
}

/// A slow reader wakes at least this often.
const READ_INTERVAL: Duration = Duration::from_millis(100);

impl ReadingClock {
    pub(crate) fn new(bits_per_second: u64) -> Self {
        Self { bytes_per_second: bits_per_second as f64 / 8.0 }
    }

    /// How many bytes it reads at once.
    pub(crate) fn sip_bytes(&self) -> u64 {
        ((self.bytes_per_second * READ_INTERVAL.as_secs_f64()) as u64).max(1)
    }

    /// How long it pauses after reading `bytes`.
    pub(crate) fn rest(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }
}

/// One thread's part of the open loop: every `threads`-th arrival of an even schedule.
#[derive(Debug)]
pub(crate) struct Arrivals {
    began: Instant,
    per_second: f64,
    next: Cell<u64>,
    step: u64,
}

impl Arrivals {
    pub(crate) fn new(began: Instant, per_second: f64, thread: usize, threads: usize) -> Self {
        Self { began, per_second, next: Cell::new(thread as u64), step: threads as u64 }
    }

    /// Takes the next arrival, and returns when it is due. The viewer that takes it serves it, however late.
    pub(crate) fn take(&self) -> Instant {
        let number = self.next.get();
        self.next.set(number + self.step);
        self.began + Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// How many arrivals have been due by now, taken or not.
    pub(crate) fn due_by(&self, now: Instant) -> u64 {
        let numbers = now.saturating_duration_since(self.began).as_secs_f64() * self.per_second;
        let first = self.next.get() % self.step;
        // The arrivals of this thread are first, first + step, and so on.
        (numbers as u64).checked_sub(first).map_or(0, |rest| rest / self.step + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_start_evenly_over_the_ramp_and_out_of_step() {
        let ramp = Duration::from_secs(10);
        let start = |number| viewer_start(number, 100, ramp, Duration::ZERO);
        assert_eq!(start(0), Duration::ZERO);
        assert_eq!(start(50), Duration::from_secs(5));
        assert!(start(99) < ramp);
        let interval = Duration::from_secs(1);
        let mut tenths = [0; 10];
        for number in 0..1000 {
            let phase = viewer_start(number, 1000, Duration::ZERO, interval);
            tenths[(phase.as_secs_f64() * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (95..=105).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_playing_clock_asks_when_what_was_asked_for_has_been_played() {
        let began = Instant::now();
        let mut clock = PlayingClock::new(began, 8_000_000);
        assert_eq!(clock.due(), began);
        clock.asked(1_000_000);
        assert_eq!(clock.due(), began + Duration::from_secs(1));
        clock.asked(500_000);
        assert_eq!(clock.due(), began + Duration::from_millis(1500));
    }

    #[test]
    fn arrivals_are_shared_out_to_threads_without_gap_or_overlap() {
        let began = Instant::now();
        let threads: Vec<_> = (0..3).map(|thread| Arrivals::new(began, 100.0, thread, 3)).collect();
        let due: Vec<_> = (0..9).map(|number| threads[number % 3].take()).collect();
        let expected: Vec<_> =
            (0..9).map(|number| began + Duration::from_millis(10 * number)).collect();
        assert_eq!(due, expected);
        let due_by = |milliseconds| {
            let now = began + Duration::from_millis(milliseconds);
            threads.iter().map(|thread| thread.due_by(now)).collect::<Vec<_>>()
        };
        assert_eq!(due_by(5), [1, 0, 0]);
        assert_eq!(due_by(35), [2, 1, 1]);
        assert_eq!(due_by(85), [3, 3, 3]);
    }

    #[test]
    fn a_slow_reader_rests_as_long_as_its_rate_asks() {
        let clock = ReadingClock::new(800_000);
        assert_eq!(clock.sip_bytes(), 10_000);
        assert_eq!(clock.rest(50_000), Duration::from_millis(500));
        assert_eq!(ReadingClock::new(8).sip_bytes(), 1);
    }
}
