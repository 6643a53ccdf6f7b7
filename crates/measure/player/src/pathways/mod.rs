//! Chooses the pathway of the next segment.
//!
//! A title may be available over several pathways: `PATHWAY-ID` in HLS, `serviceLocation` in DASH, or clones of either through content
//! steering. The player tests all of them with its first segments, stays with the best, and probes the others while it plays. It leaves a
//! pathway at the first failure, at a silence, or when its buffer would not last, and returns when another is better by a margin.
//!
//! Steering sets the order (HLS: draft-pantos-hls-rfc8216bis, "Content Steering"; DASH: ETSI TS 103 998). Only pathways that it names are
//! used: the first one that is neither penalised nor measured to be too slow. Measurements decide the rest, and everything if there is no
//! steering.
//!
//! A slow pathway and a slow network look the same from one pathway. So a player with time to spare probes another one first: in a slow
//! network the probe shares it with the segment, and is no faster. A player without time moves on the basis of what it knows.
//!
//! Invariants:
//! - There is always a current pathway. When all are penalised, it is the fastest of those that were only slow, or else the one whose
//!   penalty ends first.
//! - A penalised pathway is not chosen while another may be used.
//! - Probes take at most [`PathwayPolicy::probe_share_max`] of the bytes of media before them.
//! - The player does not swing between equal pathways: a return requires a margin and several probes in a row, twice as many each time.
//!
//! The constants of [`PathwayPolicy`] are our own estimates unless stated otherwise.

mod candidate;
mod moves;
mod need;
mod policy;
mod probing;
mod recent;

use std::collections::VecDeque;
use std::time::Duration;

pub use moves::{Move, MoveReason, Outage};
pub use need::{Need, Progress};
pub use policy::PathwayPolicy;
pub use probing::Probe;
pub use recent::Recent;

use crate::Time;
use crate::estimate::{self, Estimate};
use candidate::Candidate;
use need::Arrival;
use probing::{OPEN_MAX, Probing};

/// A pathway this many times as fast as the highest rung needs is good enough: moving elsewhere is not worth it.
const PLENTY: f64 = 2.0;

/// A pathway that was left because it was slow is used again within its penalty if the current one is this many times slower.
const MUCH_BETTER_BY: f64 = 2.0;

/// Limit for the doubling of [`PathwayPolicy::better_probes`].
const BETTER_PROBES_MAX: u32 = 64;

/// Each time a player has looked for a faster pathway with a segment, its measurements of the others stay valid this many times longer.
const EXPLORED_LESS: u32 = 16;

/// How often that multiplication happens at most.
const EXPLORED_MAX: u32 = 2;

/// Moves queued for [`Pathways::poll_event`]; the oldest are dropped.
const EVENTS_MAX: usize = 64;

/// The pathways of one session.
#[derive(Clone, Debug)]
pub struct Pathways {
    policy: PathwayPolicy,
    /// At least one.
    candidates: Vec<Candidate>,
    current: usize,
    is_steered: bool,
    /// A test has been measured since pathways were last compared.
    is_comparing: bool,
    better_probes_min: u32,
    /// Segments sent elsewhere in search of a faster pathway, since the current one was last fast enough.
    explored: u32,
    probing: Probing,
    moves: VecDeque<Move>,
}

impl Pathways {
    /// The pathways of a manifest. The current one is `first`, or else the first in the list.
    pub fn new(policy: PathwayPolicy, mut ids: Vec<String>, first: Option<&str>) -> Self {
        if ids.is_empty() {
            ids.push(".".to_owned()); // HLS's name for the pathway of variants without PATHWAY-ID
        }
        let current = ids.iter().position(|id| Some(id.as_str()) == first).unwrap_or(0);
        let mut candidates: Vec<_> = ids.into_iter().map(Candidate::new).collect();
        candidates[current].is_tested = true;
        Self {
            better_probes_min: policy.better_probes,
            policy,
            candidates,
            current,
            is_steered: false,
            is_comparing: false,
            explored: 0,
            probing: Probing::default(),
            moves: VecDeque::new(),
        }
    }

