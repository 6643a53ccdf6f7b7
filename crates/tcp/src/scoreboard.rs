//! What is in flight: ranges of the send stream with the time they left and what is known of them. This is all that a sender keeps.
//!
//! The ranges lie side by side from the first unacknowledged byte to the last one sent. Neighbours that left at nearly the same time are
//! one range, however many segments they were. Loss and SACKs split ranges; there are [`RANGES_MAX`] at most, so that neither a lossy
//! path nor a peer who reports every other byte makes a connection larger than 4 KiB here.
//!
//! Invariants:
//! * Ranges are ordered, not empty, and without gaps between them.
//! * The sums of bytes by state are those of the ranges.

use std::collections::VecDeque;
use std::ops::Range;

use crate::clock::Time;

/// 128 ranges of 32 bytes are 4 KiB: half of what a connection may hold.
pub(crate) const RANGES_MAX: usize = 128;

/// SACKs may split only up to here, so that there is room for what we do ourselves.
const RANGES_MAX_BY_SACK: usize = 96;

/// With more than so many, small gaps between lost ranges are sent again with them.
const RANGES_BEFORE_COARSE: usize = 48;

/// Short of room, ranges are joined that left this much further apart than usual: an eighth of a round trip, half of what RACK waits.
const COARSE_SPREAD: u64 = 2;

/// What is known of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Sent, nothing heard: the pipe of RFC 6675.
    Outstanding,
    /// The peer says that it has it (RFC 2018).
    Sacked,
    /// Found lost.
    Lost,
    /// Found lost, and the caller has been asked to bring it.
    Asked,
}

/// A range of the send stream that was sent and is not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) start: u64,
    /// When the last byte of it left last.
    pub(crate) sent_at: Time,
    pub(crate) bytes: u32,
    /// So much earlier, in microseconds, the first of it left.
    spread_us: u32,
    pub(crate) state: State,
    pub(crate) retransmitted: bool,
}

const _: () = assert!(RANGES_MAX * size_of::<Flight>() <= 4096);

impl Flight {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }

    fn first_sent_at(&self) -> Time {
        self.sent_at.before_us(u64::from(self.spread_us))
    }

    /// Whether `next`, which follows, may be taken into this one. Times matter only while nothing has been heard.
    fn joins(&self, next: &Flight, spread_us_max: u64) -> bool {
        if self.state != next.state {
            return false;
        }
        self.state != State::Outstanding
            || self.retransmitted == next.retransmitted
                && self.latest(next).since_us(self.earliest(next)) <= spread_us_max
    }

    fn latest(&self, other: &Flight) -> Time {
        self.sent_at.max(other.sent_at)
    }

    fn earliest(&self, other: &Flight) -> Time {
        self.first_sent_at().min(other.first_sent_at())
    }

    fn join(&mut self, next: &Flight) {
        let (latest, earliest) = (self.latest(next), self.earliest(next));
        self.bytes += next.bytes;
        self.sent_at = latest;
        self.spread_us = u32::try_from(latest.since_us(earliest)).unwrap_or(u32::MAX);
        self.retransmitted |= next.retransmitted;
    }
}

/// A part of a range that the peer turns out to have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    /// When it left last; if that is not known exactly, the earliest it can have been.
    pub(crate) sent_at: Time,
    pub(crate) retransmitted: bool,
    /// It had been given up: the ACK, or one before it, has come late or been lost, and says little about the round trip.
    pub(crate) found_lost: bool,
}

/// The bookkeeping of all that is in flight.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    flights: VecDeque<Flight>,
    outstanding_bytes: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    asked_bytes: u64,
    /// Ranges that left within so many microseconds are one.
    spread_us_max: u64,
    /// Times that the bound on ranges made it forget what was SACKed.
    forgotten: u64,
    /// What the peer has will be sent again: duplicates that it reports prove nothing.
    coarse: bool,
}

