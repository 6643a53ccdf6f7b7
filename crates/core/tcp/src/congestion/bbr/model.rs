//! BBR's model of the path: the rate that it carries, the shortest round trip, and how much may be in flight without much loss. It has two time
//! scales: `_hi` lasts until a probe finds more, `_lo` from a loss until the next probe.

use crate::clock::Time;
use crate::congestion::aggregation::Aggregation;
use crate::congestion::filters::{Highest, LeastRtt};
use crate::congestion::part;
use crate::congestion::rate::Sample;

/// BBRBeta: the percentage of a bound that remains after a round trip with loss.
const BETA_PERCENT: u64 = 70;

/// BBRHeadroom: the percentage of the safe bound that is left for other flows.
const HEADROOM_PERCENT: u64 = 15;

/// A bound that is not set.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// The bounds on the rate and on bytes in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Believed {
    /// BBR.bw_lo and BBR.inflight_lo (in later drafts: bw_shortterm and inflight_shortterm).
    pub(super) rate_lo: u64,
    pub(super) inflight_lo: u64,
    /// BBR.inflight_hi (in later drafts: inflight_longterm).
    pub(super) inflight_hi: u64,
}

#[derive(Debug)]
pub(super) struct Model {
    /// BBR.MaxBwFilter: the highest rate of two cycles of probing.
    pub(super) max_rate: Highest,
    pub(super) least_rtt: LeastRtt,
    pub(super) aggregation: Aggregation,
    pub(super) believed: Believed,
    /// BBR.bw_latest and BBR.inflight_latest: the highest of this round trip.
    rate_latest: u64,
    pub(super) inflight_latest: u64,
    /// BBR.loss_round_delivered: a round trip of loss ends with a sample of bytes sent at this count or later.
    loss_round_delivered: u64,
    loss_in_round: bool,
    /// The last sample ended such a round trip.
    pub(super) loss_round_ended: bool,
}

impl Model {
    pub(super) fn new(now: Time) -> Self {
        Model {
            max_rate: Highest::default(),
            least_rtt: LeastRtt::new(now),
            aggregation: Aggregation::new(now),
            believed: Believed {
                rate_lo: UNBOUNDED,
                inflight_lo: UNBOUNDED,
                inflight_hi: UNBOUNDED,
            },
            rate_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_in_round: false,
            loss_round_ended: false,
        }
    }

    /// BBR.bw: bytes per second.
    pub(super) fn rate(&self) -> u64 {
        self.max_rate.value().min(self.believed.rate_lo)
    }

    /// BBRBDPMultiple(): the bytes that fill the path at `rate`, times `percent`. None: the round trip is not known.
    pub(super) fn fills(&self, rate: u64, percent: u64) -> Option<u64> {
        let least_us = u128::from(self.least_rtt.us()?);
        let bytes = u128::from(rate) * least_us * u128::from(percent) / 100_000_000;
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// BBRUpdateLatestDeliverySignals().
    pub(super) fn note_latest(&mut self, sample: &Sample, delivered: u64) {
        self.rate_latest = self.rate_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_ended =
            sample.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered);
        if self.loss_round_ended {
            self.loss_round_delivered = delivered;
        }
    }

    /// BBRAdvanceLatestDeliverySignals().
    pub(super) fn next_latest(&mut self, sample: &Sample) {
        if self.loss_round_ended {
            (self.rate_latest, self.inflight_latest) = (sample.rate, sample.delivered);
        }
    }

    /// BBRResetCongestionSignals().
    pub(super) fn forget_latest(&mut self) {
        self.loss_in_round = false;
        (self.rate_latest, self.inflight_latest) = (0, 0);
    }

