//! How much more than expected arrives at once, because acknowledgements are held back and come together: that much more must be in flight to keep
//! the path busy.

use super::filters::Highest;
use crate::clock::Time;

/// BBR.ExtraAckedFilterLen is ten round trips: two periods of five.
pub(super) const EXTRA_ROUNDS: u64 = 5;

#[derive(Debug)]
pub(super) struct Aggregation {
    since: Time,
    delivered: u64,
    extra: Highest,
}

impl Aggregation {
    pub(super) fn new(now: Time) -> Self {
        Aggregation { since: now, delivered: 0, extra: Highest::default() }
    }

    pub(super) fn extra_bytes(&self) -> u64 {
        self.extra.value()
    }

    /// BBRUpdateACKAggregation(): compares what arrived with `rate` in bytes per second. `is_over`: a period of round trips has ended.
    pub(super) fn note(
        &mut self,
        now: Time,
        arrived_bytes: u64,
        rate: u64,
        cwnd: u64,
        is_over: bool,
    ) {
        let Aggregation { since, delivered, extra } = self;
        let expected = |since: Time| {
            let bytes = u128::from(rate) * u128::from(now.since_us(since)) / 1_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        if *delivered <= expected(*since) {
            (*delivered, *since) = (0, now);
        }
        *delivered += arrived_bytes;
        if is_over {
            extra.next_period();
        }
        extra.note(delivered.saturating_sub(expected(*since)).min(cwnd));
    }

    /// Restarts the count: after silence, the first arrivals are not excess.
    pub(super) fn restart(&mut self, now: Time) {
        (self.since, self.delivered) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_once_beyond_the_rate_is_remembered_for_ten_round_trips() {
        let mut aggregation = Aggregation::new(Time(0));
        let rate = 1_000_000;
        aggregation.note(Time(1000), 1000, rate, 50_000, false);
        aggregation.note(Time(2000), 6000, rate, 50_000, false);
        // A millisecond accounts for the first thousand, and nothing for the bytes that come then.
        assert_eq!(aggregation.extra_bytes(), 6000);
        for round in 1..=10 {
            assert_eq!(aggregation.extra_bytes(), 6000, "round {round}");
            let is_over = round % EXTRA_ROUNDS == 0;
            aggregation.note(Time(2000 + round * 100_000), 0, rate, 50_000, is_over);
        }
        assert_eq!(aggregation.extra_bytes(), 0);
    }
}
