//! A range of the send stream in flight, and when two of them may be joined.

use std::ops::Range;

use crate::clock::Time;

/// The state of the bytes of a range that the peer does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Sent, and nothing reported: the pipe of RFC 6675.
    Outstanding,
    /// Detected as lost.
    Lost,
    /// Detected as lost, and requested from the caller.
    Asked,
}

/// A range of the send stream that was sent and is not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) start: u64,
    /// When its last byte was last sent.
    pub(crate) sent_at: Time,
    pub(crate) bytes: u32,
    /// How many of its bytes the peer has reported by SACK.
    pub(super) sacked_bytes: u32,
    /// How much earlier, in microseconds, its first byte was sent.
    pub(super) spread_us: u32,
    pub(crate) state: State,
    pub(crate) retransmitted: bool,
}

impl Flight {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end()
    }

    /// Bytes that the peer is not known to have: the state is about these.
    pub(super) fn missing_bytes(&self) -> u64 {
        u64::from(self.bytes - self.sacked_bytes)
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost | State::Asked)
    }

    pub(super) fn first_sent_at(&self) -> Time {
        self.sent_at.before_us(u64::from(self.spread_us))
    }

    /// Returns true if `next`, which follows, may be joined with this one. Times matter only while nothing was reported, and nothing matters if the
    /// peer has all of it.
    pub(super) fn joins(&self, next: &Flight, spread_us_max: u64) -> bool {
        if self.missing_bytes() == 0 || next.missing_bytes() == 0 {
            return true;
        }
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

    pub(super) fn join(&mut self, next: &Flight) {
        let known = match (self.missing_bytes(), next.missing_bytes()) {
            (0, _) => *next,
            (_, 0) => *self,
            _ => self.known_of_both(next),
        };
        *self = Flight {
            start: self.start,
            bytes: self.bytes + next.bytes,
            sacked_bytes: self.sacked_bytes + next.sacked_bytes,
            ..known
        };
    }

    fn known_of_both(&self, other: &Flight) -> Flight {
        let (latest, earliest) = (self.latest(other), self.earliest(other));
        Flight {
            sent_at: latest,
            spread_us: u32::try_from(latest.since_us(earliest)).unwrap_or(u32::MAX),
            retransmitted: self.retransmitted || other.retransmitted,
            ..*self
        }
    }
}
