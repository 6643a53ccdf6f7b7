//! Processes an acknowledgement: which bytes arrived, how long they took, which are lost, and the new window.

use super::reports::Delivered;
use super::state::{FirstRetransmission, Probe, Waiting};
use super::{Connection, Context};
use crate::clock::{Time, micros};
use crate::congestion::Acked;
use crate::header::{Flags, Incoming};
use crate::seq::timestamp_older;
use crate::{Config, Statistics};

/// RFC 8985 section 7.2: the ACK of a single segment may be delayed by this much; 200 ms is the longest delay in common
/// use.
const DELAYED_ACK_US_MAX: u64 = 200_000;

/// A peer that never offers a larger window gets small pieces only at the pace of the persist timer: each may cost the caller a read from disk.
const WORTH_BYTES_MIN: u64 = 536;

impl Connection {
    /// False: the segment is dropped.
    pub(super) fn take_acknowledgement(
        &mut self,
        segment: &Incoming<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let ack = segment.ack.offset_near(self.acknowledged, self.seq_of(self.acknowledged));
        if ack > self.sent_below as i64 {
            cx.statistics.ack_unsent += 1;
            self.challenge(cx);
            return false;
        }
        // RFC 5961 section 5.2.
        if ack < self.acknowledged as i64 - self.window.largest as i64 {
            cx.statistics.ack_ancient += 1;
            self.challenge(cx);
            return false;
        }
        if ack < self.acknowledged as i64 {
            return true;
        }
        let ack = ack as u64;
        let window_moved = self.take_window(ack, segment, cx.config);
        self.take_news(ack, segment, window_moved, cx);
        self.check_persist(cx);
        true
    }

    /// SND.WND (RFC 9293 section 3.10.7.4): only from a segment that is not older than the last one used. True: the
    /// window has changed.
    fn take_window(&mut self, ack: u64, segment: &Incoming<'_>, config: &Config) -> bool {
        let newer = segment.seq.ahead_of(self.window.seq);
        if newer < 0 || (newer == 0 && ack < self.window.ack) {
            return false;
        }
        let bytes = (u64::from(segment.window) << self.agreed.send_shift())
            .min(u64::from(config.window_bytes_max));
        let before = std::mem::replace(&mut self.window.right, ack + bytes);
        self.window.seq = segment.seq;
        self.window.ack = ack;
        self.window.largest = self.window.largest.max(bytes);
        before != self.window.right
    }

    fn take_news(
        &mut self,
        ack: u64,
        segment: &Incoming<'_>,
        window_moved: bool,
        cx: &mut Context<'_>,
    ) {
        let in_flight_before = self.in_flight();
        let app_limited = self.is_app_limited(cx.now);
        let advanced = ack - self.acknowledged;
        let delivered = self.collect(ack, segment, cx);
        if advanced > 0 {
            self.advance(ack, cx);
        }
        self.first_lost_may_have_changed();
        // Once lost bytes were declined, only as much is requested as may be sent, until all are repaired.
        self.declined.again &= self.board.has_lost();
        if delivered.bytes > 0 && matches!(self.probe, Probe::Owed { .. }) {
            // The answer came before the probe was sent.
            self.probe = Probe::None;
        }
        let rtt_us = self.measure(advanced, &delivered, segment, cx);
        self.count_duplicates(advanced, segment, window_moved);
        self.take_duplicate_report(&delivered, cx.statistics);
        self.check_for_spurious(advanced, segment, cx.statistics);
        let lost = self.find_losses(advanced, cx);
        self.end_probe(ack, &delivered, in_flight_before, cx.statistics);
        if lost == 0 {
            self.take_echo(segment, in_flight_before, cx.statistics);
        }
        let was_recovering = self.congestion.is_recovering();
        let entered = self.congestion.acked(&Acked {
            now: cx.now,
            acknowledged: self.acknowledged,
            sent_below: self.sent_below,
            advanced_bytes: advanced,
            delivered_bytes: self.delivered_bytes(advanced, &delivered),
            arrived_bytes: delivered.bytes,
            newest_sent_at: delivered.sent_at.max(delivered.resent_at),
            lost_bytes: lost,
            in_flight_before,
            in_flight: self.in_flight(),
            slack_bytes: self.want_bytes_min(cx.config) + self.segment_bytes,
            app_limited,
            rtt_us,
            acks: segment.acks,
            srtt_us: self.rtt.srtt_us(),
        });
        self.note_recovery(was_recovering, entered, cx.statistics);
        self.update_pace();
        self.note_spare(cx);
        let probe_was_set = self.timers.probe.is_set();
        self.set_loss_timers(advanced > 0, cx);
        if advanced == 0 && !probe_was_set {
            // RFC 8985 section 7.2: another probe needs progress, or the timeout would never come.
            self.timers.probe = Time::NEVER;
        }
    }

