//! The cycle of probing: down until the queue is gone, cruise for two or three seconds or for as many round trips as Reno would need, refill, up
//! until the path is full or lossy.

use super::model::UNBOUNDED;
use super::state::State;
use super::{Bbr, LOSS_PERCENT_MAX};
use crate::clock::Time;
use crate::congestion::Acked;
use crate::congestion::rate::Sample;

/// The wait for the next probe: this, and up to a second more.
const WAIT_US_MIN: u64 = 2_000_000;
const WAIT_US_SPREAD: u64 = 1_000_000;

/// Not more round trips than this: at 30 ms a round trip, two seconds.
const WAIT_ROUNDS_MAX: u64 = 63;

/// Doublings of the probe's growth.
const UP_ROUNDS_MAX: u32 = 30;

/// The phase of probing in which the packets of the current samples were sent: BBR.ack_phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// Nothing in particular.
    Ordinary,
    /// A probe has begun, but the samples are of packets sent before it.
    Starting,
    /// The probe.
    Probe,
    /// The probe is over, and its last samples arrive.
    Stopping,
}

#[derive(Debug)]
pub(super) struct Cycle {
    since: Time,
    wait_us: u64,
    answers: Answers,
    /// BBR.bw_probe_samples: losses may still belong to a probe, to which it reacts once.
    may_be_too_high: bool,
    /// Growth of the bound in this probe, which doubles each round trip: one segment for this many acknowledged bytes.
    up_rounds: u32,
    up_every_bytes: u64,
    up_acked_bytes: u64,
}

impl Cycle {
    pub(super) fn new(now: Time) -> Self {
        Cycle {
            since: now,
            wait_us: 0,
            answers: Answers::Ordinary,
            may_be_too_high: false,
            up_rounds: 0,
            up_every_bytes: u64::MAX,
            up_acked_bytes: 0,
        }
    }

    /// Marks all later arrivals as part of no probe.
    pub(super) fn stop_probing(&mut self) {
        self.answers = Answers::Stopping;
    }
}

impl Bbr {
    /// BBRUpdateProbeBWCyclePhase().
    pub(super) fn go_on_in_cycle(&mut self, acked: &Acked, sample: &Sample) {
        if !self.full.was_reached {
            return;
        }
        self.adapt_upper_bound(acked, sample);
        match self.state {
            State::Down => self.go_on_down(acked),
            State::Cruise => _ = self.refill_if_due(acked.now),
            State::Refill if self.rounds.has_begun => self.start_up(sample),
            State::Up => self.go_on_up(acked.now, sample),
            _ => {}
        }
    }

    fn go_on_down(&mut self, acked: &Acked) {
        if !self.refill_if_due(acked.now) && self.has_drained(acked.in_flight) {
            self.state = State::Cruise;
        }
    }

    fn go_on_up(&mut self, now: Time, sample: &Sample) {
        if self.is_up_over(sample) {
            self.start_down(now);
        }
    }

    /// BBRStartProbeBW_DOWN().
    pub(super) fn start_down(&mut self, now: Time) {
        self.model.forget_latest();
        self.cycle.up_every_bytes = u64::MAX;
        self.rounds.since_probe = self.random() % 2;
        self.cycle.wait_us = WAIT_US_MIN + self.random() % WAIT_US_SPREAD;
        self.cycle.since = now;
        self.cycle.answers = Answers::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    /// BBRIsTimeToProbeBW(). A flow whose window is small probes after as many round trips as Reno would need to win back half of it, so that Reno
    /// and CUBIC get no less next to it than next to each other.
    fn refill_if_due(&mut self, now: Time) -> bool {
        let reno_rounds = self.target_bytes() / self.mss;
        let is_due = now.since_us(self.cycle.since) > self.cycle.wait_us
            || self.rounds.since_probe >= reno_rounds.min(WAIT_ROUNDS_MAX);
        if is_due {
            self.start_refill();
        }
        is_due
    }

    /// BBRStartProbeBW_REFILL().
    pub(super) fn start_refill(&mut self) {
        self.model.forget_lower_bounds();
        (self.cycle.up_rounds, self.cycle.up_acked_bytes) = (0, 0);
        self.cycle.answers = Answers::Ordinary;
        self.start_round();
        self.state = State::Refill;
    }

    /// BBRStartProbeBW_UP().
    fn start_up(&mut self, sample: &Sample) {
        self.cycle.may_be_too_high = true;
        self.cycle.answers = Answers::Starting;
        self.start_round();
        self.full.look(sample.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// BBRIsTimeToCruise().
    fn has_drained(&self, in_flight: u64) -> bool {
        in_flight <= self.model.inflight_with_headroom(self.mss).max(self.least_cwnd())
            && in_flight <= self.full_bytes(self.model.max_rate.value())
    }

    /// BBRIsTimeToGoDown(): while the bound on bytes in flight holds the rate back, a full path cannot be seen.
    fn is_up_over(&mut self, sample: &Sample) -> bool {
        if self.is_cwnd_limited && self.cwnd >= self.model.believed.inflight_hi {
            self.full.look(sample.rate);
            return false;
        }
        self.full.is_now
    }

    /// BBRAdaptLongTermModel() (before: BBRAdaptUpperBounds()).
    fn adapt_upper_bound(&mut self, acked: &Acked, sample: &Sample) {
        if self.rounds.has_begun {
            match self.cycle.answers {
                Answers::Starting => self.cycle.answers = Answers::Probe,
                Answers::Stopping => {
                    self.cycle.may_be_too_high = false;
                    self.cycle.answers = Answers::Ordinary;
                    // A cycle without a measurement is no reason to forget the last one.
                    if self.state.is_in_cycle() && !sample.app_limited && sample.rate > 0 {
                        self.model.max_rate.next_period();
                    }
                }
                Answers::Ordinary | Answers::Probe => {}
            }
        }
        if sample.is_lossy(LOSS_PERCENT_MAX) {
            if self.cycle.may_be_too_high {
                self.take_too_high(acked.now, sample);
            }
        } else if self.model.believed.inflight_hi != UNBOUNDED {
            self.model.believed.inflight_hi =
                self.model.believed.inflight_hi.max(sample.sent_in_flight);
            if self.state == State::Up {
                self.raise_upper_bound(acked.arrived_bytes);
            }
        }
    }

    /// BBRHandleInflightTooHigh(): once in a probe.
    fn take_too_high(&mut self, now: Time, sample: &Sample) {
        self.cycle.may_be_too_high = false;
        if !sample.app_limited {
            self.model.lower_inflight_hi(sample.sent_in_flight, self.target_bytes());
        }
        if self.state == State::Up {
            self.note_stopped(State::Up);
            self.start_down(now);
        }
    }

    /// BBRProbeInflightHiUpward(): only a bound that is used grows.
    fn raise_upper_bound(&mut self, arrived_bytes: u64) {
        if !self.is_cwnd_limited || self.cwnd < self.model.believed.inflight_hi {
            return;
        }
        self.cycle.up_acked_bytes += arrived_bytes;
        let segments = self.cycle.up_acked_bytes / self.cycle.up_every_bytes;
        self.cycle.up_acked_bytes -= segments * self.cycle.up_every_bytes;
        self.model.believed.inflight_hi =
            self.model.believed.inflight_hi.saturating_add(segments * self.mss);
        if self.rounds.has_begun {
            self.raise_slope();
        }
    }

    /// BBRRaiseInflightHiSlope().
    fn raise_slope(&mut self) {
        let segments_this_round = 1 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.cycle.up_every_bytes = (self.cwnd / segments_this_round).max(self.mss);
    }
}
