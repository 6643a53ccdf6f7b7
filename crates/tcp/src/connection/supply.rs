//! What the caller is asked to bring, and how what it has brought leaves.

use std::ops::Range;

use super::state::{FirstRetransmission, Probe};
use super::{Connection, Context};
use crate::header::Flags;
use crate::{Config, Ecn, Transmit, Want, Withheld};

/// An IP packet is 65,535 bytes at most; so much is left beside the longest headers.
const PAYLOAD_BYTES_MAX: u64 = 65_535 - 120;

impl Connection {
    /// What the congestion window leaves.
    fn room(&self) -> u64 {
        self.congestion.cwnd().saturating_sub(self.in_flight())
    }

    /// What the peer's window leaves.
    fn usable_window(&self) -> u64 {
        self.window.right.saturating_sub(self.sent_below)
    }

    /// The most that one [`Transmit`] carries, in whole segments.
    fn transmit_bytes_max(&self, config: &Config) -> u64 {
        let most = u64::from(config.tso_bytes_max).min(PAYLOAD_BYTES_MAX);
        let whole = most / self.segment_bytes * self.segment_bytes;
        self.pacer.quantum_bytes(self.segment_bytes, whole.max(self.segment_bytes))
    }

    /// What is worth leaving at once: as much as a device takes, but not more than a quarter of the window, so that ACKs come often enough.
    /// In recovery every segment counts.
    fn goal_bytes(&self, config: &Config) -> u64 {
        if self.congestion.is_recovering() || self.board.has_lost() {
            return self.segment_bytes;
        }
        let quarter = self.congestion.cwnd() / 8 / self.segment_bytes * self.segment_bytes;
        self.transmit_bytes_max(config).min(quarter).max(self.segment_bytes)
    }

    /// Less is not asked for while something is under way: each want may cost the caller a read from disk.
    pub(super) fn want_bytes_min(&self, config: &Config) -> u64 {
        let least = u64::from(config.want_bytes_min)
            .min(self.congestion.cwnd() / 8)
            .min(self.window.largest / 2)
            .min(self.transmit_bytes_max(config));
        // In whole segments, as what may leave is.
        (least / self.segment_bytes).max(1) * self.segment_bytes
    }

    /// Never less than a segment.
    fn want_bytes_max(&self, config: &Config) -> u64 {
        u64::from(config.want_bytes_max).max(self.segment_bytes)
    }

    fn has_unsent(&self) -> bool {
        self.written > self.sent_below
    }

    /// Whether it makes sense to ask for a want.
    pub(crate) fn may_want(&self) -> bool {
        self.is_open()
            && (self.board.lost_bytes() > 0
                || self.asked_below < self.written
                || self.declined.hole.is_some()
                || matches!(self.probe, Probe::Owed { asked: false, .. }))
    }

    /// RFC 5681 section 4.1: after silence the window is not what it was.
    fn wake(&mut self, cx: &Context<'_>) {
        if self.sent_below == self.acknowledged && self.idle_since.is_set() {
            self.congestion.idle(cx.now.since_us(self.idle_since), self.rtt.rto_us());
        }
    }

