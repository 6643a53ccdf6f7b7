//! Timers: the work that is due when nothing has arrived.

use super::state::{Probe, Stage};
use super::{Connection, Context};
use crate::CloseReason;
use crate::clock::Time;

/// SYNs of an active open: 1 + 2 + 4 + 8 + 16 seconds (RFC 9293 section 3.8.3 wants a way to give up).
const SYN_TRIES_MAX: u8 = 5;

impl Connection {
    /// Does the work that is due.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_some() || self.give_up(cx) {
            return;
        }
        let now = cx.now;
        let due = |timer: &mut Time| {
            let is_due = *timer <= now;
            if is_due {
                *timer = Time::NEVER;
            }
            is_due
        };
        if due(&mut self.timers.delayed_ack) {
            self.due.ack = true;
        }
        due(&mut self.timers.pace);
        if due(&mut self.timers.reorder) {
            self.look_for_losses(cx);
        }
        if due(&mut self.timers.probe) {
            self.probe_tail(cx);
            // RFC 8985 section 7.3: the probe comes first, and the timeout gets its full time after it.
            self.timers.retransmit = self.timers.retransmit.max(now.after_us(self.rtt.rto_us()));
        }
        if due(&mut self.timers.persist) {
            self.probe_window(cx);
        }
        if due(&mut self.timers.retransmit) {
            self.time_out(cx);
        }
        if self.keep_alive_at(cx.config) <= now {
            self.silent_probes += 1;
            self.due.probe = true;
            cx.statistics.keep_alive_probes += 1;
        }
    }

    /// Ends a connection whose time is up.
    fn give_up(&mut self, cx: &mut Context<'_>) -> bool {
        let silent = cx.config.keep_alive.is_some_and(|keep_alive| {
            self.silent_probes >= keep_alive.probes && self.keep_alive_at(cx.config) <= cx.now
        });
        if self.timers.fin_wait <= cx.now && self.is_closed() {
            self.end(CloseReason::Closed, cx);
        } else if self.timers.fin_wait <= cx.now {
            cx.statistics.never_finished += 1;
            self.end(CloseReason::NeverFinished, cx);
        } else if self.stall_at(cx.config) <= cx.now {
            cx.statistics.stalled += 1;
            self.end(CloseReason::Stalled, cx);
        } else if silent {
            cx.statistics.silent += 1;
            self.end(CloseReason::Silent, cx);
        }
        self.ended.is_some()
    }

    /// RACK's reordering timer (RFC 8985 section 6.3).
    fn look_for_losses(&mut self, cx: &mut Context<'_>) {
        let before = self.in_flight();
        let lost = self.find_losses(0, cx);
        if lost > 0 {
            let was_recovering = self.congestion.is_recovering();
            let entered = self.congestion.lost(lost, before, self.in_flight(), self.sent_below);
            self.note_recovery(was_recovering, entered, cx.statistics);
            self.update_pace();
        }
        self.set_loss_timers(false, cx);
    }

    /// RFC 8985 section 7.3: new data if there is some, else the last segment again.
    fn probe_tail(&mut self, cx: &mut Context<'_>) {
        if self.probe != Probe::None || self.board.outstanding_bytes() == 0 {
            return;
        }
        if self.probe_with_new_data() {
            self.probe = Probe::Owed { again: None, asked: false };
        } else if let Some(mut tail) = self.board.tail(self.segment_bytes) {
            // The caller cannot supply the FIN.
            tail.end = tail.end.min(self.written);
            if tail.is_empty() {
                cx.statistics.tail_probes += 1;
                self.due.fin_again = true;
                self.probe = Probe::Sent { end: self.sent_below, again: true };
            } else {
                self.probe = Probe::Owed { again: Some(tail), asked: false };
            }
        }
    }

    /// RFC 9293 section 3.8.6.1: requests the present window, and lets a small window be used once.
    fn probe_window(&mut self, cx: &mut Context<'_>) {
        if self.window.right > self.sent_below {
            self.crumbs_allowed = true;
            self.check_persist(cx);
            return;
        }
        cx.statistics.window_probes += 1;
        self.due.probe = true;
        self.persist_backoff += 1;
        let wait_us =
            (self.rtt.rto_us() << self.persist_backoff.min(16)).min(crate::rtt::RTO_US_MAX);
        self.timers.persist = cx.now.after_us(wait_us);
    }

    /// The retransmission timeout (RFC 6298 section 5.4 to 5.6).
    fn time_out(&mut self, cx: &mut Context<'_>) {
        if let Stage::SynSent { tries } = self.stage {
            return self.time_out_opening(tries, cx);
        }
        if !self.peer_owes() {
            return;
        }
        cx.statistics.timeouts += 1;
        self.timeouts += 1;
        if self.board.first_is_sacked() {
            cx.statistics.sack_reneged += 1;
            self.board.renege();
        }
        self.leave_black_hole(cx);
        let window_us = self.rack.window_us(&self.rtt, true, 0, self.segment_bytes);
        let (rack, first, now) = (&self.rack, self.acknowledged, cx.now);
        let lost =
            self.board.mark_lost(|flight| rack.lost_on_timeout(flight, first, now, window_us));
        self.congestion.timed_out(lost, self.acknowledged, self.sent_below);
        self.duplicate_acks = 0;
        self.probe = Probe::None;
        self.begin_undo();
        self.rtt.back_off();
        self.update_pace();
        self.set_loss_timers(true, cx);
    }

    fn time_out_opening(&mut self, tries: u8, cx: &mut Context<'_>) {
        if tries >= SYN_TRIES_MAX {
            return self.end(CloseReason::Unreachable, cx);
        }
        self.due.syn = true;
        self.rtt.back_off();
        self.timers.retransmit = cx.now.after_us(self.rtt.rto_us());
    }

    /// After every call: checks whether the peer's window blocks us, and whether a waiting caller may try again.
    pub(crate) fn settle(&mut self, cx: &Context<'_>) {
        if self.is_open() {
            self.check_persist(cx);
            self.check_sendable(cx);
        }
    }
}