    /// Adds a pathway, which is a clone. Call this before passing on the steering answer's order, which names it.
    pub fn add(&mut self, id: String) {
        if self.candidates.iter().all(|candidate| candidate.id != id) {
            self.candidates.push(Candidate::new(id));
        }
    }

    /// The current pathway. Sound, initialisation sections and playlists come from here.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Pathways that have had no request yet. [`choose`](Self::choose) sends the first segments there.
    pub fn untested(&self) -> impl Iterator<Item = usize> {
        let candidates = self.candidates.iter().enumerate();
        candidates.filter(|(_, candidate)| !candidate.is_tested).map(|(index, _)| index)
    }

    /// Returns true if the pathway failed so recently that it is used only if there is no other.
    pub fn is_penalised(&self, now: Time, pathway: usize) -> bool {
        self.candidates.get(pathway).is_some_and(|candidate| candidate.is_penalised(now))
    }

    /// The pathway's rate when it was last measured, in bits per second.
    pub fn bits_per_second(&self, pathway: usize) -> Option<f64> {
        self.candidates.get(pathway)?.last_rate()
    }

    /// The next move to report.
    pub fn poll_event(&mut self) -> Option<Move> {
        self.moves.pop_front()
    }

    /// The pathway of the next segment: the current one, or one that is yet to be tested.
    pub fn choose(&mut self, now: Time, need: &Need) -> usize {
        if !self.is_usable(self.current, now) {
            self.flee(now, self.candidates[self.current].reason());
        }
        if let Some((to, reason)) = self.preferable(now, need) {
            self.go(now, to, reason);
        }
        self.leave_if_too_slow(now, need);
        self.test(now, need).unwrap_or(self.current)
    }

    /// Another pathway to probe with a few bytes now, if any. `can` returns which ones can be probed.
    pub fn probe(&mut self, now: Time, can: impl Fn(usize) -> bool) -> Option<Probe> {
        let bytes = self.probing.size(self.candidates[self.current].rate(now)?);
        if !self.probing.allows(now, &self.policy, bytes) {
            return None;
        }
        let others = self.others(now, self.current).filter(|&index| can(index));
        let pathway = others.min_by_key(|&index| self.candidates[index].measured_at())?;
        let probe = Probe { pathway, bytes };
        self.probing.begin(now, probe);
        Some(probe)
    }

    /// Handles progress of a request for media. If this returns true, close the request and call [`choose`](Self::choose) for another
    /// pathway, because the buffer would be empty before the rest arrives.
    ///
    /// Call this a few times a second for each open request, with or without new bytes.
    pub fn handle_progress(&mut self, now: Time, pathway: usize, progress: &Progress) -> bool {
        if self.probing.is_open(now, self.policy.silence_max) {
            return false; // The probe shares the network with the request, so its rate means nothing.
        }
        if pathway >= self.candidates.len() {
            return false;
        }
        let Some(rate) = self.progress_rate(progress) else { return false };
        let arrival = Arrival::of_rest(progress, rate);
        let Some(to) = self.rescue(now, pathway, &arrival) else { return false };
        self.candidates[pathway].handle_given_up(now, rate, progress.elapsed);
        self.probing.handle_media(progress.received_bytes);
        self.penalise(now, pathway, MoveReason::TooSlow, None);
        if pathway == self.current {
            self.go(now, to, MoveReason::TooSlow);
        }
        true
    }

    /// Zero if nothing arrived and the viewer would notice the silence. `None` while there is too little data.
    fn progress_rate(&self, progress: &Progress) -> Option<f64> {
        let Progress { elapsed, received_bytes, buffered, .. } = *progress;
        if received_bytes > 0 {
            return progress.bits_per_second;
        }
        let waits_too_long = buffered + elapsed < self.policy.silence_max;
        (elapsed >= self.policy.silence_max / 2 && waits_too_long).then_some(0.0)
    }

    /// Handles a request whose bytes have all arrived: a segment, or a probe.
    pub fn handle_sample(
        &mut self,
        now: Time,
        pathway: usize,
        bytes: u64,
        first_byte_after: Duration,
        took: Duration,
        is_probe: bool,
    ) {
        if is_probe {
            self.handle_probe(now, pathway, bytes, took.saturating_sub(first_byte_after));
        } else {
            self.handle_media(now, pathway, bytes, first_byte_after, took);
        }
    }

