//! Processes an arriving segment in the order of RFC 9293 section 3.10.7, hardened by RFC 5961 and RFC 7323.

use super::state::Stage;
use super::{Connection, Context};
use crate::agreed::{Agreed, syn_ack_agrees_to_ecn};
use crate::header::{Flags, Incoming};
use crate::receive::Taken;
use crate::seq::timestamp_older;
use crate::{CloseReason, Ecn};

/// RFC 5961 section 7: ten challenge ACKs in five seconds. Counted per connection: a common count would reveal others'
/// traffic.
const CHALLENGES_MAX: u8 = 10;
const CHALLENGE_PERIOD_US: u64 = 5_000_000;

/// RFC 7323 section 5.5: a timestamp this old has no meaning any more.
const STAMP_AGE_US_MAX: u64 = 24 * 24 * 3600 * 1_000_000;

/// RFC 9293 section 3.8.6.3: an ACK may be delayed by at most half a second; 40 ms is common.
const DELAYED_ACK_US: u64 = 40_000;

impl Connection {
    pub(crate) fn arrive(&mut self, ecn: Ecn, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        if self.ended.is_some() {
            return;
        }
        match self.stage {
            Stage::SynSent { .. } => self.arrive_in_syn_sent(segment, cx),
            Stage::Open => self.arrive_synchronized(ecn, segment, cx),
        }
    }