    /// BBRNoteLoss(): the first loss begins a round trip.
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !std::mem::replace(&mut self.loss_in_round, true) {
            self.loss_round_delivered = delivered;
        }
    }

    /// BBRUpdateMaxBw(): a sample limited by the application shows only what the path can do, not what it cannot.
    pub(super) fn note_rate(&mut self, sample: &Sample) {
        if sample.rate > 0 && (sample.rate >= self.max_rate.value() || !sample.app_limited) {
            self.max_rate.note(sample.rate);
        }
    }

    /// BBRAdaptLowerBoundsFromCongestion(), at the end of a round trip of loss. Losses while the flow itself probes show that it has probed enough,
    /// and nothing about the path.
    pub(super) fn end_loss_round(&mut self, is_probing: bool, cwnd: u64) {
        if !self.loss_round_ended {
            return;
        }
        if std::mem::take(&mut self.loss_in_round) && !is_probing {
            let bounded = |lo: u64, else_lo: u64| if lo == UNBOUNDED { else_lo } else { lo };
            let believed = &mut self.believed;
            let rate_lo = bounded(believed.rate_lo, self.max_rate.value());
            let inflight_lo = bounded(believed.inflight_lo, cwnd);
            believed.rate_lo = self.rate_latest.max(part(rate_lo, BETA_PERCENT));
            believed.inflight_lo = self.inflight_latest.max(part(inflight_lo, BETA_PERCENT));
        }
    }

    /// BBRResetShortTermModel().
    pub(super) fn forget_lower_bounds(&mut self) {
        (self.believed.rate_lo, self.believed.inflight_lo) = (UNBOUNDED, UNBOUNDED);
    }

    /// Undoes a spurious loss: the bounds before it hold, unless higher ones were found since.
    pub(super) fn restore(&mut self, before: &Believed) {
        self.loss_in_round = false;
        let now = &mut self.believed;
        now.rate_lo = now.rate_lo.max(before.rate_lo);
        now.inflight_lo = now.inflight_lo.max(before.inflight_lo);
        now.inflight_hi = now.inflight_hi.max(before.inflight_hi);
    }

    /// Lowers the bound after a lossy flight: its size was too much, but at least seven tenths of the target were not.
    pub(super) fn lower_inflight_hi(&mut self, sent_in_flight: u64, target: u64) {
        self.believed.inflight_hi = sent_in_flight.max(part(target, BETA_PERCENT));
    }

    /// BBRInflightWithHeadroom().
    pub(super) fn inflight_with_headroom(&self, mss: u64) -> u64 {
        let inflight_hi = self.believed.inflight_hi;
        if inflight_hi == UNBOUNDED {
            return UNBOUNDED;
        }
        inflight_hi.saturating_sub(part(inflight_hi, HEADROOM_PERCENT).max(mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: u64, prior_delivered: u64, delivered: u64) -> Sample {
        let prior_delivered = Some(prior_delivered);
        Sample { rate, prior_delivered, delivered, sent_in_flight: delivered, ..Sample::default() }
    }

    #[test]
    fn a_slow_application_does_not_lower_the_rate_and_may_raise_it() {
        let mut model = Model::new(Time(0));
        let slow = |rate| Sample { app_limited: true, ..sample(rate, 0, 1000) };
        model.note_rate(&sample(1000, 0, 1000));
        model.max_rate.next_period();
        model.note_rate(&slow(500));
        model.max_rate.next_period();
        assert_eq!(model.rate(), 0, "no cycle may end on such samples alone");
        model.note_rate(&slow(2000));
        assert_eq!(model.rate(), 2000);
    }

    #[test]
    fn a_round_trip_with_loss_takes_three_tenths_unless_as_much_arrived() {
        let mut model = Model::new(Time(0));
        model.least_rtt.note(Time(0), Some(10_000));
        model.note_rate(&sample(1_000_000, 0, 10_000));
        model.note_loss(10_000);
        model.note_latest(&sample(300_000, 5000, 3000), 12_000);
        model.end_loss_round(false, 20_000);
        assert_eq!(model.rate(), 1_000_000, "the round trip is not over");
        model.note_latest(&sample(300_000, 10_000, 3000), 15_000);
        model.end_loss_round(false, 20_000);
        assert_eq!((model.rate(), model.believed.inflight_lo), (700_000, 14_000));
        assert_eq!(model.fills(model.rate(), 200), Some(14_000));
        model.note_loss(15_000);
        model.note_latest(&sample(690_000, 15_000, 9000), 20_000);
        model.end_loss_round(false, 20_000);
        assert_eq!((model.rate(), model.believed.inflight_lo), (690_000, 9800));
        model.forget_lower_bounds();
        assert_eq!(model.rate(), 1_000_000);
    }

    #[test]
    fn loss_while_probing_is_no_news_of_the_path() {
        let mut model = Model::new(Time(0));
        model.note_rate(&sample(1_000_000, 0, 10_000));
        model.note_loss(0);
        model.note_latest(&sample(300_000, 0, 3000), 12_000);
        model.end_loss_round(true, 20_000);
        assert_eq!((model.rate(), model.believed.inflight_lo), (1_000_000, UNBOUNDED));
    }

    #[test]
    fn room_is_left_for_others() {
        let mut model = Model::new(Time(0));
        assert_eq!(model.inflight_with_headroom(1000), UNBOUNDED);
        model.lower_inflight_hi(100_000, 50_000);
        assert_eq!(model.inflight_with_headroom(1000), 85_000);
        model.lower_inflight_hi(1000, 50_000);
        assert_eq!(model.believed.inflight_hi, 35_000);
    }
}