    /// Handles a failed request of any purpose. The pathway is penalised, and left if it is the current one.
    pub fn handle_failure(&mut self, now: Time, pathway: usize, outage: Outage) {
        if pathway >= self.candidates.len() {
            return;
        }
        self.probing.handle_failure(pathway);
        self.penalise(now, pathway, outage.reason(), outage.retry_after());
        if pathway == self.current {
            self.flee(now, outage.reason());
        }
    }

    /// Handles steering's answer: the pathways to use, best first. Unknown names are ignored, and so is an answer with only unknown names.
    pub fn handle_steering(&mut self, now: Time, priority: &[String]) {
        let rank = |id: &str| priority.iter().position(|name| name == id);
        if self.candidates.iter().all(|candidate| rank(&candidate.id).is_none()) {
            return;
        }
        for candidate in &mut self.candidates {
            candidate.rank = rank(&candidate.id);
        }
        self.is_steered = true;
        if !self.is_named(self.current) {
            self.flee(now, MoveReason::Removed);
        }
    }

    fn handle_media(
        &mut self,
        now: Time,
        pathway: usize,
        bytes: u64,
        first_byte_after: Duration,
        took: Duration,
    ) {
        self.probing.handle_media(bytes);
        let Some(candidate) = self.candidates.get_mut(pathway) else { return };
        let is_test = candidate.measured_at().is_none();
        candidate.handle_media(now, bytes, first_byte_after, took);
        if pathway == self.current {
            candidate.forgive(now, &self.policy);
        } else {
            self.is_comparing |= is_test;
        }
    }

    /// The wait for the first byte does not count: it is mostly distance, which a segment hardly notices.
    fn handle_probe(&mut self, now: Time, pathway: usize, bytes: u64, took: Duration) {
        self.probing.handle_probe(pathway, bytes);
        if pathway == self.current {
            return; // Media has provided newer measurements.
        }
        let to_beat = self.candidates[self.current].rate_to_beat();
        let Some(candidate) = self.candidates.get_mut(pathway) else { return };
        let rate = estimate::rate(bytes, took);
        candidate.handle_probe(now, rate);
        let is_better = to_beat.is_some_and(|to_beat| rate >= to_beat * self.policy.better_by);
        candidate.better_probes = if is_better { candidate.better_probes + 1 } else { 0 };
    }

    /// Returns true if steering allows the pathway.
    pub(crate) fn is_named(&self, index: usize) -> bool {
        let is_ranked = |candidate: &Candidate| candidate.rank.is_some();
        !self.is_steered || self.candidates.get(index).is_some_and(is_ranked)
    }

    fn is_usable(&self, index: usize, now: Time) -> bool {
        self.is_named(index) && !self.candidates[index].is_penalised(now)
    }

    /// The usable pathways other than this one.
    fn others(&self, now: Time, beside: usize) -> impl Iterator<Item = usize> {
        let all = 0..self.candidates.len();
        all.filter(move |&index| index != beside && self.is_usable(index, now))
    }

    /// A pathway that is better than the current one, although that works.
    fn preferable(&mut self, now: Time, need: &Need) -> Option<(usize, MoveReason)> {
        let was_comparing = std::mem::take(&mut self.is_comparing);
        let (to, reason) = if self.is_steered {
            (self.steered(now, need)?, MoveReason::Steered)
        } else if was_comparing {
            (self.best_tested(now)?, MoveReason::Better)
        } else {
            (self.better(now, need)?, MoveReason::Better)
        };
        (to != self.current).then_some((to, reason))
    }

    /// The first usable pathway in steering's order that is not known to be too slow.
    fn steered(&self, now: Time, need: &Need) -> Option<usize> {
        let all = 0..self.candidates.len();
        let usable = all.filter(|&index| self.is_usable(index, now));
        let fit = usable.filter(|&index| !self.is_too_slow(index, now, need));
        fit.min_by_key(|&index| self.candidates[index].rank)
    }

