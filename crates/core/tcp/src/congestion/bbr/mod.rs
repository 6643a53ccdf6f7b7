//! BBR, version 3 (draft-ietf-ccwg-bbr): sends at the rate that the path was seen to carry, and keeps in flight what fills the path, instead of
//! filling the queue until something is lost.
//!
//! `../rate.rs` measures, `../filters.rs` and `model.rs` remember, `full_pipe.rs` detects a full path, `state.rs` and `cycle.rs` choose the next
//! state; this module joins them. Functions are named after the draft's where they are not obvious. Differences from the draft as of August 2026:
//!
//! * No ECN: with BBR it is not agreed to (`Endpoint::new`).
//! * Losses are judged with each acknowledgement (2% of a flight), not with each lost packet.
//! * A probe that follows a lossy one is like any other: there is no precautionary probing.
//! * After a timeout the window is one segment, whatever is in flight, as with CUBIC.
//! * The pace never falls below a segment per second.

mod cycle;
mod full_pipe;
mod model;
mod state;

use super::aggregation::EXTRA_ROUNDS;
use super::rate::{Sample, Sampler};
use super::usage::Usage;
use super::{Acked, Pace, Sent, Start, next_random, part};
use crate::clock::Time;
use cycle::Cycle;
use full_pipe::FullPipe;
use model::{Believed, Model};
use state::State;

/// BBRLossThresh: a path that is not full loses less.
const LOSS_PERCENT_MAX: u64 = 2;

/// BBRMinPipeCwnd, in segments: enough for a peer that acknowledges every other one.
const SEGMENTS_MIN: u64 = 4;

/// BBRPacingMarginPercent: a little less than the path carries, so that no queue stays.
const MARGIN_PERCENT: u64 = 1;

/// ProbeRTTDuration.
const PROBE_RTT_US: u64 = 200_000;

/// A drain ends after this many round trips: if it takes longer, the rate was overestimated, and only a cycle of probing corrects that.
const DRAIN_ROUNDS_MAX: u64 = 3;

/// BBR.send_quantum, and how many of them must fit: one at the sender, one in flight, one being acknowledged.
const QUANTUM_US: u64 = 1_000;
const QUANTUM_BYTES_MAX: u64 = 64 << 10;
const QUANTA: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery (RFC 6675, RFC 8985).
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// Round trips, counted in delivered bytes.
#[derive(Debug, Default)]
struct Rounds {
    /// BBR.next_round_delivered.
    ends_at: u64,
    count: u64,
    since_probe: u64,
    /// The last sample began one.
    has_begun: bool,
}

/// The state to return to if a loss turns out to be spurious.
#[derive(Debug, Clone, Copy)]
struct Before {
    cwnd: u64,
    believed: Believed,
    /// BBR.undo_state: the probing that ended because of this loss.
    stopped: Option<State>,
}

#[derive(Debug)]
pub(crate) struct Bbr {
    mss: u64,
    initial: u64,
    cwnd: u64,
    cwnd_max: u64,
    /// The window before it was reduced.
    cwnd_before: u64,
    /// Bytes per second. Zero: not known yet.
    pacing_rate: u64,
    state: State,
    sampler: Sampler,
    model: Model,
    full: FullPipe,
    cycle: Cycle,
    rounds: Rounds,
    usage: Usage,
    is_cwnd_limited: bool,
    /// BBR.drain_start_round.
    drain_began: u64,
    /// When ProbeRTT has lasted long enough: set once the flow is small.
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    /// Set until the first arrival after a silence.
    is_restarting: bool,
    phase: Phase,
    /// RecoveryPoint (RFC 6675 section 2).
    point: u64,
    before: Option<Before>,
    randomness: u64,
}

