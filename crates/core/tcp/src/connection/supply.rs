//! Sends the bytes that the caller supplies.

use std::ops::Range;

use super::state::{FirstRetransmission, Probe};
use super::{Connection, Context};
use crate::congestion::Sent;
use crate::header::Flags;
use crate::{Ecn, Transmit, Withheld};

impl Connection {
    /// RFC 5681 section 4.1: after silence the window shrinks.
    pub(super) fn wake(&mut self, cx: &Context<'_>) {
        if self.sent_below == self.acknowledged && self.idle_since.is_set() {
            let idle_us = cx.now.since_us(self.idle_since);
            self.congestion.idle(cx.now, idle_us, self.rtt.rto_us());
            if self.congestion.measures_rate() {
                self.update_pace();
            }
        }
    }

    /// The caller holds `in_hand` of the stream. Returns the part that is sent now.
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

    /// RFC 8985 section 7.3: a probe of one segment is sent whatever the congestion window says.
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
        let transmit =
            if again { self.resend(range, cx) } else { self.send(range, self.segment_bytes, cx) };
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
        if let Some(larger) = self.larger_segment(&range, cx) {
            self.note_larger(larger.clone(), cx);
            return Ok(self.send(larger.clone(), larger.end - larger.start, cx));
        }
        let most = self.room().min(self.usable_window()).min(self.transmit_bytes_max(cx.config));
        let goes_on = range.end < self.written && !cx.config.short_segments;
        let worth = if goes_on { u64::MAX } else { bytes };
        let bytes = whole_segments(bytes.min(most), worth, self.segment_bytes);
        Ok(self.send(range.start..range.start + bytes, self.segment_bytes, cx))
    }

    fn not_yet(&mut self, cx: &Context<'_>) -> Withheld {
        if self.is_paced(cx) {
            self.timers.pace = self.pacer.free_at();
        }
        Withheld::NotYet
    }

    /// The first lost range was sent, or is no longer lost: callers that had to let it pass may try again.
    pub(super) fn first_lost_may_have_changed(&mut self) {
        self.waiting.again |= std::mem::take(&mut self.waiting.later);
    }

    /// Sends `range` for the first time, in segments of this size.
    fn send(&mut self, range: Range<u64>, segment_bytes: u64, cx: &mut Context<'_>) -> Transmit {
        if self.sent_below == self.acknowledged {
            self.progress_at = cx.now;
            self.delivery.since = cx.now;
            self.idle_since = crate::clock::Time::NEVER;
        }
        let fin = self.finishing && range.end == self.written;
        let end = range.end + u64::from(fin);
        self.pace_new(range.end, cx);
        self.board.sent(range.clone(), segment_bytes, cx.now);
        if fin {
            // Recorded separately: a peer may report the bytes without the FIN.
            self.board.sent(range.end..end, segment_bytes, cx.now);
        }
        self.sent_below = end;
        self.asked_below = self.asked_below.max(range.end);
        if fin {
            self.note_fin_sent();
        }
        self.note_sent(end - range.start, cx);
        self.set_loss_timers(false, cx);
        let mut flags = Flags::ACK.with_if(fin, Flags::FIN);
        flags = flags.with_if(range.end == self.written, Flags::PSH);
        flags = flags.with_if(std::mem::take(&mut self.cwr_owed), Flags::CWR);
        // RFC 3168 section 6.1.5: only new data may be marked in the network.
        let ecn = if self.agreed.ecn { Ecn::Ect0 } else { Ecn::NotCapable };
        let transmit = self.payload_segment(range, flags, ecn, cx);
        Transmit { segment_bytes: segment_bytes as u16, ..transmit }
    }

    /// Sends `range` again.
    fn resend(&mut self, range: Range<u64>, cx: &mut Context<'_>) -> Transmit {
        let fin = self.fin_sent() && range.end == self.written;
        let end = range.end + u64::from(fin);
        let bytes = range.end - range.start;
        self.board.resent(range.start..end, cx.now);
        cx.statistics.ranges_forgotten += self.board.take_forgotten();
        self.first_lost_may_have_changed();
        self.note_resent(range.clone(), cx);
        if range.start == self.acknowledged {
            self.note_first(false);
            // In the spirit of RFC 6298 section 5.5: the first segment's timer restarts.
            self.timers.retransmit = cx.now.after_us(self.rtt.rto_us());
        }
        self.note_sent(bytes, cx);
        self.set_loss_timers(false, cx);
        let flags =
            Flags::ACK.with_if(fin, Flags::FIN).with_if(range.end == self.written, Flags::PSH);
        self.payload_segment(range, flags, Ecn::NotCapable, cx)
    }

    fn note_sent(&mut self, bytes: u64, cx: &Context<'_>) {
        let (in_flight, srtt_us) = (self.in_flight(), self.rtt.srtt_us());
        self.congestion.sent(&Sent { now: cx.now, bytes, in_flight, srtt_us });
        self.note_spare(cx);
    }

    fn note_resent(&mut self, range: Range<u64>, cx: &mut Context<'_>) {
        let bytes = range.end - range.start;
        self.retransmitted_bytes += bytes;
        cx.statistics.retransmitted_bytes += bytes;
        if self.congestion.is_recovering() {
            self.undo_bytes = Some(self.undo_bytes.unwrap_or(0) + bytes);
            if self.first_retransmission == FirstRetransmission::None {
                let stamp = self.stamps.at(cx.now);
                self.first_retransmission = FirstRetransmission::At { stamp, start: range.start };
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
}

/// `bytes`, cut down to whole segments unless it is everything there is (`all`) or less than one.
fn whole_segments(bytes: u64, all: u64, segment_bytes: u64) -> u64 {
    if bytes == all || bytes < segment_bytes {
        bytes
    } else {
        bytes / segment_bytes * segment_bytes
    }
}