    /// Returns true if another pathway was measured to be slower than playback and slower than the current one.
    fn is_too_slow(&self, index: usize, now: Time, need: &Need) -> bool {
        let Some(rate) = self.candidates[index].rate(now) else { return false };
        let Some(present) = self.candidates[self.current].rate_to_beat() else { return false };
        let keeps_up = need.bits as f64 <= rate * need.segment.as_secs_f64();
        index != self.current && !keeps_up && rate * self.policy.better_by < present
    }

    /// The fastest pathway, if it is faster by the margin. Used after the tests at the start.
    fn best_tested(&self, now: Time) -> Option<usize> {
        let to_beat = self.candidates[self.current].rate_to_beat()? * self.policy.better_by;
        let rate = |index: usize| self.candidates[index].rate(now).unwrap_or(0.0);
        let faster = self.others(now, self.current).filter(|&index| rate(index) >= to_beat);
        fastest(faster, rate)
    }

    /// The fastest of those that enough consecutive probes found better, unless the current one is good enough.
    fn better(&mut self, now: Time, need: &Need) -> Option<usize> {
        let enough = need.bits_per_second_max as f64 * PLENTY;
        if self.candidates[self.current].rate_to_beat()? >= enough {
            return None;
        }
        let min = self.better_probes_min.max(1);
        let is_better = |&index: &usize| self.candidates[index].better_probes >= min;
        let better = self.others(now, self.current).filter(is_better);
        let best = fastest(better, |index| self.candidates[index].last_rate().unwrap_or(0.0));
        if best.is_some() {
            self.better_probes_min = min.saturating_mul(2).min(BETTER_PROBES_MAX);
        }
        best
    }

    fn leave_if_too_slow(&mut self, now: Time, need: &Need) {
        let Some(rate) = self.candidates[self.current].rate(now) else { return };
        let arrival = Arrival::of_next(need, rate);
        self.probing.is_urgent = false;
        if let Some(to) = self.rescue(now, self.current, &arrival) {
            self.penalise(now, self.current, MoveReason::TooSlow, None);
            self.go(now, to, MoveReason::TooSlow);
        } else if self.probing.is_urgent {
            self.explore(now, rate);
        } else {
            self.explored = 0;
        }
    }

    /// The current pathway is too slow, and the measurements of the others are old. If there is no budget for a probe, because a slow
    /// pathway delivers hardly any bytes, the next segment serves as the measurement: it is needed anyway. If the network is too slow for
    /// any pathway, players explore ever more rarely.
    fn explore(&mut self, now: Time, rate: f64) {
        let bytes = self.probing.size(rate);
        if self.probing.is_open(now, OPEN_MAX) || self.probing.allows(now, &self.policy, bytes) {
            return;
        }
        let others = self.others(now, self.current);
        let age = candidate::FRESH_FOR * EXPLORED_LESS.pow(self.explored.min(EXPLORED_MAX));
        // A pathway that was never measured has its test at the start.
        let measured = others.filter(|&index| self.candidates[index].measured_at().is_some());
        let old = measured.filter(|&i| !self.candidates[i].was_measured_within(age, now));
        if let Some(to) = old.min_by_key(|&index| self.candidates[index].measured_at()) {
            self.explored += 1;
            self.go(now, to, MoveReason::TooSlow);
        }
    }

    /// Where to move from a pathway on which something arrives too late, if another one is better.
    ///
    /// Too late means: after the buffer is empty; or so late that too little time would be left to find out that the others are silent; or
    /// with the buffer draining fast. While there is time for a probe, only fresh measurements count.
    fn rescue(&mut self, now: Time, from: usize, arrival: &Arrival) -> Option<usize> {
        let silence_s = self.policy.silence_max.as_secs_f64();
        let spare_s = silence_s * self.others(now, from).count() as f64;
        if !arrival.is_late() && !arrival.drains(spare_s) {
            return None;
        }
        let all = 0..self.candidates.len();
        let better = all.filter(|&index| index != from && self.rescues(now, index, arrival));
        let rate = |index: usize| self.candidates[index].last_rate().unwrap_or(0.0);
        let usable = better.clone().filter(|&index| self.is_usable(index, now));
        let to = fastest(usable, rate).or_else(|| fastest(better, rate));
        match to {
            Some(to) => self.candidates[to].pardon(now),
            None => self.probing.is_urgent = true,
        }
        to
    }

