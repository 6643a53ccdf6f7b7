//! Detects that the path is full: sending faster no longer makes it deliver faster, or it loses too much.

use crate::congestion::rate::Sample;

/// Growth of the rate, in percent, that shows that the path can carry more.
const GROWTH_PERCENT: u64 = 125;

/// The path is full after this many round trips without such growth.
const ROUNDS_WITHOUT_GROWTH: u32 = 3;

/// BBRStartupFullLossCnt: fewer losses in a round trip of the start are noise.
const LOSSES_MIN: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct FullPipe {
    /// BBR.full_bw_reached: it has been full once.
    pub(super) was_reached: bool,
    /// BBR.full_bw_now.
    pub(super) is_now: bool,
    /// BBR.full_bw: the rate to exceed.
    rate: u64,
    rounds: u32,
    /// Acknowledgements that reported loss in this round trip.
    losses: u32,
}

impl FullPipe {
    /// Starts over, and waits for a rate above `rate`.
    pub(super) fn look(&mut self, rate: u64) {
        (self.is_now, self.rate, self.rounds) = (false, rate, 0);
    }

    /// BBRCheckFullBWReached().
    pub(super) fn note(&mut self, sample: &Sample, round_started: bool) {
        if self.is_now || sample.app_limited || sample.rate == 0 {
            return;
        }
        if u128::from(sample.rate) * 100 >= u128::from(self.rate) * u128::from(GROWTH_PERCENT) {
            self.look(sample.rate);
        } else if round_started {
            self.rounds += 1;
            self.is_now = self.rounds >= ROUNDS_WITHOUT_GROWTH;
            self.was_reached |= self.is_now;
        }
    }

    /// BBRCheckStartupHighLoss(). True: the losses show that the path is full.
    pub(super) fn note_losses(
        &mut self,
        has_lost: bool,
        round_ended: bool,
        is_lossy: bool,
    ) -> bool {
        self.losses += u32::from(has_lost);
        let is_too_much = round_ended && self.losses >= LOSSES_MIN && is_lossy && !self.was_reached;
        self.was_reached |= is_too_much;
        if round_ended {
            self.losses = 0;
        }
        is_too_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: u64) -> Sample {
        Sample { rate, ..Sample::default() }
    }

    #[test]
    fn three_round_trips_without_growth_fill_it() {
        let mut pipe = FullPipe::default();
        for rate in [100, 200, 400, 480, 490] {
            pipe.note(&sample(rate), true);
            assert!(!pipe.was_reached);
        }
        pipe.note(&sample(495), false);
        assert!(!pipe.was_reached, "the round trip is not over");
        pipe.note(&sample(495), true);
        assert!(pipe.was_reached && pipe.is_now);
        pipe.look(495);
        assert!(pipe.was_reached && !pipe.is_now);
    }

    #[test]
    fn a_slow_application_fills_nothing() {
        let mut pipe = FullPipe::default();
        for _ in 0..10 {
            pipe.note(&Sample { app_limited: true, ..sample(100) }, true);
        }
        assert!(!pipe.was_reached);
    }

    #[test]
    fn six_losses_in_a_lossy_round_trip_fill_it() {
        for (losses, is_lossy, is_full) in [(5, true, false), (6, false, false), (6, true, true)] {
            let mut pipe = FullPipe::default();
            for _ in 0..losses {
                assert!(!pipe.note_losses(true, false, is_lossy));
            }
            assert_eq!(pipe.note_losses(false, true, is_lossy), is_full);
            assert_eq!(pipe.was_reached, is_full);
            assert!(!pipe.note_losses(false, true, true), "each round trip counts on its own");
        }
    }
}