    /// Advances SND.UNA.
    fn advance(&mut self, ack: u64, cx: &Context<'_>) {
        let bytes = ack - self.acknowledged;
        self.acknowledged = ack;
        self.asked_below = self.asked_below.max(ack.min(self.written));
        // An ACK of only our FIN is no news for the writer of the stream.
        self.news.acknowledged |= ack - bytes < self.written;
        self.progress_at = cx.now;
        self.timeouts = 0;
        self.note_first(true);
        self.crumbs_allowed = false;
        self.rtt.forget_backoff();
        self.note_rate(bytes, cx.now);
        if self.acknowledged == self.sent_below {
            self.idle_since = cx.now;
        }
        if self.fin_acknowledged() && !self.receive.is_finished() && !self.timers.fin_wait.is_set()
        {
            self.timers.fin_wait = cx.now.after_us(micros(cx.config.fin_wait));
        }
    }

    fn note_rate(&mut self, bytes: u64, now: Time) {
        self.delivery.bytes += bytes;
        if self.acknowledged < self.delivery.round_end {
            return;
        }
        let elapsed_us = now.since_us(self.delivery.since).max(1);
        self.delivery.per_second =
            (u128::from(self.delivery.bytes) * 1_000_000 / u128::from(elapsed_us)) as u64;
        self.delivery.round_end = self.sent_below;
        (self.delivery.since, self.delivery.bytes) = (now, 0);
    }

    /// Measures the round-trip time: from bytes that were sent once (Karn, RFC 6298 section 3), else from the echoed timestamp (RFC 7323 section 4.1)
    /// if it is that of the last send. If the echo is older, an ACK was lost, and the delay of this one means nothing.
    fn measure(
        &mut self,
        advanced: u64,
        delivered: &Delivered,
        segment: &Incoming<'_>,
        cx: &Context<'_>,
    ) -> Option<u64> {
        let sent_at = match (delivered.sent_at, delivered.resent_at) {
            _ if delivered.given_up => None,
            (Some(sent_at), None) => Some(sent_at),
            (_, Some(resent_at)) if advanced > 0 => {
                self.answers(segment, resent_at).then_some(resent_at)
            }
            _ => None,
        }?;
        let rtt_us = cx.now.since_us(sent_at);
        self.take_rtt(cx.now, rtt_us, segment.acks);
        Some(rtt_us)
    }

    /// Returns true if the echoed timestamp is not older than the bytes sent at `sent_at`.
    fn answers(&self, segment: &Incoming<'_>, sent_at: Time) -> bool {
        let timestamps = segment.options.timestamps.filter(|_| self.agreed.timestamps);
        timestamps.is_some_and(|both| !timestamp_older(both.echo, self.stamps.at(sent_at)))
    }

    /// Without SACKs, duplicate ACKs show that something has arrived (RFC 5681 section 2).
    fn count_duplicates(&mut self, advanced: u64, segment: &Incoming<'_>, window_moved: bool) {
        if self.agreed.sack {
            return;
        }
        if advanced > 0 {
            let segments = advanced.div_ceil(self.segment_bytes);
            self.duplicate_acks = if self.congestion.is_recovering() {
                self.duplicate_acks.saturating_sub(segments)
            } else {
                0
            };
        } else if segment.payload.is_empty()
            && !window_moved
            && !segment.flags.has(Flags::FIN)
            && self.board.ranges() > 0
        {
            // An ACK can stand for one segment in flight, not for more.
            let most = self.board.outstanding_bytes() / self.segment_bytes;
            self.duplicate_acks = (self.duplicate_acks + 1).min(most);
        }
    }

    /// DeliveredData of RFC 6937 section 3.1: without SACKs a duplicate ACK counts as a segment.
    fn delivered_bytes(&self, advanced: u64, delivered: &Delivered) -> u64 {
        let is_duplicate = !self.agreed.sack && advanced == 0 && self.duplicate_acks > 0;
        if is_duplicate { self.segment_bytes } else { delivered.bytes }
    }

