//! When the next heartbeat is due.

use std::time::Duration;

/// How much of the time between heartbeats is left to chance, so that nodes that start together do not beat together.
const JITTER: f64 = 0.2;

/// How long to wait after `failures` heartbeats in a row that got no answer. A short outage must not cost much of the 15 s after which
/// silence is death, so the first attempts follow quickly; a long one must not become a storm when it ends, so later ones do not.
/// `chance` is a number from 0 to 1.
pub(super) fn wait(interval: Duration, failures: u32, chance: f64) -> Duration {
    let factor = match failures {
        0 => 1.0,
        1 => 0.2,
        2 => 0.4,
        3 => 0.8,
        4..=10 => 1.0,
        _ => 3.0,
    };
    interval.mul_f64(factor * (1.0 - JITTER + 2.0 * JITTER * chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Duration = Duration::from_secs(5);

    #[test]
    fn heartbeats_are_five_seconds_apart_give_or_take_one() {
        assert_eq!(wait(FIVE, 0, 0.0), Duration::from_secs(4));
        assert_eq!(wait(FIVE, 0, 0.5), FIVE);
        assert_eq!(wait(FIVE, 0, 1.0), Duration::from_secs(6));
    }

    #[test]
    fn a_failed_heartbeat_is_tried_again_soon_and_then_more_rarely() {
        let waits: Vec<_> = (1..=12).map(|failures| wait(FIVE, failures, 1.0)).collect();
        assert!(waits.is_sorted());
        // Three attempts before silence is death.
        assert!(waits[..3].iter().sum::<Duration>() < Duration::from_secs(10));
        assert!(waits[11] <= Duration::from_secs(18));
    }
}
