//! When the next heartbeat is due, and how long one may take.

use std::time::Duration;

/// The random part of the time between heartbeats, so that nodes that start together do not stay in step.
const JITTER: f64 = 0.2;

/// How long to wait after `failures` heartbeats in a row without an answer. The first retries follow quickly, because a short outage must
/// not use up the 15 s after which a silent node counts as lost; later ones do not, because a long outage must not end in a storm. `chance`
/// is a number from 0 to 1.
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

/// The shortest timeout. A heartbeat that times out ends its connection's TLS handshake, and the next one starts it again: with a timeout shorter
/// than the handshake, none would ever succeed. With a longer one than this, a broken connection would leave no time for another one before the
/// node counts as lost.
const TIMEOUT_MIN: Duration = Duration::from_secs(5);

/// How long a heartbeat may take. A gateway that takes longer counts as not answering.
pub(super) fn timeout(interval: Duration) -> Duration {
    interval.max(TIMEOUT_MIN)
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
    fn short_intervals_leave_time_for_a_handshake() {
        assert_eq!(timeout(Duration::from_millis(200)), FIVE);
        assert_eq!(timeout(FIVE), FIVE);
        assert_eq!(timeout(FIVE * 2), FIVE * 2);
        assert!(
            crate::gateway::CONNECT_MAX >= timeout(Duration::ZERO),
            "which would end it sooner"
        );
    }

    #[test]
    fn a_failed_heartbeat_is_tried_again_soon_and_then_more_rarely() {
        let waits: Vec<_> = (1..=12).map(|failures| wait(FIVE, failures, 1.0)).collect();
        assert!(waits.is_sorted());
        // Three attempts before the node counts as lost.
        assert!(waits[..3].iter().sum::<Duration>() < Duration::from_secs(10));
        assert!(waits[11] <= Duration::from_secs(18));
    }
}
