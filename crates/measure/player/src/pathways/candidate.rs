//! One pathway from the player's point of view: how fast it was, and whether it may be used.

use std::time::Duration;

use super::{MoveReason, PathwayPolicy};
use crate::Time;
use crate::estimate::{self, Estimate};

/// A measurement older than this counts for nothing: the longest penalty, so that a pathway that was slow gets another chance even without
/// a probe.
const KNOWN_FOR: Duration = Duration::from_secs(300);

/// A measurement older than this may predate whatever slows the current pathway down: three probes at the default interval.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) id: String,
    /// Its position in steering's order, if steering names it.
    pub(super) rank: Option<usize>,
    /// Set once a request was sent there, or is about to be.
    pub(super) is_tested: bool,
    /// The number of consecutive probes that were better than the current pathway.
    pub(super) better_probes: u32,
    media: Estimate,
    latest: f64,
    /// Mean rate of the probes since it last delivered media.
    probed: Option<f64>,
    measured_at: Option<Time>,
    penalty: Option<Penalty>,
    strikes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Penalty {
    until: Time,
    reason: MoveReason,
}

impl Candidate {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            rank: None,
            is_tested: false,
            better_probes: 0,
            media: Estimate::new(),
            latest: 0.0,
            probed: None,
            measured_at: None,
            penalty: None,
            strikes: 0,
        }
    }

    pub(super) fn measured_at(&self) -> Option<Time> {
        self.measured_at
    }

    /// The rate when it was last measured, however long ago.
    pub(super) fn last_rate(&self) -> Option<f64> {
        self.probed.or_else(|| self.media.bits_per_second())
    }

    /// Its rate, as far as it is known.
    pub(super) fn rate(&self, now: Time) -> Option<f64> {
        self.last_rate().filter(|_| self.was_measured_within(KNOWN_FOR, now))
    }

    pub(super) fn is_fresh(&self, now: Time) -> bool {
        self.was_measured_within(FRESH_FOR, now)
    }

    pub(super) fn was_measured_within(&self, age_max: Duration, now: Time) -> bool {
        self.measured_at.is_some_and(|at| now.saturating_sub(at) <= age_max)
    }

    /// The rate that another pathway must beat, once this one has delivered media. The estimate is cautious and includes the waits for
    /// first bytes, so the last segment without its wait is used if it was faster.
    pub(super) fn rate_to_beat(&self) -> Option<f64> {
        self.media.bits_per_second().map(|rate| rate.max(self.latest))
    }

    pub(super) fn handle_media(
        &mut self,
        now: Time,
        bytes: u64,
        first_byte_after: Duration,
        took: Duration,
    ) {
        self.media.handle_sample(bytes, took);
        self.latest = estimate::rate(bytes, took.saturating_sub(first_byte_after));
        self.probed = None;
        self.measured_at = Some(now);
    }

    /// Handles a request that was given up because of this rate. Earlier measurements no longer count: they would call the player back.
    pub(super) fn handle_given_up(&mut self, now: Time, bits_per_second: f64, elapsed: Duration) {
        self.media = Estimate::new();
        let bytes = bits_per_second / 8.0 * elapsed.as_secs_f64();
        self.handle_media(now, bytes as u64, Duration::ZERO, elapsed);
    }

    /// Averages the new probe with the mean of those before it.
    pub(super) fn handle_probe(&mut self, now: Time, bits_per_second: f64) {
        let before = self.probed.unwrap_or(bits_per_second);
        self.probed = Some(f64::midpoint(before, bits_per_second));
        self.measured_at = Some(now);
    }

    pub(super) fn is_penalised(&self, now: Time) -> bool {
        self.penalty.is_some_and(|penalty| now < penalty.until)
    }

    /// Returns true if it is penalised for being slow, not for failing.
    pub(super) fn is_slow(&self, now: Time) -> bool {
        self.is_penalised(now) && self.reason() == MoveReason::TooSlow
    }

    pub(super) fn penalised_until(&self) -> Time {
        self.penalty.map_or(Time::ZERO, |penalty| penalty.until)
    }

    /// The reason for its last penalty.
    pub(super) fn reason(&self) -> MoveReason {
        self.penalty.map_or(MoveReason::FirstFailure, |penalty| penalty.reason)
    }

    /// Penalises the pathway; each penalty is twice as long as the one before. Requests that fail together count as one failure.
    pub(super) fn penalise(
        &mut self,
        now: Time,
        policy: &PathwayPolicy,
        reason: MoveReason,
        at_least: Option<Duration>,
    ) {
        if !self.is_penalised(now) {
            self.strikes = self.strikes.saturating_add(1);
        }
        let doubled = policy.penalty.saturating_mul(1 << (self.strikes.clamp(1, 16) - 1));
        let length = doubled.min(policy.penalty_max).max(at_least.unwrap_or_default());
        let until = now.saturating_add(length).max(self.penalised_until());
        self.penalty = Some(Penalty { until, reason });
        self.is_tested = true;
        self.better_probes = 0;
    }

    /// Ends a penalty, which still counts for the length of the next one.
    pub(super) fn pardon(&mut self, now: Time) {
        if let Some(penalty) = &mut self.penalty {
            penalty.until = penalty.until.min(now);
        }
    }

    /// It delivered media: ends the penalty, and forgets it if it ended long ago.
    pub(super) fn forgive(&mut self, now: Time, policy: &PathwayPolicy) {
        self.pardon(now);
        if now.saturating_sub(self.penalised_until()) > policy.penalty_max {
            self.penalty = None;
            self.strikes = 0;
        }
    }
}
