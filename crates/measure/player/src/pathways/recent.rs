//! The recent rate of a request that is under way.

use std::time::Duration;

use crate::estimate;

/// The time over which the recent rate is measured. Less would depend on a few packets, more would notice a fall late.
const WINDOW: Duration = Duration::from_secs(2);

/// No rate is reported before this time, because of slow start and single late packets.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Samples to keep: one from before the window, and those within it.
const LOOKS_MAX: usize = 9;

/// Samples closer together than this are not kept.
const APART_MIN: Duration = Duration::from_millis(250);

/// Earlier samples of a request's progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// Time since the request, with the bytes until then, oldest first.
    looks: [(Duration, u64); LOOKS_MAX],
    count: usize,
}

impl Recent {
    /// Adds a sample of bytes received and time elapsed since the request. Returns the rate in bits per second: the average, or that of the
    /// last two seconds if it is lower, because a fall in the middle of a segment shows in its mean much later. `None` while there is too
    /// little data. Two seconds without any byte do not count, because silence has its own limit.
    pub fn handle_progress(&mut self, elapsed: Duration, received_bytes: u64) -> Option<f64> {
        self.forget(elapsed);
        let (since, before) = self.looks[0];
        let took = elapsed.saturating_sub(since);
        let lately = estimate::rate(received_bytes.saturating_sub(before), took);
        let average = estimate::rate(received_bytes, elapsed);
        let has_window = self.count > 0 && took >= WINDOW && lately > 0.0;
        let is_apart = elapsed.saturating_sub(self.last()) >= APART_MIN;
        if is_apart && self.count < LOOKS_MAX {
            self.looks[self.count] = (elapsed, received_bytes);
            self.count += 1;
        }
        let rate = if has_window { lately.min(average) } else { average };
        (elapsed >= TOLD_AFTER && received_bytes > 0).then_some(rate)
    }

    fn last(&self) -> Duration {
        self.count.checked_sub(1).map_or(Duration::ZERO, |last| self.looks[last].0)
    }

    /// Keeps only one sample from before the window.
    fn forget(&mut self, elapsed: Duration) {
        while self.count > 1 && elapsed.saturating_sub(self.looks[1].0) >= WINDOW {
            self.looks.copy_within(1..self.count, 0);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The rates at half-second samples of a request that receives this many bytes in each.
    fn rates(bytes: &[u64]) -> Vec<Option<f64>> {
        let (mut recent, mut sum) = (Recent::default(), 0);
        let looks = bytes.iter().zip(1..).map(|(bytes, number)| {
            sum += bytes;
            recent.handle_progress(ms(500) * number, sum)
        });
        looks.collect()
    }

    #[test]
    fn a_steady_request_has_its_rate_after_a_second() {
        let mut expected = vec![Some(1.6e6); 10];
        expected[0] = None;
        assert_eq!(rates(&[100_000; 10]), expected);
    }

    #[test]
    fn a_fall_is_whole_after_the_window_and_a_rise_shows_in_the_mean() {
        let fall = rates(&[100_000, 100_000, 100_000, 100_000, 10_000, 10_000, 10_000, 10_000]);
        assert_eq!((fall[3], fall[7]), (Some(1.6e6), Some(160e3)));
        assert!(fall.windows(2).skip(3).all(|two| two[0] > two[1]), "{fall:?}");
        let rise = rates(&[10_000, 10_000, 10_000, 10_000, 100_000, 100_000, 100_000, 100_000]);
        assert_eq!(rise[7], Some(880e3));
    }

    #[test]
    fn silence_is_left_to_its_own_limit() {
        let rates = rates(&[100_000, 100_000, 0, 0, 0, 0, 0, 0]);
        // The mean falls, but nothing shows that the rate is zero.
        assert_eq!(rates[7], Some(400e3));
        assert_eq!(Recent::default().handle_progress(ms(5000), 0), None);
    }

    #[test]
    fn looks_that_come_often_or_rarely_are_as_good() {
        let mut recent = Recent::default();
        for at in 1..=400 {
            let bytes = 1000 * at.min(200);
            let rate = recent.handle_progress(ms(10) * at as u32, bytes);
            assert_eq!(rate.is_some(), at >= 100);
        }
        assert!(recent.count <= LOOKS_MAX);
        let mut recent = Recent::default();
        recent.handle_progress(ms(10_000), 1_000_000);
        assert_eq!(recent.handle_progress(ms(20_000), 1_010_000), Some(8000.0));
    }
}