impl Bbr {
    pub(crate) fn new(start: &Start) -> Self {
        let initial = start.mss * start.initial_segments;
        Bbr {
            mss: start.mss,
            initial,
            cwnd: initial,
            cwnd_max: start.cwnd_max.max(initial),
            cwnd_before: 0,
            pacing_rate: 0,
            state: State::Startup,
            sampler: Sampler::new(start.now),
            model: Model::new(start.now),
            full: FullPipe::default(),
            cycle: Cycle::new(start.now),
            rounds: Rounds::default(),
            usage: Usage::default(),
            is_cwnd_limited: false,
            drain_began: 0,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            is_restarting: false,
            phase: Phase::Open,
            point: 0,
            before: None,
            randomness: start.seed,
        }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(crate) fn inflight_hi(&self) -> u64 {
        self.model.believed.inflight_hi
    }

    pub(crate) fn pace(&self) -> Pace {
        if self.pacing_rate == 0 {
            return Pace::Window { bytes: self.cwnd, slow_start: true };
        }
        Pace::Rate(self.pacing_rate)
    }

    pub(crate) fn is_recovering(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(crate) fn point(&self) -> u64 {
        self.point
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.sampler.memory_bytes()
    }

    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }

    pub(crate) fn sent(&mut self, sent: &Sent) {
        self.sampler.sent(sent);
    }

    /// Processes an acknowledgement. True: it began a fast recovery.
    pub(crate) fn acked(&mut self, acked: &Acked) -> bool {
        if self.phase != Phase::Open && acked.acknowledged >= self.point {
            self.phase = Phase::Open;
            self.restore_cwnd();
        }
        let sample = self.sampler.acked(acked, self.model.least_rtt.us());
        self.usage.note(acked);
        self.is_cwnd_limited = self.usage.bytes() + acked.slack_bytes >= self.cwnd;
        let enters = acked.lost_bytes > 0 && self.take_loss(acked.sent_below);
        self.update_model(acked, &sample);
        self.update_state(acked, &sample);
        self.model.next_latest(&sample);
        self.update_pacing_rate(acked.srtt_us);
        self.update_cwnd(acked.arrived_bytes);
        enters
    }

    fn update_model(&mut self, acked: &Acked, sample: &Sample) {
        let delivered = self.sampler.delivered();
        self.model.note_latest(sample, delivered);
        self.update_round(sample);
        self.model.note_rate(sample);
        self.model.end_loss_round(self.state.is_probing(), self.cwnd);
        let rounds = if self.full.was_reached { EXTRA_ROUNDS } else { 1 };
        let is_over = self.rounds.has_begun && self.rounds.count % rounds == 0;
        let rate = self.model.rate();
        self.model.aggregation.note(acked.now, acked.arrived_bytes, rate, self.cwnd, is_over);
    }

    fn update_state(&mut self, acked: &Acked, sample: &Sample) {
        self.full.note(sample, self.rounds.has_begun);
        self.check_startup_losses(acked, sample);
        if self.state == State::Startup && self.full.was_reached {
            self.state = State::Drain;
            self.drain_began = self.rounds.count;
        }
        if self.state == State::Drain && self.has_drained_enough(acked.in_flight) {
            self.start_down(acked.now);
        }
        self.go_on_in_cycle(acked, sample);
        let is_time = self.model.least_rtt.note(acked.now, acked.rtt_us);
        self.check_probe_rtt(acked, is_time);
    }

    /// BBRCheckDrainDone().
    fn has_drained_enough(&self, in_flight: u64) -> bool {
        in_flight <= self.full_bytes(self.model.rate())
            || self.rounds.count > self.drain_began + DRAIN_ROUNDS_MAX
    }

    /// BBRCheckStartupHighLoss().
    fn check_startup_losses(&mut self, acked: &Acked, sample: &Sample) {
        let is_lossy = self.phase == Phase::Recovery && sample.is_lossy(LOSS_PERCENT_MAX);
        let round_ended = self.model.loss_round_ended;
        if self.full.note_losses(acked.lost_bytes > 0, round_ended, is_lossy) {
            let fills = self.full_bytes(self.model.max_rate.value());
            self.model.believed.inflight_hi = fills.max(self.model.inflight_latest);
            self.note_stopped(State::Startup);
        }
    }

    /// BBRUpdateRound().
    fn update_round(&mut self, sample: &Sample) {
        self.rounds.has_begun =
            sample.prior_delivered.is_some_and(|prior| prior >= self.rounds.ends_at);
        if self.rounds.has_begun {
            self.start_round();
            self.rounds.count += 1;
            self.rounds.since_probe += 1;
        }
    }

    fn start_round(&mut self) {
        self.rounds.ends_at = self.sampler.delivered();
    }

    /// BBRCheckProbeRTT(): half of what fills the path, for a fifth of a second and a round trip. A silence has left the path empty anyway.
    fn check_probe_rtt(&mut self, acked: &Acked, is_time: bool) {
        if self.state != State::ProbeRtt && is_time && !self.is_restarting {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_until = None;
            self.cycle.stop_probing();
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.go_on_in_probe_rtt(acked.now, acked.in_flight);
        }
        if acked.arrived_bytes > 0 {
            self.is_restarting = false;
        }
    }

    /// BBRHandleProbeRTT().
    fn go_on_in_probe_rtt(&mut self, now: Time, in_flight: u64) {
        // The rate is low on purpose.
        self.sampler.mark_app_limited(in_flight);
        match self.probe_rtt_until {
            None if in_flight <= self.probe_rtt_bytes() => {
                self.probe_rtt_until = Some(now.after_us(PROBE_RTT_US));
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.rounds.has_begun;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt_if_over(now);
                }
            }
        }
    }