    /// Returns true if another pathway would deliver all of it before the current one delivers the rest, by a margin.
    fn rescues(&self, now: Time, index: usize, arrival: &Arrival) -> bool {
        let candidate = &self.candidates[index];
        let better_by = match (self.is_usable(index, now), candidate.is_slow(now)) {
            (true, _) => self.policy.better_by,
            (false, true) if self.is_named(index) => MUCH_BETTER_BY,
            _ => return false,
        };
        let Some(rate) = candidate.last_rate() else {
            // Worth a try only if the current one is so slow that two silences would not make it worse.
            return arrival.is_late() && arrival.in_s > self.policy.silence_max.as_secs_f64() * 2.0;
        };
        let counts = arrival.is_late() || candidate.is_fresh(now);
        counts && arrival.bits / rate.max(1.0) * better_by < arrival.in_s
    }

    /// The next pathway to test with a segment: if the buffer lasts even if that pathway is silent, or if it will not last anyway.
    fn test(&mut self, now: Time, need: &Need) -> Option<usize> {
        if !self.policy.tests_at_start {
            return None;
        }
        let rate = self.candidates[self.current].rate(now)?;
        let again = Arrival::of_next(need, rate);
        let with_silence_s = again.in_s + self.policy.silence_max.as_secs_f64();
        if !again.is_late() && with_silence_s > again.buffered_s {
            return None;
        }
        let untested = self.untested().filter(|&index| self.is_usable(index, now));
        let next = untested.min_by_key(|&index| self.candidates[index].rank)?;
        self.candidates[next].is_tested = true;
        Some(next)
    }

    fn penalise(&mut self, now: Time, index: usize, reason: MoveReason, least: Option<Duration>) {
        self.candidates[index].penalise(now, &self.policy, reason, least);
    }

    /// Leaves a pathway that cannot be used.
    fn flee(&mut self, now: Time, reason: MoveReason) {
        self.better_probes_min = self.policy.better_probes;
        let to = self.refuge(now);
        if to != self.current {
            self.go(now, to, reason);
        }
    }

    /// Steering's next, or the fastest known. If all are penalised, the fastest of those that were only slow, or else the one whose penalty
    /// ends first.
    fn refuge(&self, now: Time) -> usize {
        let all = 0..self.candidates.len();
        let usable = all.clone().filter(|&index| self.is_usable(index, now));
        let best = if self.is_steered {
            usable.min_by_key(|&index| self.candidates[index].rank)
        } else {
            let rate = |index: usize| self.candidates[index].rate(now);
            fastest(usable, |index| rate(index).unwrap_or(Estimate::BEFORE_FIRST))
        };
        let named = all.filter(|&index| self.is_named(index));
        let slow = named.clone().filter(|&index| self.candidates[index].is_slow(now));
        let last_rate = |index: usize| self.candidates[index].last_rate().unwrap_or(0.0);
        let until = |index: &usize| self.candidates[*index].penalised_until();
        best.or_else(|| fastest(slow, last_rate))
            .or_else(|| named.min_by_key(until))
            .unwrap_or(self.current)
    }

    fn go(&mut self, now: Time, to: usize, reason: MoveReason) {
        if self.moves.len() == EVENTS_MAX {
            self.moves.pop_front();
        }
        self.moves.push_back(Move { at: now, from: self.current, to, reason });
        self.current = to;
        self.candidates[to].is_tested = true;
        self.probing.is_urgent = false;
        for candidate in &mut self.candidates {
            candidate.better_probes = 0;
        }
    }
}

/// The one with the highest rate; the first one if several are equal.
fn fastest(indices: impl Iterator<Item = usize>, rate: impl Fn(usize) -> f64) -> Option<usize> {
    let rated = indices.map(|index| (index, rate(index)));
    let best = rated.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(index, _)| index)
}
