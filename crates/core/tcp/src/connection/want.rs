//! Chooses the bytes to request from the caller.

use std::ops::Range;

use super::state::Probe;
use super::{Connection, Context};
use crate::scoreboard::Bounds;
use crate::{ByteRequest, Config};

impl Connection {
    /// Returns true if requesting bytes makes sense.
    pub(crate) fn may_want(&self) -> bool {
        self.is_open()
            && (self.board.lost_bytes() > 0
                || self.asked_below < self.written
                || self.declined.has_holes()
                || matches!(self.probe, Probe::Owed { asked: false, .. }))
    }

    /// The next range to request: for a probe, then lost bytes, then new ones.
    pub(crate) fn want(&mut self, cx: &mut Context<'_>) -> Option<ByteRequest> {
        if !self.is_open() {
            return None;
        }
        self.wake(cx);
        if let Some(want) = self.want_for_probe() {
            return Some(want);
        }
        if self.is_paced(cx) {
            self.timers.pace = self.pacer.free_at();
            return None;
        }
        if self.board.lost_bytes() > 0 && (!self.declined.again || self.may_send_again()) {
            let want = self.want_again(cx);
            if want.is_some() || self.board.lost_bytes() > 0 {
                return want;
            }
        }
        if self.declined.new && !self.may_send_new(cx) {
            return None;
        }
        self.declined.new = false;
        let want = self.want_new(cx.config)?;
        self.pace_new(want.range.end, cx);
        Some(want)
    }

    fn want_for_probe(&mut self) -> Option<ByteRequest> {
        let Probe::Owed { again, asked: asked @ false } = &mut self.probe else { return None };
        *asked = true;
        if let Some(range) = again {
            return Some(ByteRequest { range: range.clone(), retransmission: true });
        }
        if self.asked_below > self.sent_below {
            // The caller has it, or is reading it.
            return None;
        }
        let end = (self.asked_below + self.segment_bytes).min(self.written);
        let range = std::mem::replace(&mut self.asked_below, end)..end;
        (!range.is_empty()).then_some(ByteRequest { range, retransmission: false })
    }

    /// RFC 6675 section 5 (C) and NextSeg(): lost bytes go first. Requests a little more than may be sent now, because reading a few bytes costs as
    /// much as reading many.
    fn want_again(&mut self, cx: &mut Context<'_>) -> Option<ByteRequest> {
        let config = cx.config;
        let first = self.board.first_lost_is_unasked();
        let (ahead, reserve) = match self.declined.again {
            false => (u64::from(config.want_bytes_min), 0),
            // The caller does not hold bytes that must wait: request only what may be sent now, and reserve a segment for the first.
            true => (0, if first { 0 } else { self.segment_bytes }),
        };
        let held = self.board.asked_bytes() + reserve;
        let budget =
            (self.room_again() + ahead).saturating_sub(held).min(self.want_bytes_max(config));
        // The very first bytes are requested regardless of other requests, because everything waits for them.
        if budget < self.segment_bytes && held > 0 && !first {
            return None;
        }
        let asked = self.board.ask(&Bounds {
            lost_bytes: budget.max(self.segment_bytes),
            span_bytes: self.want_bytes_max(config),
            gap_bytes: u64::from(config.want_bytes_min),
            below: self.written,
        });
        cx.statistics.ranges_forgotten += self.board.take_forgotten();
        let (range, lost_bytes) = asked?;
        self.pacer.sent(cx.now, lost_bytes);
        Some(ByteRequest { range, retransmission: true })
    }

    /// A range that was declined although later bytes were not: requested when it may be sent, and not before.
    fn want_hole(&mut self, config: &Config) -> Option<ByteRequest> {
        let within = self.sent_below..self.asked_below;
        let may_leave = self.room().min(self.usable_window()).max(1);
        let below = self.sent_below + may_leave;
        let range = self.declined.take_hole(&within, below, self.want_bytes_max(config))?;
        Some(ByteRequest { range, retransmission: false })
    }

    fn want_new(&mut self, config: &Config) -> Option<ByteRequest> {
        if let Some(want) = self.want_hole(config) {
            return Some(want);
        }
        let from = self.asked_below;
        if from >= self.written {
            return None;
        }
        let idle = self.board.outstanding_bytes() == 0 && from <= self.sent_below;
        if idle && self.window_is_shut() {
            return None;
        }
        let below = self.ask_below(config).min(self.written);
        let end = if below == self.written || idle && below - from < self.segment_bytes {
            below
        } else {
            // In whole segments from the next new byte, so that no short segment is left over.
            below - below.saturating_sub(self.sent_below) % self.segment_bytes
        };
        let bytes = end.saturating_sub(from);
        if bytes == 0 || bytes < self.want_bytes_min(config) && end < self.written && !idle {
            return None;
        }
        // With pacing a millisecond's worth, in as many sends as that takes.
        let at_once = match self.pacer.rate() {
            Some(_) => self.pacer.quantum_bytes(self.segment_bytes, self.want_bytes_max(config)),
            None => self.want_bytes_max(config),
        };
        let end = from + bytes.min(at_once);
        self.asked_below = end;
        Some(ByteRequest { range: from..end, retransmission: false })
    }

    /// The end of the bytes to request: those that may be sent now, in a few sends.
    fn ask_below(&self, config: &Config) -> u64 {
        let burst = self.want_bytes_max(config).max(4 * self.transmit_bytes_max(config));
        // Lost bytes have the first claim on the room.
        let room = self.room().saturating_sub(self.board.asked_bytes());
        let now = room.min(self.usable_window()).min(burst);
        (self.sent_below + now).max(self.asked_below)
    }

    /// Never less than a segment.
    fn want_bytes_max(&self, config: &Config) -> u64 {
        u64::from(config.want_bytes_max).max(self.segment_bytes)
    }

    /// Returns a request that the caller will not serve now. It is repeated when the bytes may be sent, so that a caller that drops bytes that have
    /// to wait does not read them again and again.
    pub(crate) fn decline(&mut self, range: Range<u64>, cx: &mut Context<'_>) {
        self.declined.again |= range.start < self.sent_below;
        self.declined.new |= range.end > self.sent_below;
        if self.is_paced(cx) {
            self.timers.pace = self.pacer.free_at();
        }
        self.board.decline(range.clone());
        cx.statistics.ranges_forgotten += self.board.take_forgotten();
        let new = range.start.max(self.sent_below)..range.end.min(self.asked_below);
        if new.end == self.asked_below {
            self.asked_below = new.start.min(new.end);
            self.pacer.take_back(self.paced_below.saturating_sub(self.asked_below));
            self.paced_below = self.paced_below.min(self.asked_below);
        } else if !new.is_empty() {
            self.declined.add_hole(new);
        }
        if let Probe::Owed { asked, .. } = &mut self.probe {
            *asked = false;
        }
    }
}