    /// The next range to bring: a probe, what was lost, then what is new.
    pub(crate) fn want(&mut self, cx: &mut Context<'_>) -> Option<Want> {
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

    /// New bytes below `below` leave, or are asked for, now.
    fn pace_new(&mut self, below: u64, cx: &Context<'_>) {
        let bytes = below.saturating_sub(self.paced_below.max(self.sent_below));
        self.pacer.sent(cx.now, bytes);
        self.paced_below = self.paced_below.max(below);
    }

    /// What may leave of new bytes up to `end` as far as pacing goes.
    fn paced_end(&self, end: u64, cx: &Context<'_>) -> u64 {
        if self.is_paced(cx) { end.min(self.paced_below.max(self.sent_below)) } else { end }
    }

    fn want_for_probe(&mut self) -> Option<Want> {
        let Probe::Owed { again, asked: asked @ false } = &mut self.probe else { return None };
        *asked = true;
        if let Some(range) = again {
            return Some(Want { range: range.clone(), retransmission: true });
        }
        if self.asked_below > self.sent_below {
            // The caller has it, or is bringing it.
            return None;
        }
        let end = (self.asked_below + self.segment_bytes).min(self.written);
        let range = std::mem::replace(&mut self.asked_below, end)..end;
        (!range.is_empty()).then_some(Want { range, retransmission: false })
    }

    /// RFC 6675 section 5 (C) and NextSeg(): lost bytes go first. A little more than may leave now is asked for, since reading a few bytes
    /// costs as much as reading many.
    fn want_again(&mut self, cx: &mut Context<'_>) -> Option<Want> {
        let config = cx.config;
        let first = self.board.first_lost_is_unasked();
        let (ahead, reserve) = match self.declined.again {
            false => (u64::from(config.read_ahead_bytes.max(config.want_bytes_min)), 0),
            // The caller does not wait: only what may leave now, beside the first.
            true => (0, if first { 0 } else { self.segment_bytes }),
        };
        let held = self.board.asked_bytes() + reserve;
        let budget =
            (self.room_again() + ahead).saturating_sub(held).min(self.want_bytes_max(config));
        // The very first is asked for whatever else is: everything waits for it.
        if budget < self.segment_bytes && held > 0 && !first {
            return None;
        }
        let range = self.board.ask(budget.max(self.segment_bytes), self.written);
        cx.statistics.ranges_forgotten += self.board.take_forgotten();
        let range = range?;
        self.pacer.sent(cx.now, range.end - range.start);
        Some(Want { range, retransmission: true })
    }

    /// What was declined although later bytes were not.
    fn want_hole(&mut self, config: &Config) -> Option<Want> {
        let hole = self.declined.hole.take()?;
        let range = hole.start.max(self.sent_below)..hole.end.min(self.asked_below);
        if range.is_empty() {
            return None;
        }
        let end = range.end.min(range.start + self.want_bytes_max(config));
        if end < range.end {
            self.declined.hole = Some(end..range.end);
        }
        Some(Want { range: range.start..end, retransmission: false })
    }

    fn want_new(&mut self, config: &Config) -> Option<Want> {
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
        let ahead = self.ask_below(config).min(self.written);
        let end = if ahead == self.written || idle && ahead - from < self.segment_bytes {
            ahead
        } else {
            // In whole segments from what is sent next, so that nothing short is left over.
            ahead - ahead.saturating_sub(self.sent_below) % self.segment_bytes
        };
        let bytes = end.saturating_sub(from);
        if bytes == 0 || bytes < self.want_bytes_min(config) && end < self.written && !idle {
            return None;
        }
        let at_once =
            if self.pacer.rate().is_some() { self.transmit_bytes_max(config) } else { u64::MAX };
        let end = from + bytes.min(self.want_bytes_max(config)).min(at_once);
        self.asked_below = end;
        Some(Want { range: from..end, retransmission: false })
    }

    /// How far the stream may be asked for: what may leave now, in a few sendings, and what is to be read ahead.
    fn ask_below(&self, config: &Config) -> u64 {
        let burst = self.want_bytes_max(config).max(4 * self.transmit_bytes_max(config));
        // What was lost has a claim on the room.
        let room = self.room().saturating_sub(self.board.asked_bytes());
        let now = room.min(self.usable_window()).min(burst);
        (self.sent_below + now + u64::from(config.read_ahead_bytes)).max(self.asked_below)
    }

    /// What was asked for will not be brought now. It is asked for again when it may leave, so that a caller who lets go of what has to
    /// wait does not read it again and again.
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
            // One hole is remembered. A second one makes it span both: what lies between comes again.
            let hole = self.declined.hole.clone().unwrap_or(new.clone());
            self.declined.hole = Some(hole.start.min(new.start)..hole.end.max(new.end));
        }
        if let Probe::Owed { asked, .. } = &mut self.probe {
            *asked = false;
        }
    }

    /// The caller has `in_hand` of the stream: what of it leaves now.
    pub(crate) fn transmit(
        &mut self,
        in_hand: Range<u64>,
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Withheld> {
        if !self.is_open() {
            return Err(Withheld::Gone);
        }
        self.wake(cx);
        let in_hand = in_hand.start..in_hand.end.min(self.written);
        if let Some(transmit) = self.transmit_probe(&in_hand, cx) {
            return Ok(transmit);
        }
        if let Some(lost) = self.board.lost_within(&in_hand) {
            return self.transmit_again(lost, cx);
        }
        if in_hand.end <= self.sent_below {
            return Err(Withheld::NotNeeded);
        }
        if in_hand.start > self.sent_below {
            return Err(Withheld::OutOfOrder);
        }
        self.transmit_new(self.sent_below..in_hand.end, cx)
    }

    /// RFC 8985 section 7.3: a probe leaves whatever the congestion window says, one segment.
    fn transmit_probe(&mut self, in_hand: &Range<u64>, cx: &mut Context<'_>) -> Option<Transmit> {
        let Probe::Owed { again, .. } = &self.probe else { return None };
        let (range, again) = match again {
            Some(range) => (range.clone(), true),
            None => {
                let end =
                    in_hand.end.min(self.sent_below + self.segment_bytes).min(self.window.right);
                (self.sent_below..end.max(self.sent_below), false)
            }
        };
        if range.is_empty() || range.start < in_hand.start || range.end > in_hand.end {
            return None;
        }
        if again && !self.board.is_outstanding(&range) {
            self.probe = Probe::None;
            return None;
        }
        cx.statistics.tail_probes += 1;
        let transmit = if again { self.resend(range, cx) } else { self.send(range, cx) };
        self.probe = Probe::Sent { end: self.sent_below, again };
        self.timers.probe = crate::clock::Time::NEVER;
        self.timers.retransmit = cx.now.after_us(self.rtt.rto_us());
        Some(transmit)
    }

    fn transmit_again(
        &mut self,
        lost: Range<u64>,
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Withheld> {
        let bytes = lost.end - lost.start;
        // RFC 6675 section 4, NextSeg(): the first goes first. Others may pass it only if there is room for it as well.
        let is_first = self.board.first_lost().is_none_or(|first| first >= lost.start);
        let reserve = if is_first { 0 } else { self.segment_bytes };
        let room = self.room_again().saturating_sub(reserve);
        if room < self.segment_bytes.min(bytes) {
            self.waiting.again |= is_first;
            self.waiting.later |= !is_first;
            return Err(Withheld::NotYet);
        }
        let most = room.min(self.transmit_bytes_max(cx.config));
        let bytes = whole_segments(bytes.min(most), bytes, self.segment_bytes);
        Ok(self.resend(lost.start..lost.start + bytes, cx))
    }

    /// Room for what is sent again: one segment if nothing at all is in flight.
    fn room_again(&self) -> u64 {
        let empty = self.board.outstanding_bytes() == 0;
        if empty { self.room().max(self.segment_bytes) } else { self.room() }
    }

    fn transmit_new(
        &mut self,
        range: Range<u64>,
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Withheld> {
        let range = range.start..self.paced_end(range.end, cx);
        let bytes = range.end - range.start;
        if self.pace_withholds(range.end, cx)
            || self.congestion_withholds(bytes, cx.config)
            || self.window_withholds(bytes)
        {
            self.waiting.new = true;
            return Err(self.not_yet(cx));
        }
        let empty = self.board.outstanding_bytes() == 0;
        let short = bytes < self.segment_bytes && range.end < self.written;
        if short && !empty && !cx.config.short_segments {
            self.waiting.few = true;
            return Err(Withheld::TooFew);
        }
        let most = self.room().min(self.usable_window()).min(self.transmit_bytes_max(cx.config));
        let goes_on = range.end < self.written && !cx.config.short_segments;
        let worth = if goes_on { u64::MAX } else { bytes };
        let bytes = whole_segments(bytes.min(most), worth, self.segment_bytes);
        Ok(self.send(range.start..range.start + bytes, cx))
    }

    /// Pacing has not accounted for a segment before `end`. What was asked for it has.
    fn pace_withholds(&self, end: u64, cx: &Context<'_>) -> bool {
        let bytes = end.saturating_sub(self.sent_below);
        self.is_paced(cx)
            && end == self.paced_end(u64::MAX, cx)
            && bytes < self.segment_bytes
            && end < self.written
    }

    /// The congestion window has no room that is worth a sending.
    fn congestion_withholds(&self, bytes: u64, config: &Config) -> bool {
        let empty = self.board.outstanding_bytes() == 0;
        let worth = if empty { self.segment_bytes } else { self.goal_bytes(config) };
        self.room() < worth.min(bytes)
    }

    /// The peer's window has none. While something is in flight only whole segments are let out into what is left of it.
    fn window_withholds(&self, bytes: u64) -> bool {
        let usable = self.usable_window();
        let crumb = usable < self.segment_bytes.min(bytes);
        usable == 0
            || crumb
                && (self.window_is_shut()
                    || self.board.outstanding_bytes() > 0 && !self.crumbs_allowed)
    }

    fn is_paced(&self, cx: &Context<'_>) -> bool {
        !self.pacer.is_free(cx.now)
    }

    fn not_yet(&mut self, cx: &Context<'_>) -> Withheld {
        if self.is_paced(cx) {
            self.timers.pace = self.pacer.free_at();
        }
        Withheld::NotYet
    }

    /// The first lost range was sent, or is lost no more: who had to let it pass may try.
    pub(super) fn first_lost_may_have_changed(&mut self) {
        self.waiting.again |= std::mem::take(&mut self.waiting.later);
    }

    /// Whether a caller with lost bytes in hand would get some of them out, or be told that they are not needed.
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

    /// `range` leaves for the first time.
    fn send(&mut self, range: Range<u64>, cx: &mut Context<'_>) -> Transmit {
        if self.sent_below == self.acknowledged {
            self.progress_at = cx.now;
            self.delivery.since = cx.now;
            self.idle_since = crate::clock::Time::NEVER;
        }
        let fin = self.finishing && range.end == self.written;
        let end = range.end + u64::from(fin);
        self.pace_new(range.end, cx);
        self.board.sent(range.start..end, cx.now);
        self.sent_below = end;
        self.asked_below = self.asked_below.max(range.end);
        if fin {
            self.note_fin_sent();
        }
        self.congestion.sent(end - range.start);
        self.set_loss_timers(false, cx);
        let mut flags = Flags::ACK.with_if(fin, Flags::FIN);
        flags = flags.with_if(range.end == self.written, Flags::PSH);
        flags = flags.with_if(std::mem::take(&mut self.cwr_owed), Flags::CWR);
        // RFC 3168 section 6.1.5: only new data may be marked on its way.
        let ecn = if self.agreed.ecn { Ecn::Ect0 } else { Ecn::NotCapable };
        self.payload_segment(range, flags, ecn, cx)
    }

    /// `range` leaves again.
    fn resend(&mut self, range: Range<u64>, cx: &mut Context<'_>) -> Transmit {
        let fin = self.fin_sent() && range.end == self.written;
        let end = range.end + u64::from(fin);
        let bytes = range.end - range.start;
        self.board.resent(range.start..end, cx.now);
        cx.statistics.ranges_forgotten += self.board.take_forgotten();
        self.first_lost_may_have_changed();
        self.note_resent(bytes, cx);
        if range.start == self.acknowledged {
            // RFC 6298 section 5.5 in spirit: the clock of the first segment starts anew.
            self.timers.retransmit = cx.now.after_us(self.rtt.rto_us());
        }
        self.congestion.sent(bytes);
        self.set_loss_timers(false, cx);
        let flags =
            Flags::ACK.with_if(fin, Flags::FIN).with_if(range.end == self.written, Flags::PSH);
        self.payload_segment(range, flags, Ecn::NotCapable, cx)
    }

    fn note_resent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        self.retransmitted_bytes += bytes;
        cx.statistics.retransmitted_bytes += bytes;
        if self.congestion.is_recovering() {
            self.undo_bytes = Some(self.undo_bytes.unwrap_or(0) + bytes);
            if self.first_retransmission == FirstRetransmission::None {
                self.first_retransmission = FirstRetransmission::At(self.stamps.at(cx.now));
            }
        }
    }

    pub(super) fn note_fin_sent(&mut self) {
        self.closed_first = !self.receive.is_finished();
    }

    fn payload_segment(
        &mut self,
        payload: Range<u64>,
        flags: Flags,
        ecn: Ecn,
        cx: &mut Context<'_>,
    ) -> Transmit {
        cx.statistics.payload_bytes_sent += payload.end - payload.start;
        let header = self.header(payload.start, flags, false, cx);
        Transmit {
            remote: self.pair.remote,
            local: self.pair.local,
            ecn,
            header,
            payload,
            segment_bytes: self.segment_bytes as u16,
        }
    }

    /// Whether new bytes wait to be brought or sent.
    pub(super) fn probe_with_new_data(&self) -> bool {
        self.has_unsent() && self.usable_window() > 0
    }
}

/// `bytes`, cut down to whole segments unless it is all that is there (`all`) or less than one.
fn whole_segments(bytes: u64, all: u64, segment_bytes: u64) -> u64 {
    if bytes == all || bytes < segment_bytes {
        bytes
    } else {
        bytes / segment_bytes * segment_bytes
    }
}