    /// BBRCheckProbeRTTDone() and BBRExitProbeRTT().
    fn end_probe_rtt_if_over(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| until > now) {
            return;
        }
        self.model.least_rtt.looked(now);
        self.restore_cwnd();
        self.model.forget_lower_bounds();
        if self.full.was_reached {
            self.start_down(now);
            // No more is in flight than fills the path.
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn least_cwnd(&self) -> u64 {
        SEGMENTS_MIN * self.mss
    }

    fn probe_rtt_bytes(&self) -> u64 {
        let percent = State::ProbeRtt.cwnd_percent();
        let half = self.model.fills(self.model.rate(), percent).unwrap_or(self.initial);
        half.max(self.least_cwnd())
    }

    /// BBRInflight(1.0): the bytes that fill the path at `rate`, and the pieces in which they are sent.
    fn full_bytes(&self, rate: u64) -> u64 {
        self.with_quanta(self.model.fills(rate, 100).unwrap_or(self.initial))
    }

    /// BBRTargetInflight().
    fn target_bytes(&self) -> u64 {
        self.full_bytes(self.model.rate()).min(self.cwnd)
    }

    /// BBRQuantizationBudget().
    fn with_quanta(&self, bytes: u64) -> u64 {
        let at_once = self.pacing_rate / (1_000_000 / QUANTUM_US);
        let quantum = at_once.min(QUANTUM_BYTES_MAX).max(2 * self.mss);
        let probe = if self.state == State::Up { 2 * self.mss } else { 0 };
        bytes.max(QUANTA * quantum).max(self.least_cwnd()).saturating_add(probe)
    }

    /// BBRSetPacingRate(): until the path was full once, the rate does not fall.
    fn update_pacing_rate(&mut self, srtt_us: u64) {
        if self.pacing_rate == 0 {
            let initial = u128::from(self.initial) * 1_000_000 / u128::from(srtt_us.max(1_000));
            self.pacing_rate = part(initial as u64, State::Startup.pacing_percent()).max(self.mss);
        }
        self.pace_at(self.state.pacing_percent());
    }

    /// At least a segment per second, so that no measurement stops the flow.
    fn pace_at(&mut self, percent: u64) {
        let measured = self.model.rate();
        let rate = part(part(measured, percent), 100 - MARGIN_PERCENT).max(self.mss);
        if measured > 0 && (self.full.was_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// BBRSetCwnd().
    fn update_cwnd(&mut self, arrived_bytes: u64) {
        let fills = self.model.fills(self.model.rate(), self.state.cwnd_percent());
        let filled =
            fills.unwrap_or(self.initial).saturating_add(self.model.aggregation.extra_bytes());
        let inflight_max = self.with_quanta(filled);
        if self.full.was_reached {
            self.cwnd = (self.cwnd + arrived_bytes).min(inflight_max);
        } else if self.cwnd < inflight_max || self.sampler.delivered() < self.initial {
            self.cwnd += arrived_bytes;
        }
        self.cwnd = self.cwnd.max(self.least_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_bytes());
        }
        self.cwnd = self.cwnd.min(self.bound()).min(self.cwnd_max);
    }

    /// BBRBoundCwndForModel().
    fn bound(&self) -> u64 {
        let inflight_hi = match self.state {
            State::Startup | State::Drain => u64::MAX,
            State::Down | State::Refill | State::Up => self.model.believed.inflight_hi,
            State::Cruise | State::ProbeRtt => self.model.inflight_with_headroom(self.mss),
        };
        inflight_hi.min(self.model.believed.inflight_lo).max(self.least_cwnd())
    }

    fn save_cwnd(&mut self) {
        let is_small = self.phase != Phase::Open || self.state == State::ProbeRtt;
        self.cwnd_before = if is_small { self.cwnd_before.max(self.cwnd) } else { self.cwnd };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.cwnd_before);
    }

    /// Handles newly detected losses. True: they began a fast recovery.
    fn take_loss(&mut self, sent_below: u64) -> bool {
        self.model.note_loss(self.sampler.delivered());
        let enters = self.phase == Phase::Open;
        if enters {
            self.save_cwnd();
            self.remember();
            self.phase = Phase::Recovery;
            self.point = sent_below;
        }
        enters
    }

    /// BBRSaveStateUponLoss().
    fn remember(&mut self) {
        let believed = self.model.believed;
        self.before = Some(Before { cwnd: self.cwnd, believed, stopped: None });
    }

    /// Records that loss ended the current probing.
    fn note_stopped(&mut self, state: State) {
        if let Some(before) = &mut self.before {
            before.stopped = Some(state);
        }
    }

    /// Handles a loss that a timer detected or a tail loss probe has shown. True: it began a fast recovery.
    pub(crate) fn lost(&mut self, lost_bytes: u64, sent_below: u64) -> bool {
        self.sampler.lost(lost_bytes);
        self.take_loss(sent_below)
    }

    /// BBROnEnterRTO(): from one segment up again, to what fills the path, which is still known.
    pub(crate) fn timed_out(&mut self, lost_bytes: u64, sent_below: u64) {
        self.sampler.lost(lost_bytes);
        self.model.note_loss(self.sampler.delivered());
        if self.phase != Phase::Loss {
            self.save_cwnd();
            self.remember();
        }
        self.phase = Phase::Loss;
        self.point = sent_below;
        self.cwnd = self.mss;
    }

    /// BBRHandleSpuriousLossDetection(): nothing was lost, so the window and bounds are restored, and a probe begins again. False: there is nothing
    /// to undo.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.cwnd = self.cwnd.max(before.cwnd);
        self.model.restore(&before.believed);
        self.full.look(0);
        self.phase = Phase::Open;
        match before.stopped {
            Some(State::Startup) => {
                self.full.was_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(_) if self.state.is_in_cycle() && self.state != State::Up => self.start_refill(),
            _ => {}
        }
        true
    }

    pub(crate) fn confirm(&mut self) {
        self.before = None;
    }

    /// BBRHandleRestartFromIdle(): nothing was in flight, and sending starts again.
    pub(crate) fn idle(&mut self, now: Time) {
        self.is_restarting = true;
        self.sampler.mark_app_limited(0);
        self.model.aggregation.restart(now);
        if self.state.is_in_cycle() {
            self.pace_at(100);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt_if_over(now);
        }
    }

    fn random(&mut self) -> u64 {
        next_random(&mut self.randomness)
    }
}

#[cfg(test)]
mod tests;
