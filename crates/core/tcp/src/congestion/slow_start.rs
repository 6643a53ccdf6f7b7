//! HyStart++ (RFC 9406): leaves slow start when round trips begin to grow, before the queue overflows.

/// RFC 9406 section 4.3: limits of the rise in round-trip time that counts, and its share of the last round's.
const THRESHOLD_US_MIN: u64 = 4_000;
const THRESHOLD_US_MAX: u64 = 16_000;
const THRESHOLD_DIVISOR: u64 = 8;

/// The samples that a round needs for its minimum to be meaningful.
const SAMPLES_MIN: u32 = 8;

/// Conservative slow start divides growth by this.
const CONSERVATIVE_DIVISOR: u64 = 4;

/// This many conservative rounds, then congestion avoidance.
const CONSERVATIVE_ROUNDS: u32 = 5;

#[derive(Debug, Clone)]
pub(crate) struct SlowStart {
    /// The round ends when this offset is acknowledged.
    round_end: u64,
    last_round_us: u64,
    this_round_us: u64,
    samples: u32,
    /// In conservative slow start: the baseline, and the rounds so far.
    conservative: Option<(u64, u32)>,
}

impl SlowStart {
    pub(crate) fn new() -> Self {
        SlowStart {
            round_end: 0,
            last_round_us: u64::MAX,
            this_round_us: u64::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// How many bytes the window grows by for `acked_bytes`. None: slow start is over. `rtt` is the shortest round trip in microseconds, and the
    /// number of samples.
    pub(crate) fn growth(
        &mut self,
        acknowledged: u64,
        sent_below: u64,
        rtt: Option<(u64, u32)>,
        acked_bytes: u64,
    ) -> Option<u64> {
        if acknowledged >= self.round_end && !self.next_round(sent_below) {
            return None;
        }
        if let Some((rtt_us, samples)) = rtt {
            self.sample(rtt_us, samples);
        }
        // RFC 9406 section 4.2: L is unbounded, because sending is paced.
        Some(match self.conservative {
            None => acked_bytes,
            Some(_) => acked_bytes / CONSERVATIVE_DIVISOR,
        })
    }

    /// False: that was the last conservative round.
    fn next_round(&mut self, sent_below: u64) -> bool {
        self.last_round_us = self.this_round_us;
        self.this_round_us = u64::MAX;
        self.samples = 0;
        self.round_end = sent_below;
        match &mut self.conservative {
            None => true,
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds < CONSERVATIVE_ROUNDS
            }
        }
    }

    fn sample(&mut self, rtt_us: u64, samples: u32) {
        self.this_round_us = self.this_round_us.min(rtt_us);
        self.samples = self.samples.saturating_add(samples);
        if self.samples < SAMPLES_MIN {
            return;
        }
        match self.conservative {
            None if self.last_round_us != u64::MAX => {
                let threshold = (self.last_round_us / THRESHOLD_DIVISOR)
                    .clamp(THRESHOLD_US_MIN, THRESHOLD_US_MAX);
                if self.this_round_us >= self.last_round_us + threshold {
                    self.conservative = Some((self.this_round_us, 0));
                }
            }
            // The rise was jitter: back to slow start.
            Some((baseline_us, _)) if self.this_round_us < baseline_us => self.conservative = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round of ten acknowledgements of a thousand bytes each. Returns the growth at each, until slow start ends.
    fn round(slow_start: &mut SlowStart, number: u64, rtt_us: u64) -> Option<Vec<u64>> {
        (0..10)
            .map(|ack| {
                let acknowledged = number * 10_000 + ack * 1000;
                slow_start.growth(acknowledged, (number + 1) * 10_000, Some((rtt_us, 1)), 1000)
            })
            .collect()
    }

    #[test]
    fn steady_round_trips_let_it_double() {
        let mut slow_start = SlowStart::new();
        for number in 0..30 {
            assert_eq!(round(&mut slow_start, number, 50_000), Some(vec![1000; 10]));
        }
    }

    #[test]
    fn lengthening_round_trips_slow_it_down_and_then_end_it() {
        let mut slow_start = SlowStart::new();
        round(&mut slow_start, 0, 50_000);
        round(&mut slow_start, 1, 50_000);
        let third = round(&mut slow_start, 2, 60_000).unwrap();
        assert_eq!(third.last(), Some(&250), "conservative slow start");
        let rounds =
            (3..20).take_while(|number| round(&mut slow_start, *number, 60_000).is_some()).count();
        assert_eq!(rounds, 4, "five conservative rounds, the first one was cut");
    }

    #[test]
    fn jitter_that_passes_is_forgiven() {
        let mut slow_start = SlowStart::new();
        for (number, rtt_us) in [50_000, 60_000, 50_000, 50_000].into_iter().enumerate() {
            round(&mut slow_start, number as u64, rtt_us);
        }
        assert_eq!(round(&mut slow_start, 4, 50_000), Some(vec![1000; 10]));
    }
}
