//! Lost bytes: detected, requested, declined, sent again, or not lost after all.

use std::ops::Range;

use super::flight::{Flight, State};
use super::{RANGES_MAX, Scoreboard};
use crate::clock::Time;

/// Limits on how many lost bytes to request at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// At most this many lost bytes.
    pub(crate) lost_bytes: u64,
    /// Within at most this many bytes of the stream.
    pub(crate) span_bytes: u64,
    /// With at most this many bytes that the peer has between two lost ones.
    pub(crate) gap_bytes: u64,
    /// Below this offset.
    pub(crate) below: u64,
}

impl Scoreboard {
    /// Marks as lost the outstanding ranges for which `is_lost` is true. Returns how many bytes.
    pub(crate) fn mark_lost(&mut self, mut is_lost: impl FnMut(&Flight) -> bool) -> u64 {
        let before = self.outstanding_bytes;
        for index in 0..self.flights.len() {
            if self.flights[index].state == State::Outstanding && is_lost(&self.flights[index]) {
                self.change(index, State::Lost);
            }
        }
        self.tidy();
        before - self.outstanding_bytes
    }

    /// Splits a range that was sent at `sent_at` at `offset`, until ranges are joined next.
    pub(crate) fn split(&mut self, offset: u64, sent_at: Time) {
        let index = self.flights.partition_point(|flight| flight.end() <= offset);
        let spans = self.flights.get(index).is_some_and(|flight| {
            flight.start < offset && flight.sent_at == sent_at && flight.spread_us == 0
        });
        if spans && self.flights.len() < RANGES_MAX {
            self.boundary(offset);
        }
    }

    /// Marks the outstanding part of `range` as lost. Returns how many bytes.
    pub(crate) fn mark_range_lost(&mut self, range: Range<u64>) -> u64 {
        let before = self.outstanding_bytes;
        self.turn(range, State::Outstanding, State::Lost);
        before - self.outstanding_bytes
    }

    /// Changes the state of the bytes in state `from` within `range`.
    fn turn(&mut self, range: Range<u64>, from: State, to: State) {
        self.make_room(2);
        for index in self.carve(range) {
            if self.flights[index].state == from {
                self.change(index, to);
            }
        }
        self.tidy();
    }

    /// Handles a peer that has taken back its SACKs (RFC 2018 section 8): everything it reported counts as lost, along with the bytes sent at the
    /// same time.
    pub(crate) fn renege(&mut self) {
        self.sacked.forget();
        self.sacked_bytes = 0;
        for index in 0..self.flights.len() {
            let flight = &mut self.flights[index];
            let sacked_bytes = std::mem::take(&mut flight.sacked_bytes);
            let state = flight.state;
            *self.sum_of(state) += u64::from(sacked_bytes);
            if sacked_bytes > 0 {
                self.change(index, State::Lost);
            }
        }
        self.tidy();
    }

    /// Marks all lost bytes as outstanding again: nothing was lost after all.
    pub(crate) fn unmark_lost(&mut self) {
        for index in 0..self.flights.len() {
            self.change(index, State::Outstanding);
        }
        self.tidy();
    }

    /// Returns true if the peer has reported by SACK the very next byte that it waits for, which is a contradiction.
    pub(crate) fn first_is_sacked(&self) -> bool {
        self.flights.front().is_some_and(|first| {
            first.sacked_bytes > 0 && self.sacked.bytes_in(first.start..first.start + 1) > 0
        })
    }

    /// How many missing bytes at the very front were sent together.
    pub(crate) fn first_bytes(&self) -> u64 {
        let first = self.flights.front().and_then(|first| self.sacked.first_hole(first.range()));
        first.map_or(0, |hole| hole.end - hole.start)
    }

    /// Returns the first lost bytes and how many they are, and marks them as requested. The range may include bytes that the peer has: reading a few
    /// of those costs less than reading each hole separately.
    pub(crate) fn ask(&mut self, bounds: &Bounds) -> Option<(Range<u64>, u64)> {
        if self.lost_bytes == 0 {
            return None;
        }
        self.make_room(2);
        let range = self.first_to_ask(bounds)?;
        let before = self.lost_bytes;
        self.turn(range.clone(), State::Lost, State::Asked);
        Some((range, before - self.lost_bytes))
    }

    fn first_to_ask(&self, bounds: &Bounds) -> Option<Range<u64>> {
        let is_first = |flight: &&Flight| flight.state == State::Lost && flight.missing_bytes() > 0;
        let first = self.flights.iter().position(|flight| is_first(&flight))?;
        let goes_on = |flight: &&Flight| flight.state == State::Lost || flight.missing_bytes() == 0;
        let lost = self.flights.range(first..).take_while(goes_on);
        let holes = lost.flat_map(|flight| self.sacked.holes(flight.range()));
        let (mut range, mut left): (Option<Range<u64>>, _) = (None, bounds.lost_bytes);
        for hole in holes {
            let start = range.as_ref().map_or(hole.start, |range| range.start);
            let so_far = range.as_ref().map_or(hole.start, |range| range.end);
            let most = bounds.below.min(start.saturating_add(bounds.span_bytes));
            let end = hole.end.min(most).min(hole.start.saturating_add(left));
            if hole.start - so_far > bounds.gap_bytes || end <= hole.start {
                break;
            }
            left -= end - hole.start;
            range = Some(start..end);
        }
        range
    }

    /// Records that requested bytes in `range` will not be supplied: they may be requested again.
    pub(crate) fn decline(&mut self, range: Range<u64>) {
        if self.asked_bytes > 0 {
            self.turn(range, State::Asked, State::Lost);
        }
    }

    /// The first lost bytes within `range`, requested or not.
    pub(crate) fn lost_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if !self.has_lost() {
            return None;
        }
        let first = self.flights.partition_point(|flight| flight.end() <= range.start);
        let within = |flight: &Flight| flight.start.max(range.start)..flight.end().min(range.end);
        self.flights
            .range(first..)
            .take_while(|flight| flight.start < range.end)
            .filter(|flight| flight.is_lost())
            .find_map(|flight| self.sacked.first_hole(within(flight)))
    }

    fn first_lost_flight(&self) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.is_lost() && flight.missing_bytes() > 0)
    }

    /// The start of the first lost bytes, requested or not.
    pub(crate) fn first_lost(&self) -> Option<u64> {
        let hole = self.sacked.first_hole(self.first_lost_flight()?.range())?;
        Some(hole.start)
    }

    /// Returns true if the first lost bytes have not been requested.
    pub(crate) fn first_lost_is_unasked(&self) -> bool {
        self.first_lost_flight().is_some_and(|flight| flight.state == State::Lost)
    }

    /// Records that bytes were sent again.
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
        let is_tail =
            |flight: &&Flight| flight.state == State::Outstanding && flight.missing_bytes() > 0;
        let last = self.flights.iter().rev().find(is_tail)?;
        let hole = self.sacked.holes(last.range()).last()?;
        Some(hole.start.max(hole.end.saturating_sub(bytes_max))..hole.end)
    }

    /// Returns true if all of `range` is outstanding.
    pub(crate) fn is_outstanding(&self, range: &Range<u64>) -> bool {
        self.flights.iter().any(|flight| {
            flight.state == State::Outstanding
                && flight.start <= range.start
                && range.end <= flight.end()
                && self.sacked.bytes_in(range.clone()) == 0
        })
    }
}
