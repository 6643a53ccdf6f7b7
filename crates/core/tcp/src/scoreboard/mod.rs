//! The bytes in flight: ranges of the send stream, each with its send time and state. This is all that a sender keeps.
//!
//! The ranges are adjacent, from the first unacknowledged byte to the last one sent. Neighbours that were sent at
//! nearly the same time are one range, however many segments they were. SACKs do not split ranges: `sacked.rs`
//! remembers them, segment by segment, and a range's state is that of its bytes that the peer does not have. So the
//! number of ranges depends on the different send times within a window, not on the number of holes. There are at most
//! [`RANGES_MAX`].
//!
//! Invariants:
//! * Ranges are ordered, not empty, and without gaps between them.
//! * The sums of bytes by state are those of the ranges.

mod flight;
mod lost;
mod sacked;

use std::collections::VecDeque;
use std::ops::Range;

pub(crate) use flight::Flight;
use flight::State;
pub(crate) use lost::Bounds;
use sacked::Sacked;

use crate::clock::Time;

/// 64 ranges of 32 bytes are 2 KiB: a quarter of what a connection may hold.
pub(crate) const RANGES_MAX: usize = 64;

const _: () = assert!(RANGES_MAX * size_of::<Flight>() <= 2048);

/// When room runs out, ranges are joined that were sent this many times further apart than usual. The coarser the times, the later a loss is
/// detected.
const COARSER: [u64; 4] = [2, 8, 64, u64::MAX];

/// A part of a range that an acknowledgement shows to have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    /// When it was last sent; if that is not known exactly, the earliest possible time.
    pub(crate) sent_at: Time,
    pub(crate) retransmitted: bool,
    /// The piece had been given up: the ACK, or an earlier one, was late or lost, and shows little about the round trip.
    pub(crate) found_lost: bool,
}

/// The bookkeeping of all that is in flight.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    flights: VecDeque<Flight>,
    sacked: Sacked,
    outstanding_bytes: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    asked_bytes: u64,
    /// Ranges that were sent within this many microseconds are joined.
    spread_us_max: u64,
    /// How often the limit on ranges made it give up everything in flight.
    forgotten: u64,
}

impl Scoreboard {
    /// Sets how far apart two sends may be to be remembered as one.
    pub(crate) fn set_spread_us_max(&mut self, us: u64) {
        self.spread_us_max = us;
    }