    fn take_duplicate_report(&mut self, delivered: &Delivered, statistics: &mut Statistics) {
        let Some(duplicate) = &delivered.duplicate else { return };
        statistics.dsack_received += 1;
        self.rack.duplicate_reported(self.acknowledged, self.sent_below);
        if let Some(left) = self.undo_bytes {
            let left = left.saturating_sub(duplicate.end - duplicate.start);
            self.undo_bytes = Some(left);
            if left == 0 {
                self.rack.loss_was_reordering();
                self.undo(statistics);
            }
        }
    }

    /// Eifel detection (RFC 3522 section 3.2): the first ACK after the retransmission answers the original.
    fn check_for_spurious(
        &mut self,
        advanced: u64,
        segment: &Incoming<'_>,
        statistics: &mut Statistics,
    ) {
        let FirstRetransmission::At { stamp: first, start } = self.first_retransmission else {
            return;
        };
        // Bytes retransmitted before this recovery began may be acknowledged first.
        if advanced == 0 || self.acknowledged <= start || !self.congestion.is_recovering() {
            return;
        }
        self.first_retransmission = FirstRetransmission::Answered;
        let Some(timestamps) = segment.options.timestamps.filter(|_| self.agreed.timestamps) else {
            return;
        };
        if timestamp_older(timestamps.echo, first) && timestamps.echo != 0 {
            self.undo(statistics);
        }
    }

    fn undo(&mut self, statistics: &mut Statistics) {
        self.undo_bytes = None;
        self.first_retransmission = FirstRetransmission::None;
        if self.congestion.undo() {
            statistics.recoveries_undone += 1;
            self.board.unmark_lost();
        }
    }

    /// Marks the lost bytes. Returns how many there are.
    pub(super) fn find_losses(&mut self, advanced: u64, cx: &mut Context<'_>) -> u64 {
        let lost = if self.agreed.sack {
            let recovering = self.congestion.is_recovering();
            let window_us = self.rack.window_us(
                &self.rtt,
                recovering,
                self.board.sacked_bytes(),
                self.segment_bytes,
            );
            let (lost, look_again) = self.rack.detect(&mut self.board, cx.now, window_us);
            self.timers.reorder = look_again;
            lost
        } else {
            self.find_losses_by_duplicates(advanced)
        };
        let lost = self.judge_larger(lost, cx);
        if lost > 0 {
            cx.statistics.losses += 1;
            if self.board.first_lost() == Some(self.acknowledged) {
                self.leave_black_hole(cx);
            }
        }
        lost
    }

    /// RFC 5681 section 3.2 and RFC 6582 section 3.2: after three duplicates, or a partial acknowledgement, the first
    /// segment is lost.
    fn find_losses_by_duplicates(&mut self, advanced: u64) -> u64 {
        let recovering = self.congestion.is_recovering();
        let third = !recovering && self.duplicate_acks == 3 && advanced == 0;
        let partial = recovering
            && advanced > 0
            && self.acknowledged < self.congestion.point()
            && !self.board.has_lost();
        if !third && !partial {
            return 0;
        }
        self.board.mark_range_lost(self.acknowledged..self.acknowledged + self.segment_bytes)
    }

    /// RFC 8985 section 7.4: checks whether a tail loss probe has repaired a loss that nothing else detected.
    fn end_probe(
        &mut self,
        ack: u64,
        delivered: &Delivered,
        in_flight_before: u64,
        statistics: &mut Statistics,
    ) {
        match self.probe {
            Probe::Sent { end, again } if ack >= end => {
                self.probe = Probe::None;
                let both_arrived = delivered.duplicate.is_some();
                // The original was lost only if an ACK beyond the probe's end comes without a duplicate report.
                if again && !both_arrived && ack > end && !self.congestion.is_recovering() {
                    let bytes = self.segment_bytes;
                    let entered = self.congestion.lost(
                        bytes,
                        in_flight_before,
                        self.in_flight(),
                        self.sent_below,
                    );
                    self.note_recovery(false, entered, statistics);
                }
            }
            Probe::Sent { again: true, .. } if delivered.duplicate.is_some() => {
                self.probe = Probe::None
            }
            _ => {}
        }
    }

