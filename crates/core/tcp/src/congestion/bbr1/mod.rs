//! BBR, version 1, as mainline Linux has it under the name `bbr`: sends at the highest rate that arrived recently, keeps up to twice what fills the
//! path in flight, and ignores loss beyond the round trip in which it happens.
//!
//! Its successor (`../bbr/`) keeps less in flight once a probe has lost 2%, and so gets next to nothing when it shares a short queue with this one
//! (docs/notes/bypass.md). Version 1 is for servers that share bottlenecks with Linux's. It follows draft-cardwell-iccrg-bbr-congestion-control-00
//! and Linux's later additions: room for acknowledgements that come in bunches, and probes whose phases begin at random. It does not detect policers
//! (Linux's "long-term" rate).

mod recent;

use super::aggregation::{Aggregation, EXTRA_ROUNDS};
use super::rate::{Sample, Sampler};
use super::usage::Usage;
use super::{Acked, Pace, Sent, Start, next_random, part};
use crate::clock::Time;
use recent::Recent;

/// 2 / ln 2: the least with which the rate doubles in a round trip, and its inverse.
const STARTUP_PERCENT: u64 = 289;
const DRAIN_PERCENT: u64 = 35;

/// The sending rate in each phase of the cycle, in percent of the path's rate: a probe, a round trip that empties the queue of the probe, six without
/// change.
const CYCLE_PERCENT: [u64; 8] = [125, 75, 100, 100, 100, 100, 100, 100];

/// The bytes that may be in flight then, in percent of what fills the path, because acknowledgements come late and in bunches.
const IN_FLIGHT_PERCENT: u64 = 200;

/// The path is full after this many round trips in which the rate did not grow by a quarter.
const GROWTH_PERCENT: u64 = 125;
const ROUNDS_WITHOUT_GROWTH: u32 = 3;

/// The least window, in segments: enough for a peer that acknowledges every other one. It is also the window in which the shortest round trip is
/// measured.
const SEGMENTS_MIN: u64 = 4;

/// How long a shortest round trip counts. Then the flow shrinks for a fifth of a second.
const LEAST_US_KEPT: u64 = 10_000_000;
const PROBE_RTT_US: u64 = 200_000;

/// A little less than the path carries, so that no queue stays.
const MARGIN_PERCENT: u64 = 1;

/// The bytes sent at once: a millisecond's worth. Three of them must fit: one at the sender, one in flight, one being acknowledged.
const QUANTUM_US: u64 = 1_000;
const QUANTUM_BYTES_MAX: u64 = 64 << 10;
const QUANTA: u64 = 3;

/// Acknowledgements that come together make room for at most this much.
const EXTRA_US_MAX: u64 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Doubles its rate each round trip, to find what the path carries.
    Startup,
    /// Empties the queue that Startup has made.
    Drain,
    /// The cycle of probing: its phase, an index into [`CYCLE_PERCENT`].
    Cycle(usize),
    /// Shrinks for a moment, to measure the round trip without a queue.
    ProbeRtt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery (RFC 6675, RFC 8985). In its first round trip, arriving bytes make room for as many, and no more.
    Recovery {
        conserves: bool,
    },
    /// After a retransmission timeout.
    Loss,
}

#[derive(Debug)]
pub(crate) struct Bbr1 {
    mss: u64,
    initial: u64,
    cwnd: u64,
    cwnd_max: u64,
    /// The window before it was reduced.
    cwnd_before: u64,
    /// Bytes per second. Zero: not known yet.
    pacing_rate: u64,
    state: State,
    /// When the cycle's phase began.
    state_since: Time,
    sampler: Sampler,
    rate: Recent,
    usage: Usage,
    aggregation: Aggregation,
    /// The shortest round trip, and when it was measured.
    least_us: Option<u64>,
    least_at: Time,
    /// When ProbeRtt has lasted long enough: set once the flow is small.
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    /// Set until the first arrival after a silence.
    is_restarting: bool,
    /// Round trips, counted in delivered bytes.
    round: u64,
    round_ends_at: u64,
    round_began: bool,
    /// The rate to exceed before the path counts as full, and for how many round trips it was not exceeded.
    full_rate: u64,
    full_rounds: u32,
    was_full: bool,
    phase: Phase,
    /// RecoveryPoint (RFC 6675 section 2).
    point: u64,
    randomness: u64,
}

