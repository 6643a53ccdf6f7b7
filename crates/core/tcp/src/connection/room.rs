//! Room: how much the windows and pacing leave, and how much of it is worth a send.

use super::state::Probe;
use super::{Connection, Context};
use crate::Config;
use crate::clock::Time;

/// Bytes that could have been sent for this long, but were not, are bytes that the caller does not have. Timers are served about every millisecond.
const LATE_US: u64 = 2_000;

impl Connection {
    /// The room in the congestion window.
    pub(super) fn room(&self) -> u64 {
        self.congestion.cwnd().saturating_sub(self.in_flight())
    }

    /// The room in the peer's window.
    pub(super) fn usable_window(&self) -> u64 {
        self.window.right.saturating_sub(self.sent_below)
    }

    /// The most that one [`Transmit`] carries, in whole segments.
    pub(super) fn transmit_bytes_max(&self, config: &Config) -> u64 {
        let most = u64::from(config.tso_bytes_max);
        let whole = most / self.segment_bytes * self.segment_bytes;
        self.pacer.quantum_bytes(self.segment_bytes, whole.max(self.segment_bytes))
    }

    /// The size that is worth sending at once: as much as a device takes, but not more than an eighth of the window, so that ACKs come often enough.
    /// In recovery every segment counts.
    pub(super) fn goal_bytes(&self, config: &Config) -> u64 {
        if self.congestion.is_recovering() || self.board.has_lost() {
            return self.segment_bytes;
        }
        let eighth = self.congestion.cwnd() / 8 / self.segment_bytes * self.segment_bytes;
        self.transmit_bytes_max(config).min(eighth).max(self.segment_bytes)
    }

    /// The smallest request while something is in flight: each want may cost the caller a read from disk.
    pub(super) fn want_bytes_min(&self, config: &Config) -> u64 {
        let least = u64::from(config.want_bytes_min)
            .min(self.congestion.cwnd() / 8)
            .min(self.window.largest / 2)
            .min(self.transmit_bytes_max(config));
        // In whole segments, like what may be sent.
        (least / self.segment_bytes).max(1) * self.segment_bytes
    }

    /// Records whether more may leave than there is: the caller has no more to send, or is still reading it.
    pub(super) fn note_spare(&mut self, cx: &Context<'_>) {
        if !self.congestion.measures_rate() {
            return;
        }
        let worth = self.want_bytes_min(cx.config) + self.segment_bytes;
        let is_spare =
            self.room() >= worth && self.usable_window() >= worth && !self.board.has_lost();
        if !is_spare {
            self.spare_since = Time::NEVER;
        } else if !self.spare_since.is_set() {
            self.spare_since = cx.now;
        }
    }

    /// Returns true if there was such room without data to fill it, or if the caller supplied nothing, although pacing allowed it, for longer than
    /// timers are late. A rate that the caller has set is the caller's limit too, and not the path's.
    pub(super) fn is_app_limited(&self, now: Time) -> bool {
        if !self.spare_since.is_set() || !self.has_unsent() {
            return self.spare_since.is_set();
        }
        let paced_until = if self.pacer.is_capped() { Time(0) } else { self.pacer.free_at() };
        let late_us = LATE_US.max(self.rtt.srtt_us() / 8);
        now.since_us(self.spare_since.max(paced_until)) > late_us
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.written > self.sent_below
    }

    /// Room for retransmissions: one segment if nothing at all is in flight.
    pub(super) fn room_again(&self) -> u64 {
        let empty = self.board.outstanding_bytes() == 0;
        if empty { self.room().max(self.segment_bytes) } else { self.room() }
    }

    /// Counts new bytes below `below`, which are sent or requested now.
    pub(super) fn pace_new(&mut self, below: u64, cx: &Context<'_>) {
        let bytes = below.saturating_sub(self.paced_below.max(self.sent_below));
        self.pacer.sent(cx.now, bytes);
        self.paced_below = self.paced_below.max(below);
    }

    /// The end of the new bytes, up to `end`, that pacing allows.
    pub(super) fn paced_end(&self, end: u64, cx: &Context<'_>) -> u64 {
        if self.is_paced(cx) { end.min(self.paced_below.max(self.sent_below)) } else { end }
    }

    /// Returns true if pacing has not yet counted a segment before `end`. Requested bytes are counted.
    pub(super) fn pace_withholds(&self, end: u64, cx: &Context<'_>) -> bool {
        let bytes = end.saturating_sub(self.sent_below);
        self.is_paced(cx)
            && end == self.paced_end(u64::MAX, cx)
            && bytes < self.segment_bytes
            && end < self.written
    }

    /// Returns true if the congestion window has no room that is worth a send.
    pub(super) fn congestion_withholds(&self, bytes: u64, config: &Config) -> bool {
        let empty = self.board.outstanding_bytes() == 0;
        let worth = if empty { self.segment_bytes } else { self.goal_bytes(config) };
        self.room() < worth.min(bytes)
    }

    /// Returns true if the peer's window has no such room. While something is in flight, only whole segments are sent into the rest of it.
    pub(super) fn window_withholds(&self, bytes: u64) -> bool {
        let usable = self.usable_window();
        let crumb = usable < self.segment_bytes.min(bytes);
        usable == 0
            || crumb
                && (self.window_is_shut()
                    || self.board.outstanding_bytes() > 0 && !self.crumbs_allowed)
    }

    pub(super) fn is_paced(&self, cx: &Context<'_>) -> bool {
        !self.pacer.is_free(cx.now)
    }

    /// Returns true if a caller with lost bytes in hand could send some of them, or would learn that they are not needed.
    pub(super) fn may_send_again(&self) -> bool {
        !self.board.has_lost() || self.room_again() >= self.segment_bytes
    }

    /// The same for new bytes.
    pub(super) fn may_send_new(&self, cx: &Context<'_>) -> bool {
        let bytes = self.written.saturating_sub(self.sent_below);
        if bytes == 0
            || matches!(self.probe, Probe::Owed { again: None, .. }) && self.usable_window() > 0
        {
            return true;
        }
        !self.pace_withholds(self.paced_end(self.written, cx), cx)
            && !self.congestion_withholds(bytes, cx.config)
            && !self.window_withholds(bytes)
    }

    /// Returns true if new bytes wait to be supplied or sent.
    pub(super) fn probe_with_new_data(&self) -> bool {
        self.has_unsent() && self.usable_window() > 0
    }
}