    /// Bytes sent, and neither acknowledged, reported by SACK, nor detected as lost.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Bytes detected as lost and not requested yet.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Bytes detected as lost and requested.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Returns true if bytes have to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_bytes + self.asked_bytes > 0
    }

    pub(crate) fn ranges(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.flights.capacity() * size_of::<Flight>() + self.sacked.memory_bytes()
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    fn sum_of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Outstanding => &mut self.outstanding_bytes,
            State::Lost => &mut self.lost_bytes,
            State::Asked => &mut self.asked_bytes,
        }
    }

    /// Records new bytes, sent in segments of `segment_bytes`. They follow the bytes sent before.
    pub(crate) fn sent(&mut self, range: Range<u64>, segment_bytes: u64, now: Time) {
        debug_assert!(self.flights.back().is_none_or(|last| last.end() == range.start));
        self.sacked.sent(range.clone(), segment_bytes);
        let flight = Flight {
            start: range.start,
            sent_at: now,
            bytes: (range.end - range.start) as u32,
            sacked_bytes: 0,
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

    /// Records that the peer has everything below `below`. Calls `visit` with each newly acknowledged piece.
    pub(crate) fn acknowledge(&mut self, below: u64, mut visit: impl FnMut(Piece)) {
        while let Some(flight) = self.flights.front().copied() {
            if flight.start >= below {
                break;
            }
            let whole = flight.end() <= below;
            let end = flight.end().min(below);
            let last_hole = self.sacked.holes(flight.start..end).last();
            let sacked_bytes = self.sacked.bytes_in(flight.start..end);
            let missing_bytes = end - flight.start - sacked_bytes;
            if whole {
                self.flights.pop_front();
            } else if let Some(first) = self.flights.front_mut() {
                first.start = end;
                first.bytes = (flight.end() - end) as u32;
                first.sacked_bytes -= sacked_bytes as u32;
            }
            *self.sum_of(flight.state) -= missing_bytes;
            self.sacked_bytes -= sacked_bytes;
            if let Some(last_hole) = last_hole {
                visit(Piece {
                    end: last_hole.end,
                    bytes: missing_bytes,
                    sent_at: if whole { flight.sent_at } else { flight.first_sent_at() },
                    retransmitted: flight.retransmitted,
                    found_lost: flight.is_lost(),
                });
            }
        }
        self.sacked.acknowledge(below);
    }

    /// Records that the peer has `range`, though not everything before it. Calls `visit` with the new pieces. False: the report is ignored, because
    /// it covers no whole segment that there is room to remember.
    pub(crate) fn sack(&mut self, range: Range<u64>, mut visit: impl FnMut(Piece)) -> bool {
        let range = self.sacked.whole_segments(range);
        if range.is_empty() {
            return false;
        }
        let first = self.flights.partition_point(|flight| flight.end() <= range.start);
        let mut news_bytes = 0;
        for index in first..self.flights.len() {
            let flight = self.flights[index];
            if flight.start >= range.end {
                break;
            }
            let within = flight.start.max(range.start)..flight.end().min(range.end);
            let mut bytes = 0;
            for hole in self.sacked.holes(within) {
                bytes += hole.end - hole.start;
                visit(Piece {
                    end: hole.end,
                    bytes: hole.end - hole.start,
                    sent_at: flight.first_sent_at(),
                    retransmitted: flight.retransmitted,
                    found_lost: flight.is_lost(),
                });
            }
            *self.sum_of(flight.state) -= bytes;
            self.flights[index].sacked_bytes += bytes as u32;
            news_bytes += bytes;
        }
        if news_bytes > 0 {
            self.sacked_bytes += news_bytes;
            self.sacked.set(range);
            self.tidy();
        }
        true
    }

    /// Returns true if the peer has all of `range`, which was sent.
    pub(crate) fn has_arrived(&self, range: &Range<u64>) -> bool {
        let unacknowledged = self.flights.front().map_or(range.end, |first| first.start);
        self.sacked.first_hole(range.start.max(unacknowledged)..range.end).is_none()
    }

    fn change(&mut self, index: usize, state: State) {
        let flight = &mut self.flights[index];
        let (before, bytes) = (flight.state, flight.missing_bytes());
        flight.state = state;
        *self.sum_of(before) -= bytes;
        *self.sum_of(state) += bytes;
    }

    /// The indices of the ranges that make up `range`. They are split at its ends if necessary: at most two more than
    /// before.
    fn carve(&mut self, range: Range<u64>) -> Range<usize> {
        let first = self.boundary(range.start);
        first..self.boundary(range.end).max(first)
    }

    /// The index of the first range that starts at `offset` or later, after splitting the range around `offset`.
    fn boundary(&mut self, offset: u64) -> usize {
        let index = self.flights.partition_point(|flight| flight.end() <= offset);
        match self.flights.get_mut(index) {
            Some(flight) if flight.start < offset => {
                let mut rest = Flight { start: offset, ..*flight };
                flight.bytes = (offset - flight.start) as u32;
                rest.bytes -= flight.bytes;
                rest.sacked_bytes = self.sacked.bytes_in(rest.range()) as u32;
                flight.sacked_bytes -= rest.sacked_bytes;
                self.flights.insert(index + 1, rest);
                index + 1
            }
            _ => index,
        }
    }

    /// Joins ranges that need not be kept apart.
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

    /// Makes room for this many more ranges. Exact times are given up first. If that is not enough, everything in
    /// flight becomes one lost range: the peer gets bytes twice, but nothing grows.
    fn make_room(&mut self, ranges: usize) {
        for times in COARSER {
            if self.flights.len() + ranges <= RANGES_MAX {
                return;
            }
            self.join_neighbours(self.spread_us_max.max(1).saturating_mul(times));
        }
        if self.flights.len() + ranges > RANGES_MAX {
            self.forgotten += 1;
            for index in 0..self.flights.len() {
                self.change(index, State::Lost);
            }
            self.tidy();
        }
    }
}

#[cfg(test)]
mod tests;