    fn arrive_synchronized(&mut self, ecn: Ecn, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        let expected = self.receive.next_with_fin();
        let at = segment.seq.offset_near(expected, self.peer_seq_of(expected));
        if !self.timestamp_is_acceptable(segment, cx) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            return self.take_reset(at, cx);
        }
        if segment.flags.has(Flags::SYN) {
            // RFC 5961 section 4.2: whatever its sequence number.
            cx.statistics.syn_challenged += 1;
            return self.challenge(cx);
        }
        if !self.sequence_is_acceptable(at, segment) {
            cx.statistics.outside_window += 1;
            return self.answer_unacceptable(at, segment, cx);
        }
        if !segment.flags.has(Flags::ACK) {
            cx.statistics.ack_missing += 1;
            return;
        }
        // Checked before anything of the segment is remembered. An attacker who guesses a sequence number in the window, but not an ACK, must not
        // move TS.Recent, because PAWS would then refuse the peer itself. The guess must not count as a sign of life either (RFC 5961 section 5.2).
        if !self.take_acknowledgement(segment, cx) {
            return;
        }
        self.heard_at = cx.now;
        self.silent_probes = 0;
        self.note_timestamp(at, segment, cx);
        if segment.flags.has(Flags::URG) {
            // RFC 6093: the urgent pointer is obsolete, so urgent bytes are treated as ordinary bytes.
            cx.statistics.urgent_ignored += 1;
        }
        self.note_mark(ecn, segment, cx);
        self.take_payload(at, segment, cx);
        self.end_if_closed(cx);
    }

    /// PAWS (RFC 7323 section 5.3). A RST is exempt, because it may come from a host that has forgotten its clock. So
    /// is a SYN, which is always challenged (RFC 5961 section 4.2), so that a restarted host can end the rest of its
    /// old connection.
    fn timestamp_is_acceptable(&mut self, segment: &Incoming<'_>, cx: &mut Context<'_>) -> bool {
        let exempt = segment.flags.has(Flags::RST) || segment.flags.has(Flags::SYN);
        if !self.agreed.timestamps || exempt {
            return true;
        }
        let Some(timestamps) = segment.options.timestamps else {
            // RFC 7323 section 3.2: once agreed on, every segment has them.
            cx.statistics.timestamp_missing += 1;
            return false;
        };
        let stale = cx.now.since_us(self.stamps.recent_at) > STAMP_AGE_US_MAX;
        if timestamp_older(timestamps.value, self.stamps.recent) && !stale {
            cx.statistics.paws_refused += 1;
            self.challenge(cx);
            return false;
        }
        true
    }

    /// RFC 7323 section 4.3: remembered only from a segment that covers the last acknowledged number.
    fn note_timestamp(&mut self, at: i64, segment: &Incoming<'_>, cx: &Context<'_>) {
        let Some(timestamps) = segment.options.timestamps.filter(|_| self.agreed.timestamps) else {
            return;
        };
        if at <= self.acking.last_sent as i64
            && !timestamp_older(timestamps.value, self.stamps.recent)
        {
            self.stamps.recent = timestamps.value;
            self.stamps.recent_at = cx.now;
        }
    }

    /// RFC 5961 section 3.2: only the exact next sequence number is accepted; others in the window are challenged.
    fn take_reset(&mut self, at: i64, cx: &mut Context<'_>) {
        let expected = self.receive.next_with_fin() as i64;
        if self.is_closed() {
            // TIME-WAIT except for unread bytes: a RST ends nothing (RFC 1337 section 3).
            cx.statistics.time_wait_hits += 1;
        } else if at == expected {
            cx.statistics.reset_received += 1;
            self.end(CloseReason::ResetByPeer, cx);
        } else if at > expected && at < expected + self.receive.window() as i64 {
            cx.statistics.reset_challenged += 1;
            self.challenge(cx);
        } else {
            cx.statistics.reset_outside_window += 1;
        }
    }

    /// RFC 9293 section 3.10.7.4, first check. While our window is shut, a segment at its edge is accepted for its ACK.
    /// So is an ACK at the right edge: its sender has filled the window, and the bytes were lost.
    fn sequence_is_acceptable(&self, at: i64, segment: &Incoming<'_>) -> bool {
        let expected = self.receive.next_with_fin() as i64;
        let window = self.receive.window() as i64;
        let length = segment.sequence_bytes() as i64;
        if length == 0 || window == 0 {
            return at >= expected && at <= expected + window;
        }
        at < expected + window && at + length > expected
    }

    /// Sends the peer an ACK with our position: at once if it repeats data (its ACK was lost), else within the limit on
    /// challenges.
    fn answer_unacceptable(&mut self, at: i64, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        if segment.payload.is_empty() {
            return self.challenge(cx);
        }
        let sequence = at + segment.payload.len() as i64;
        if sequence <= self.receive.next() as i64 {
            self.receive.take(at, segment.payload, cx.buffers, cx.statistics);
        }
        self.due.ack = true;
    }

    /// Sends an ACK that only the real peer can answer (RFC 5961).
    pub(super) fn challenge(&mut self, cx: &mut Context<'_>) {
        if cx.now.since_us(self.challenges_since) >= CHALLENGE_PERIOD_US {
            self.challenges = 0;
            self.challenges_since = cx.now;
        }
        if self.challenges >= CHALLENGES_MAX {
            cx.statistics.challenges_throttled += 1;
            return;
        }
        self.challenges += 1;
        cx.statistics.challenges_sent += 1;
        self.due.ack = true;
    }

    /// RFC 3168 section 6.1.3: echoes a mark until the peer says that it has reduced its window.
    fn note_mark(&mut self, ecn: Ecn, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        if !self.agreed.ecn {
            return;
        }
        if segment.flags.has(Flags::CWR) {
            self.acking.echo_mark = false;
        }
        if ecn == Ecn::Congestion {
            cx.statistics.ecn_marks_received += 1;
            self.acking.echo_mark = true;
            self.due.ack = true;
        }
    }

    fn take_payload(&mut self, at: i64, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        let finishes = segment.flags.has(Flags::FIN);
        if finishes {
            self.take_fin(at + segment.payload.len() as i64, cx);
        }
        if !segment.payload.is_empty() {
            self.take_bytes(at, segment.payload, cx);
        }
        if finishes {
            // A FIN is acknowledged at once, each time it arrives.
            self.due.ack = true;
        }
        if self.receive.is_finished() && !self.finished_told {
            self.finished_told = true;
            self.news.finished = true;
            self.timers.fin_wait = crate::clock::Time::NEVER;
        }
    }

    fn take_fin(&mut self, at: i64, cx: &mut Context<'_>) {
        let right = self.receive.next() + self.receive.window();
        let in_reach = (0..=right as i64).contains(&at);
        if !in_reach || !self.receive.finish_at(at as u64) {
            cx.statistics.after_finish += 1;
        }
    }

    fn take_bytes(&mut self, at: i64, payload: &[u8], cx: &mut Context<'_>) {
        let before = self.receive.next();
        let taken = self.receive.take(at, payload, cx.buffers, cx.statistics);
        let news = self.receive.next() - before;
        self.news.readable |= news > 0 && !self.is_let_go;
        self.acking.segment_bytes =
            self.acking.segment_bytes.max(payload.len() as u64).min(self.segment_bytes);
        self.acking.unacknowledged_bytes += news;
        let at_once = taken != Taken::InOrder
            || self.acking.quick > 0
            || self.acking.unacknowledged_bytes >= 2 * self.acking.segment_bytes;
        self.acking.quick = self.acking.quick.saturating_sub(1);
        if at_once {
            self.due.ack = true;
        } else if !self.timers.delayed_ack.is_set() {
            self.timers.delayed_ack = cx.now.after_us(DELAYED_ACK_US);
        }
    }

    /// RFC 9293 section 3.10.7.3. A SYN without ACK (a simultaneous open) is refused: servers do not meet it.
    fn arrive_in_syn_sent(&mut self, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            cx.statistics.simultaneous_opens_refused += 1;
            return;
        }
        if !segment.flags.has(Flags::ACK) || segment.ack != self.isn.plus(1) {
            cx.statistics.ack_unsent += 1;
            return;
        }
        if segment.flags.has(Flags::RST) {
            cx.statistics.reset_received += 1;
            return self.end(CloseReason::Refused, cx);
        }
        if !segment.flags.has(Flags::SYN) {
            cx.statistics.ack_missing += 1;
            return;
        }
        self.open(segment, cx);
    }

    fn open(&mut self, segment: &Incoming<'_>, cx: &mut Context<'_>) {
        let Stage::SynSent { tries } = self.stage else { return };
        let options = &segment.options;
        let ecn = syn_ack_agrees_to_ecn(segment.flags);
        self.agreed = Agreed::from_syn(cx.config, &self.pair, options, ecn);
        self.peer_isn = segment.seq;
        self.stamps.recent = options.timestamps.map_or(0, |timestamps| timestamps.value);
        self.stamps.recent_at = cx.now;
        self.segment_bytes = u64::from(self.agreed.segment_bytes(&self.pair, cx.config.mtu_bytes));
        self.path = super::Path::new(self.segment_bytes);
        self.congestion = super::new_congestion(self.isn, self.segment_bytes, cx);
        if tries == 1 {
            self.take_rtt(cx.now, cx.now.since_us(self.progress_at), 1);
        }
        self.rtt.forget_backoff();
        self.stage = Stage::Open;
        self.timers.retransmit = crate::clock::Time::NEVER;
        (self.heard_at, self.progress_at, self.idle_since) = (cx.now, cx.now, cx.now);
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        self.window.right = u64::from(segment.window);
        self.window.largest = self.window.right;
        self.window.seq = segment.seq;
        self.news.connected = true;
        self.due.ack = true;
        cx.statistics.connected += 1;
    }
}