    pub(super) fn note_recovery(
        &mut self,
        before: bool,
        entered: bool,
        statistics: &mut Statistics,
    ) {
        if entered {
            statistics.recoveries += 1;
            self.probe = Probe::None;
            self.begin_undo();
        } else if before && !self.congestion.is_recovering() {
            self.rack.recovered();
            self.undo_bytes = None;
            self.first_retransmission = FirstRetransmission::None;
            self.congestion.confirm();
            if !self.agreed.sack {
                self.duplicate_acks = 0;
            }
        }
    }

    /// Begins a recovery: retransmissions are counted from now on, to detect that they were all unnecessary.
    pub(super) fn begin_undo(&mut self) {
        self.undo_bytes = None;
        self.first_retransmission = FirstRetransmission::None;
    }

    /// RFC 3168 section 6.1.2: the peer echoes a mark. It counts like a loss, but not in addition to one.
    fn take_echo(
        &mut self,
        segment: &Incoming<'_>,
        in_flight_before: u64,
        statistics: &mut Statistics,
    ) {
        if self.agreed.ecn
            && segment.flags.has(Flags::ECE)
            && self.congestion.marked(in_flight_before, self.sent_below)
        {
            statistics.ecn_reductions += 1;
            self.cwr_owed = true;
        }
    }

    /// RFC 6298 section 5 and RFC 8985 section 7.2: sets the timer that applies now.
    pub(super) fn set_loss_timers(&mut self, restart: bool, cx: &Context<'_>) {
        if !self.peer_owes() {
            self.timers.retransmit = Time::NEVER;
            self.timers.probe = Time::NEVER;
            return;
        }
        if restart || !self.timers.retransmit.is_set() {
            self.timers.retransmit = cx.now.after_us(self.rtt.rto_us());
        }
        self.set_probe_timer(cx.now);
    }

    /// RFC 8985 section 7.2: TLP_calc_PTO(), if a probe can be useful.
    pub(super) fn set_probe_timer(&mut self, now: Time) {
        let useful = self.agreed.sack
            && self.probe == Probe::None
            && !self.congestion.is_recovering()
            && !self.board.has_lost()
            && self.board.sacked_bytes() == 0
            && self.board.outstanding_bytes() > 0
            && self.rtt.srtt_us() > 0;
        if !useful {
            self.timers.probe = Time::NEVER;
            return;
        }
        let alone = self.board.outstanding_bytes() <= self.segment_bytes;
        let wait_us = 2 * self.rtt.srtt_us() + if alone { DELAYED_ACK_US_MAX } else { 0 };
        let probe = now.after_us(wait_us);
        self.timers.probe = probe.min(self.timers.retransmit);
    }

    /// Checks whether only the peer's window keeps us from sending (RFC 9293 section 3.8.6.1).
    pub(super) fn check_persist(&mut self, cx: &Context<'_>) {
        let shut = self.is_open()
            && self.board.ranges() == 0
            && self.written > self.sent_below
            && self.window_is_shut();
        if !shut {
            self.timers.persist = Time::NEVER;
            self.persist_backoff = 0;
        } else if !self.timers.persist.is_set() {
            self.progress_at = cx.now;
            self.timers.persist = cx.now.after_us(self.rtt.rto_us());
        }
    }

    /// Returns true if the window leaves no bytes, or too few to be worth sending (SWS, RFC 9293 section 3.8.6.2.1): fewer than a segment, than what
    /// remains, and than half of the largest window. That half counts as at least [`WORTH_BYTES_MIN`].
    pub(super) fn window_is_shut(&self) -> bool {
        let usable = self.window.right.saturating_sub(self.sent_below);
        let remaining = self.written.saturating_sub(self.sent_below);
        let half = (self.window.largest / 2).max(WORTH_BYTES_MIN);
        let worth = self.segment_bytes.min(remaining).min(half);
        usable < worth && !(self.crumbs_allowed && usable > 0)
    }

    /// Notifies a waiting caller when another try is worth it. The conditions must be the same as in [`Connection::transmit`]. Otherwise caller and
    /// connection would send each other in circles.
    pub(super) fn check_sendable(&mut self, cx: &Context<'_>) {
        let Waiting { again, new, few, .. } = self.waiting;
        let worth = again && self.may_send_again()
            || new && self.may_send_new(cx)
            || few && self.board.outstanding_bytes() == 0;
        if worth {
            self.waiting = Waiting::default();
            self.news.sendable = true;
            self.timers.pace = Time::NEVER;
        }
    }
}
