//! Headers, and segments without payload: SYN, ACK, FIN, probes.

use super::state::Stage;
use super::{Connection, Context};
use crate::agreed::syn_options;
use crate::clock::Time;
use crate::header::{Flags, Options, Outgoing, Timestamps};
use crate::segment::{Header, Transmit};
use crate::seq::Seq;
use crate::{CloseReason, Ecn};

impl Connection {
    /// Returns true if [`Connection::next_control`] has a segment.
    pub(crate) fn has_control(&self) -> bool {
        self.ended.is_none()
            && (self.due.syn
                || self.due.ack
                || self.due.probe
                || self.due.fin_again
                || self.fin_is_due())
    }

    /// Returns true if all bytes were sent, and the FIN was not, or was lost. It needs no room in the congestion window, because it ends the stream.
    fn fin_is_due(&self) -> bool {
        if self.stage != Stage::Open || !self.finishing {
            return false;
        }
        self.sent_below == self.written || self.fin_sent() && self.fin_is_lost()
    }

    /// Returns true if the FIN was lost, and nothing before it was: lost bytes go first.
    fn fin_is_lost(&self) -> bool {
        self.board.first_lost() == Some(self.written)
    }

    /// The next segment without payload.
    pub(crate) fn next_control(&mut self, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.ended.is_some() {
            return None;
        }
        if std::mem::take(&mut self.due.syn) {
            return Some(self.syn(cx));
        }
        if self.fin_is_due() || self.due.fin_again {
            return Some(self.fin(cx));
        }
        if std::mem::take(&mut self.due.probe) {
            // One below the expected number: every state must answer that with an ACK (RFC 9293 section 3.8.4). Window
            // probes use the same segment, because a byte of payload would have to be read from disk.
            let header =
                self.header_at(self.seq_of(self.acknowledged).minus(1), Flags::ACK, true, cx);
            return Some(self.control(header));
        }
        if std::mem::take(&mut self.due.ack) {
            let header = self.header(self.sent_below, Flags::ACK, true, cx);
            return Some(self.control(header));
        }
        None
    }

    fn control(&self, header: Header) -> Transmit {
        Transmit {
            remote: self.pair.remote,
            local: self.pair.local,
            ecn: Ecn::NotCapable,
            header,
            payload: self.sent_below..self.sent_below,
            segment_bytes: self.segment_bytes as u16,
        }
    }

    /// The SYN of an active open. The second try no longer asks for ECN (RFC 3168 section 6.1.1.1).
    fn syn(&mut self, cx: &mut Context<'_>) -> Transmit {
        let Stage::SynSent { tries } = &mut self.stage else {
            unreachable!("a SYN is due only in SYN-SENT")
        };
        let ecn = cx.config.ecn && *tries == 0;
        *tries += 1;
        self.progress_at = cx.now;
        let header = Outgoing {
            source: self.pair.local.port(),
            destination: self.pair.remote.port(),
            seq: self.isn,
            ack: Seq(0),
            flags: Flags::SYN.with_if(ecn, Flags::ECE.with(Flags::CWR)),
            window: cx.config.receive_bytes_max.min(0xffff) as u16,
            options: syn_options(cx.config, &self.pair, self.stamps.at(cx.now)),
        };
        self.control(header.emit())
    }

    /// The FIN without payload, for the first time or again.
    fn fin(&mut self, cx: &mut Context<'_>) -> Transmit {
        self.due.fin_again = false;
        let range = self.written..self.written + 1;
        if self.fin_sent() {
            self.board.resent(range, cx.now);
            cx.statistics.ranges_forgotten += self.board.take_forgotten();
        } else {
            if self.sent_below == self.acknowledged {
                self.progress_at = cx.now;
                self.idle_since = Time::NEVER;
            }
            self.board.sent(range, self.segment_bytes, cx.now);
            self.sent_below = self.written + 1;
            self.note_fin_sent();
        }
        self.set_loss_timers(false, cx);
        let header = self.header(self.written, Flags::ACK.with(Flags::FIN), false, cx);
        self.control(header)
    }

    /// A header for the bytes from `offset` of our stream on. It also acknowledges everything that is due.
    pub(super) fn header(
        &mut self,
        offset: u64,
        flags: Flags,
        sack: bool,
        cx: &mut Context<'_>,
    ) -> Header {
        self.header_at(self.seq_of(offset), flags, sack, cx)
    }

    fn header_at(&mut self, seq: Seq, flags: Flags, sack: bool, cx: &mut Context<'_>) -> Header {
        let expected = self.receive.next_with_fin();
        let window = self.receive.announce(self.acking.segment_bytes);
        let mut options = Options { timestamps: self.timestamps(cx.now), ..Options::default() };
        let ack = self.peer_seq_of(expected);
        if sack && self.agreed.sack && self.receive.has_sack_ranges() {
            for range in self.receive.take_sack_ranges() {
                // Offsets are near the acknowledged one: at most a window away.
                let first = self.peer_isn.plus(1);
                options.sack.push(first.plus(range.start), first.plus(range.end));
            }
        }
        self.acking.last_sent = expected;
        self.acking.unacknowledged_bytes = 0;
        self.timers.delayed_ack = Time::NEVER;
        if sack || !self.receive.has_sack_ranges() {
            self.due.ack = false;
        }
        Outgoing {
            source: self.pair.local.port(),
            destination: self.pair.remote.port(),
            seq,
            ack,
            flags: flags.with_if(self.acking.echo_mark, Flags::ECE),
            window: (window >> self.agreed.receive_shift(cx.config)).min(0xffff) as u16,
            options,
        }
        .emit()
    }

    fn timestamps(&self, now: Time) -> Option<Timestamps> {
        self.agreed
            .timestamps
            .then(|| Timestamps { value: self.stamps.at(now), echo: self.stamps.recent })
    }

    /// Ends the connection with a RST that the peer accepts: with exactly the number that it expects next (RFC 5961
    /// section 3.2).
    pub(crate) fn reset(&mut self, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.ended.is_some() {
            return None;
        }
        let reset = (self.stage == Stage::Open).then(|| {
            let header = self.header(self.sent_below, Flags::RST.with(Flags::ACK), false, cx);
            self.control(header)
        });
        self.end(CloseReason::ResetByUs, cx);
        reset
    }

    /// The ACK of a FIN that has ended the connection.
    pub(crate) fn farewell(&mut self, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.ended.is_none() || !std::mem::take(&mut self.due.ack) {
            return None;
        }
        let header = self.header(self.sent_below, Flags::ACK, true, cx);
        Some(self.control(header))
    }
}
