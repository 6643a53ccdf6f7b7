//! How long viewers stay.

use crate::random::log_normal;
use fastrand::Rng;
use std::time::Duration;

/// How long viewers stay, unless the title ends earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watch {
    /// Log-normal: many try a title for a few minutes, and a few stay for hours.
    LogNormal {
        /// Half of the viewers stay for less.
        median: Duration,
        /// The deviation of the logarithm.
        sigma: f64,
    },
    /// The same time for all.
    Exactly(Duration),
}

/// Yu and others ("Understanding user behavior in large-scale video-on-demand systems", EuroSys 2006) reported that about half of all
/// sessions ended within ten minutes; the study "Video browsing: a study of user behavior in online VoD services" (2013) reported that
/// about a fifth of 540 million reached a video's end. The log-normal law and its deviation are our own choice: 36% of these viewers stay
/// for less than five minutes, 47% for more than ten, and 16% for more than 45.
impl Default for Watch {
    fn default() -> Self {
        Self::LogNormal { median: Duration::from_secs(9 * 60), sigma: 1.6 }
    }
}

/// Limit on the time that a viewer stays, because the tail of the law has no end.
const WATCH_MAX_SECONDS: f64 = 24.0 * 3600.0;

impl Watch {
    pub(crate) fn draw(self, random: &mut Rng) -> Duration {
        match self {
            Self::Exactly(duration) => duration,
            Self::LogNormal { median, sigma } => {
                let seconds = log_normal(random, median.as_secs_f64(), sigma);
                // Whole milliseconds, at least one: a viewer who comes stays for some time.
                let milliseconds = (seconds.min(WATCH_MAX_SECONDS) * 1e3) as u64;
                Duration::from_millis(milliseconds.max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_the_shares_that_its_source_gives() {
        let mut random = Rng::with_seed(9);
        let minutes: Vec<f64> =
            (0..50_000).map(|_| Watch::default().draw(&mut random).as_secs_f64() / 60.0).collect();
        let below = |bound: f64| {
            minutes.iter().filter(|minutes| **minutes < bound).count() as f64 / 50_000.0
        };
        for (bound, share) in [(5.0, 0.357), (10.0, 0.526), (25.0, 0.738), (45.0, 0.843)] {
            assert!((below(bound) - share).abs() < 0.01, "{bound}: {}", below(bound));
        }
    }

    #[test]
    fn everybody_stays_for_some_time_and_nobody_for_ever() {
        let wild = Watch::LogNormal { median: Duration::from_secs(60), sigma: 20.0 };
        let mut random = Rng::with_seed(2);
        for _ in 0..1000 {
            let watches = wild.draw(&mut random);
            assert!(!watches.is_zero() && watches <= Duration::from_secs(24 * 3600));
        }
        let hour = Duration::from_secs(3600);
        assert_eq!(Watch::Exactly(hour).draw(&mut random), hour);
    }
}