impl Bbr1 {
    pub(crate) fn new(start: &Start) -> Self {
        let initial = start.mss * start.initial_segments;
        Bbr1 {
            mss: start.mss,
            initial,
            cwnd: initial,
            cwnd_max: start.cwnd_max.max(initial),
            cwnd_before: 0,
            pacing_rate: 0,
            state: State::Startup,
            state_since: start.now,
            sampler: Sampler::new(start.now),
            rate: Recent::default(),
            usage: Usage::default(),
            aggregation: Aggregation::new(start.now),
            least_us: None,
            least_at: start.now,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            is_restarting: false,
            round: 0,
            round_ends_at: 0,
            round_began: false,
            full_rate: 0,
            full_rounds: 0,
            was_full: false,
            phase: Phase::Open,
            point: 0,
            randomness: start.seed,
        }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
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
            self.cwnd = self.cwnd.max(self.cwnd_before);
        }
        let sample = self.sampler.acked(acked, self.least_us);
        self.usage.note(acked);
        self.update_round(&sample);
        if sample.rate > 0 && (!sample.app_limited || sample.rate >= self.rate.value()) {
            self.rate.note(sample.rate, self.round);
        }
        let is_over = self.round_began && self.round % EXTRA_ROUNDS == 0;
        let rate = self.rate.value();
        self.aggregation.note(acked.now, acked.arrived_bytes, rate, self.cwnd, is_over);
        self.update_phase(acked);
        self.check_full(&sample);
        self.check_drained(acked);
        self.update_least(acked);
        self.update_pacing_rate(acked.srtt_us);
        let enters = acked.lost_bytes > 0 && self.take_loss(acked);
        self.update_cwnd(acked);
        enters
    }

    fn update_round(&mut self, sample: &Sample) {
        self.round_began = sample.prior_delivered.is_some_and(|prior| prior >= self.round_ends_at);
        if self.round_began {
            self.round_ends_at = self.sampler.delivered();
            self.round += 1;
            if self.phase == (Phase::Recovery { conserves: true }) {
                self.phase = Phase::Recovery { conserves: false };
            }
        }
    }

    /// A phase lasts a round trip. A probe lasts until it has filled its allowance or has lost; emptying ends with the queue.
    fn update_phase(&mut self, acked: &Acked) {
        let State::Cycle(phase) = self.state else { return };
        let is_long = acked.now.since_us(self.state_since) > self.least_us.unwrap_or(0);
        let is_over = match CYCLE_PERCENT[phase] {
            100 => is_long,
            percent @ 101.. => {
                let in_flight = self.usage.bytes().max(acked.in_flight_before);
                let filled = in_flight + self.quantum_bytes() >= self.full_bytes(percent);
                is_long && (acked.lost_bytes > 0 || filled)
            }
            _ => is_long || acked.in_flight <= self.full_bytes(100),
        };
        if is_over {
            self.start_phase((phase + 1) % CYCLE_PERCENT.len(), acked.now);
        }
    }

    fn start_phase(&mut self, phase: usize, now: Time) {
        (self.state, self.state_since) = (State::Cycle(phase), now);
    }

    /// Begins with any phase except the one that empties a queue, so that flows do not all probe at once.
    fn start_cycle(&mut self, now: Time) {
        let phases = CYCLE_PERCENT.len() as u64;
        let phase = (phases - self.random() % (phases - 1)) % phases;
        self.start_phase(phase as usize, now);
    }

    fn check_full(&mut self, sample: &Sample) {
        if self.was_full || !self.round_began || sample.app_limited {
            return;
        }
        let rate = self.rate.value();
        if rate >= part(self.full_rate, GROWTH_PERCENT) {
            (self.full_rate, self.full_rounds) = (rate, 0);
        } else {
            self.full_rounds += 1;
            self.was_full = self.full_rounds >= ROUNDS_WITHOUT_GROWTH;
        }
    }

    fn check_drained(&mut self, acked: &Acked) {
        if self.state == State::Startup && self.was_full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && acked.in_flight <= self.full_bytes(100) {
            self.start_cycle(acked.now);
        }
    }

    fn update_least(&mut self, acked: &Acked) {
        let is_old = acked.now.since_us(self.least_at) > LEAST_US_KEPT;
        if let Some(rtt_us) = acked.rtt_us {
            if is_old || self.least_us.is_none_or(|least_us| rtt_us <= least_us) {
                (self.least_us, self.least_at) = (Some(rtt_us.max(1)), acked.now);
            }
        }
        if is_old && !self.is_restarting && self.state != State::ProbeRtt {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_until = None;
        }
        if self.state == State::ProbeRtt {
            self.go_on_in_probe_rtt(acked.now, acked.in_flight);
        }
        if acked.arrived_bytes > 0 {
            self.is_restarting = false;
        }
    }

    fn go_on_in_probe_rtt(&mut self, now: Time, in_flight: u64) {
        // The rate is low on purpose.
        self.sampler.mark_app_limited(in_flight);
        match self.probe_rtt_until {
            None if in_flight <= self.least_cwnd() => {
                self.probe_rtt_until = Some(now.after_us(PROBE_RTT_US));
                self.probe_rtt_round_done = false;
                self.round_ends_at = self.sampler.delivered();
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.round_began;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt_if_over(now);
                }
            }
        }
    }

    fn end_probe_rtt_if_over(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| until > now) {
            return;
        }
        self.least_at = now;
        self.cwnd = self.cwnd.max(self.cwnd_before);
        if self.was_full {
            self.start_cycle(now);
        } else {
            self.state = State::Startup;
        }
    }

    fn least_cwnd(&self) -> u64 {
        SEGMENTS_MIN * self.mss
    }

    /// The bytes that fill the path, times `percent`.
    fn fills(&self, percent: u64) -> u64 {
        let Some(least_us) = self.least_us else { return self.initial };
        let bytes = u128::from(self.rate.value()) * u128::from(least_us) / 1_000_000;
        part(u64::try_from(bytes).unwrap_or(u64::MAX), percent)
    }

    fn quantum_bytes(&self) -> u64 {
        (self.pacing_rate / (1_000_000 / QUANTUM_US)).min(QUANTUM_BYTES_MAX).max(2 * self.mss)
    }

    /// The same, and the pieces in which it is sent.
    fn full_bytes(&self, percent: u64) -> u64 {
        let probe = if self.state == State::Cycle(0) { 2 * self.mss } else { 0 };
        self.fills(percent).saturating_add(QUANTA * self.quantum_bytes() + probe)
    }

    fn pacing_percent(&self) -> u64 {
        match self.state {
            State::Startup => STARTUP_PERCENT,
            State::Drain => DRAIN_PERCENT,
            State::Cycle(phase) => CYCLE_PERCENT[phase],
            State::ProbeRtt => 100,
        }
    }

    /// Until the path was full once, the rate does not fall.
    fn update_pacing_rate(&mut self, srtt_us: u64) {
        if self.pacing_rate == 0 {
            let initial = u128::from(self.initial) * 1_000_000 / u128::from(srtt_us.max(1_000));
            self.pacing_rate = part(initial as u64, STARTUP_PERCENT).max(self.mss);
        }
        self.pace_at(self.pacing_percent());
    }

    /// At least a segment per second, so that no measurement stops the flow.
    fn pace_at(&mut self, percent: u64) {
        let measured = self.rate.value();
        let rate = part(part(measured, percent), 100 - MARGIN_PERCENT).max(self.mss);
        if measured > 0 && (self.was_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn update_cwnd(&mut self, acked: &Acked) {
        let arrived = acked.arrived_bytes;
        let conserves = self.phase == Phase::Recovery { conserves: true };
        if conserves {
            self.cwnd = self.cwnd.max(acked.in_flight + arrived);
        } else if arrived > 0 {
            self.grow(arrived);
        }
        self.cwnd = self.cwnd.max(self.least_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.least_cwnd());
        }
        self.cwnd = self.cwnd.min(self.cwnd_max);
    }

    fn grow(&mut self, arrived: u64) {
        let percent = match self.state {
            State::Startup | State::Drain => STARTUP_PERCENT,
            State::Cycle(_) => IN_FLIGHT_PERCENT,
            State::ProbeRtt => 100,
        };
        let extra_max = u128::from(self.rate.value()) * u128::from(EXTRA_US_MAX) / 1_000_000;
        let extra = u128::from(self.aggregation.extra_bytes()).min(extra_max) as u64;
        let extra = if self.was_full { extra } else { 0 };
        let aim = self.full_bytes(percent).saturating_add(extra);
        if self.was_full {
            self.cwnd = (self.cwnd + arrived).min(aim);
        } else if self.cwnd < aim || self.sampler.delivered() < self.initial {
            self.cwnd += arrived;
        }
    }

    fn save_cwnd(&mut self) {
        let is_small = self.phase != Phase::Open || self.state == State::ProbeRtt;
        self.cwnd_before = if is_small { self.cwnd_before.max(self.cwnd) } else { self.cwnd };
    }

    /// Handles newly detected losses: that many fewer bytes may be in flight. True: they began a fast recovery.
    fn take_loss(&mut self, acked: &Acked) -> bool {
        let enters = self.begin_recovery(acked.sent_below);
        if enters {
            self.cwnd = acked.in_flight + acked.arrived_bytes;
        } else {
            self.cwnd = self.cwnd.saturating_sub(acked.lost_bytes).max(self.mss);
        }
        enters
    }

    fn begin_recovery(&mut self, sent_below: u64) -> bool {
        let enters = self.phase == Phase::Open;
        if enters {
            self.save_cwnd();
            self.phase = Phase::Recovery { conserves: true };
            self.round_ends_at = self.sampler.delivered();
            self.point = sent_below;
        }
        enters
    }

    /// Handles a loss that a timer detected or a tail loss probe has shown. True: it began a fast recovery.
    pub(crate) fn lost(&mut self, lost_bytes: u64, in_flight: u64, sent_below: u64) -> bool {
        self.sampler.lost(lost_bytes);
        let enters = self.begin_recovery(sent_below);
        if enters {
            self.cwnd = in_flight.max(self.least_cwnd()).min(self.cwnd_max);
        }
        enters
    }

    /// From one segment up again, to what fills the path, which is still known.
    pub(crate) fn timed_out(&mut self, lost_bytes: u64, sent_below: u64) {
        self.sampler.lost(lost_bytes);
        if self.phase != Phase::Loss {
            self.save_cwnd();
        }
        self.phase = Phase::Loss;
        self.point = sent_below;
        self.full_rate = 0;
        self.cwnd = self.mss;
    }

    /// Undoes a spurious loss: restores the window, and checks again whether the path is full.
    pub(crate) fn undo(&mut self) -> bool {
        let is_recovering = self.is_recovering();
        if is_recovering {
            self.cwnd = self.cwnd.max(self.cwnd_before);
            self.phase = Phase::Open;
            (self.full_rate, self.full_rounds) = (0, 0);
        }
        is_recovering
    }

    /// Called when nothing was in flight and sending starts again.
    pub(crate) fn idle(&mut self, now: Time) {
        self.is_restarting = true;
        self.sampler.mark_app_limited(0);
        self.aggregation.restart(now);
        match self.state {
            State::Cycle(_) => self.pace_at(100),
            State::ProbeRtt => self.end_probe_rtt_if_over(now),
            State::Startup | State::Drain => {}
        }
    }

    fn random(&mut self) -> u64 {
        next_random(&mut self.randomness)
    }
}