impl Scoreboard {
    /// How far apart two sendings may be to be remembered as one.
    pub(crate) fn set_spread_us_max(&mut self, us: u64) {
        self.spread_us_max = us;
    }

    /// Sent, and neither acknowledged, SACKed nor found lost.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Found lost and not asked for yet.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Found lost and asked for.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Whether something has to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_bytes + self.asked_bytes > 0
    }

    pub(crate) fn ranges(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.flights.capacity() * size_of::<Flight>()
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    /// Whether, since this was asked last, something was counted as lost that the peer has.
    pub(crate) fn take_coarse(&mut self) -> bool {
        std::mem::take(&mut self.coarse)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter()
    }

    fn sum_of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Outstanding => &mut self.outstanding_bytes,
            State::Sacked => &mut self.sacked_bytes,
            State::Lost => &mut self.lost_bytes,
            State::Asked => &mut self.asked_bytes,
        }
    }

    /// New bytes have left. They follow what was sent before.
    pub(crate) fn sent(&mut self, range: Range<u64>, now: Time) {
        debug_assert!(self.flights.back().is_none_or(|last| last.end() == range.start));
        let flight = Flight {
            start: range.start,
            sent_at: now,
            bytes: (range.end - range.start) as u32,
            spread_us: 0,
            state: State::Outstanding,
            retransmitted: false,
        };
        self.outstanding_bytes += u64::from(flight.bytes);
        let spread_us_max = self.spread_us_max;
        match self.flights.back_mut() {
            Some(last) if last.joins(&flight, spread_us_max) => last.join(&flight),
            _ => {
                self.make_room(1);
                self.flights.push_back(flight);
            }
        }
    }

    /// The peer has all below `below`. Each piece that this is news for is shown to `visit`.
    pub(crate) fn acknowledge(&mut self, below: u64, mut visit: impl FnMut(Piece)) {
        while let Some(first) = self.flights.front_mut() {
            if first.start >= below {
                break;
            }
            let whole = first.end() <= below;
            let bytes = if whole { first.bytes } else { (below - first.start) as u32 };
            let flight = *first;
            if whole {
                self.flights.pop_front();
            } else {
                first.start += u64::from(bytes);
                first.bytes -= bytes;
            }
            *self.sum_of(flight.state) -= u64::from(bytes);
            if flight.state != State::Sacked {
                visit(Piece {
                    end: flight.start + u64::from(bytes),
                    bytes: u64::from(bytes),
                    sent_at: if whole { flight.sent_at } else { flight.first_sent_at() },
                    retransmitted: flight.retransmitted,
                    found_lost: flight.state != State::Outstanding,
                });
            }
        }
    }

    /// The peer has `range`, though not all before it. False: disregarded, since there are too many ranges already.
    pub(crate) fn sack(&mut self, range: Range<u64>, mut visit: impl FnMut(Piece)) -> bool {
        if self.flights.len() + 2 > RANGES_MAX_BY_SACK {
            self.join_neighbours(COARSE_SPREAD * self.spread_us_max);
            if self.flights.len() + 2 > RANGES_MAX_BY_SACK {
                self.coarse = true;
                return false;
            }
        }
        let mut changed = false;
        for index in self.carve(range) {
            let flight = self.flights[index];
            if flight.state == State::Sacked {
                continue;
            }
            changed = true;
            self.change(index, State::Sacked);
            visit(Piece {
                end: flight.end(),
                bytes: u64::from(flight.bytes),
                sent_at: flight.first_sent_at(),
                retransmitted: flight.retransmitted,
                found_lost: flight.state != State::Outstanding,
            });
        }
        if changed {
            self.tidy();
        }
        true
    }

    /// Marks as lost what is outstanding and of which `is_lost` says so; returns how many bytes.
    pub(crate) fn mark_lost(&mut self, mut is_lost: impl FnMut(&Flight) -> bool) -> u64 {
        let before = self.outstanding_bytes;
        for index in 0..self.flights.len() {
            if self.flights[index].state == State::Outstanding && is_lost(&self.flights[index]) {
                self.change(index, State::Lost);
            }
        }
        let lost = before - self.outstanding_bytes;
        if lost > 0 {
            self.tidy();
            self.coarsen();
        }
        lost
    }

    /// A queue that overflows drops every other packet, and there is no room to remember each hole. What the peer has between two lost ranges,
    /// if it is no more than these, is sent again with them: twice as much at most, and fewer, larger reads for the caller.
    fn coarsen(&mut self) {
        if self.flights.len() <= RANGES_BEFORE_COARSE {
            return;
        }
        for index in 1..self.flights.len() - 1 {
            let [before, gap, after] = [index - 1, index, index + 1].map(|at| self.flights[at]);
            let between = gap.state == State::Sacked
                && (before.state, after.state) == (State::Lost, State::Lost);
            if between && gap.bytes <= before.bytes + after.bytes {
                self.change(index, State::Lost);
                self.coarse = true;
                // It was delivered once, long before it will be acknowledged.
                self.flights[index].retransmitted = true;
            }
        }
        self.tidy();
    }

    /// Marks the outstanding part of `range` as lost; returns how many bytes.
    pub(crate) fn mark_range_lost(&mut self, range: Range<u64>) -> u64 {
        let before = self.outstanding_bytes;
        self.make_room(2);
        for index in self.carve(range) {
            if self.flights[index].state == State::Outstanding {
                self.change(index, State::Lost);
            }
        }
        self.tidy();
        before - self.outstanding_bytes
    }

    /// A peer that went back on its SACKs (RFC 2018 section 8): what it has once said to have counts as lost.
    pub(crate) fn renege(&mut self) {
        for index in 0..self.flights.len() {
            if self.flights[index].state == State::Sacked {
                self.change(index, State::Lost);
            }
        }
        self.tidy();
    }

    /// Nothing had been lost after all: what was found so is outstanding again.
    pub(crate) fn unmark_lost(&mut self) {
        for index in 0..self.flights.len() {
            if matches!(self.flights[index].state, State::Lost | State::Asked) {
                self.change(index, State::Outstanding);
            }
        }
        self.tidy();
    }

    /// Whether the peer has SACKed the very next byte that it waits for: a contradiction.
    pub(crate) fn first_is_sacked(&self) -> bool {
        self.flights.front().is_some_and(|first| first.state == State::Sacked)
    }

    /// The first lost bytes below `below`, at most `bytes_max`, which from now on count as asked for.
    pub(crate) fn ask(&mut self, bytes_max: u64, below: u64) -> Option<Range<u64>> {
        if self.lost_bytes == 0 {
            return None;
        }
        self.make_room(1);
        let lost = self.flights.iter().find(|flight| flight.state == State::Lost)?;
        let range = lost.start..lost.end().min(below).min(lost.start.saturating_add(bytes_max));
        if range.is_empty() {
            return None;
        }
        for index in self.carve(range.clone()) {
            self.change(index, State::Asked);
        }
        self.tidy();
        Some(range)
    }

    /// What was asked for in `range` will not be brought: it may be asked for again.
    pub(crate) fn decline(&mut self, range: Range<u64>) {
        if self.asked_bytes == 0 {
            return;
        }
        self.make_room(2);
        for index in self.carve(range) {
            if self.flights[index].state == State::Asked {
                self.change(index, State::Lost);
            }
        }
        self.tidy();
    }

    /// The first lost bytes within `range`, asked for or not.
    pub(crate) fn lost_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if !self.has_lost() {
            return None;
        }
        let first = self.flights.partition_point(|flight| flight.end() <= range.start);
        let flight = self.flights.iter().skip(first).find(|flight| {
            flight.start >= range.end || matches!(flight.state, State::Lost | State::Asked)
        })?;
        let overlap = flight.start.max(range.start)..flight.end().min(range.end);
        (!overlap.is_empty()).then_some(overlap)
    }

    fn first_lost_flight(&self) -> Option<&Flight> {
        self.flights.iter().find(|flight| matches!(flight.state, State::Lost | State::Asked))
    }

    /// Where the first lost bytes begin, asked for or not.
    pub(crate) fn first_lost(&self) -> Option<u64> {
        self.first_lost_flight().map(|flight| flight.start)
    }

    /// Whether these have not been asked for.
    pub(crate) fn first_lost_is_unasked(&self) -> bool {
        self.first_lost_flight().is_some_and(|flight| flight.state == State::Lost)
    }

    /// Bytes that were sent before have left again.
    pub(crate) fn resent(&mut self, range: Range<u64>, now: Time) {
        self.make_room(2);
        for index in self.carve(range) {
            self.change(index, State::Outstanding);
            let flight = &mut self.flights[index];
            (flight.sent_at, flight.spread_us, flight.retransmitted) = (now, 0, true);
        }
        self.tidy();
    }

    /// The last outstanding bytes, at most `bytes_max`.
    pub(crate) fn tail(&self, bytes_max: u64) -> Option<Range<u64>> {
        let last = self.flights.iter().rev().find(|flight| flight.state == State::Outstanding)?;
        Some(last.start.max(last.end().saturating_sub(bytes_max))..last.end())
    }

    /// Whether `range` is outstanding to its last byte.
    pub(crate) fn is_outstanding(&self, range: &Range<u64>) -> bool {
        self.flights.iter().any(|flight| {
            flight.state == State::Outstanding
                && flight.start <= range.start
                && range.end <= flight.end()
        })
    }

    fn change(&mut self, index: usize, state: State) {
        let flight = &mut self.flights[index];
        let (before, bytes) = (flight.state, u64::from(flight.bytes));
        flight.state = state;
        *self.sum_of(before) -= bytes;
        *self.sum_of(state) += bytes;
    }

    /// The indices of the ranges that make up `range`, which are split at its ends where needed: at most two more than before.
    fn carve(&mut self, range: Range<u64>) -> Range<usize> {
        let first = self.boundary(range.start);
        first..self.boundary(range.end).max(first)
    }

    /// The index of the first range that starts at `offset` or later, after splitting the one that spans it.
    fn boundary(&mut self, offset: u64) -> usize {
        let index = self.flights.partition_point(|flight| flight.end() <= offset);
        match self.flights.get_mut(index) {
            Some(flight) if flight.start < offset => {
                let mut rest = *flight;
                flight.bytes = (offset - flight.start) as u32;
                rest.bytes -= flight.bytes;
                rest.start = offset;
                self.flights.insert(index + 1, rest);
                index + 1
            }
            _ => index,
        }
    }

    fn tidy(&mut self) {
        self.join_neighbours(self.spread_us_max);
    }

    fn join_neighbours(&mut self, spread_us_max: u64) {
        let flights = self.flights.make_contiguous();
        let mut kept = 0;
        for index in 1..flights.len() {
            let next = flights[index];
            if flights[kept].joins(&next, spread_us_max) {
                flights[kept].join(&next);
            } else {
                kept += 1;
                flights[kept] = next;
            }
        }
        self.flights.truncate(kept + 1);
    }

    /// Sees to it that so many ranges can be added. Exact times go first; if that is not enough, all that is in flight becomes one lost range:
    /// the peer gets bytes twice, but nothing grows.
    fn make_room(&mut self, ranges: usize) {
        if self.flights.len() + ranges <= RANGES_MAX {
            return;
        }
        self.join_neighbours(COARSE_SPREAD * self.spread_us_max);
        if self.flights.len() + ranges <= RANGES_MAX {
            return;
        }
        self.forgotten += 1;
        for index in 0..self.flights.len() {
            self.change(index, State::Lost);
        }
        self.tidy();
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
