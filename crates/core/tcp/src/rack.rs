//! RACK: detects loss by time (RFC 8985). Bytes sent sufficiently earlier than others that the peer has received are lost.

use crate::clock::Time;
use crate::rtt::Rtt;
use crate::scoreboard::{Flight, Piece, Scoreboard};

/// RFC 8985 section 6.2 step 4: the largest reordering window, in quarters of the shortest round trip.
const WINDOW_QUARTERS_MAX: u64 = 16;

/// RFC 8985 section 6.2 step 4: how many recoveries a wider window lasts.
const RECOVERIES_PERSIST: u8 = 16;

/// RFC 5681 section 3.2: three duplicates mean a loss, not reordering.
const DUPLICATES: u64 = 3;

#[derive(Debug)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: the latest sent of everything that the peer is known to have.
    newest_sent_at: Time,
    newest_end: u64,
    /// RACK.rtt, measured on those bytes.
    rtt_us: u64,
    /// RACK.fack: the highest offset that the peer is known to have.
    forward: u64,
    reordering_seen: bool,
    /// RACK.reo_wnd_mult.
    window_quarters: u64,
    /// RACK.reo_wnd_persist.
    recoveries_left: u8,
    /// RACK.dsack_round: after a DSACK has widened the window, it does not grow again before this is acknowledged.
    dsack_round: Option<u64>,
    known: bool,
}

impl Rack {
    pub(crate) fn new() -> Self {
        Rack {
            newest_sent_at: Time(0),
            newest_end: 0,
            rtt_us: 0,
            forward: 0,
            reordering_seen: false,
            window_quarters: 1,
            recoveries_left: RECOVERIES_PERSIST,
            dsack_round: None,
            known: false,
        }
    }

    /// Steps 2 and 3 of RFC 8985 section 6.2, for one piece that the peer has received.
    ///
    /// `older`: the echoed timestamp is older than the piece's retransmission.
    pub(crate) fn delivered(&mut self, piece: &Piece, now: Time, rtt_us_min: u64, older: bool) {
        let rtt_us = now.since_us(piece.sent_at);
        // A retransmission acknowledged within less than a round trip: the original arrived.
        let spurious = piece.retransmitted && (older || rtt_us < rtt_us_min);
        if !spurious && (!self.known || self.is_after(piece.sent_at, piece.end)) {
            self.known = true;
            self.newest_sent_at = piece.sent_at;
            self.newest_end = piece.end;
            self.rtt_us = rtt_us;
        }
        if piece.end > self.forward {
            self.forward = piece.end;
        } else if piece.end < self.forward && !piece.retransmitted {
            self.reordering_seen = true;
        }
    }

    /// RACK_sent_after(): sent later, or at the same time but further up.
    fn is_after(&self, sent_at: Time, end: u64) -> bool {
        (sent_at, end) > (self.newest_sent_at, self.newest_end)
    }

    /// Handles a DSACK, which shows that bytes were sent twice for nothing: wait longer (RFC 8985 section 6.2 step 4).
    pub(crate) fn duplicate_reported(&mut self, acknowledged: u64, sent_below: u64) {
        if self.dsack_round.is_some_and(|round| acknowledged < round) {
            return;
        }
        self.dsack_round = Some(sent_below);
        self.window_quarters = (self.window_quarters + 1).min(WINDOW_QUARTERS_MAX);
        self.recoveries_left = RECOVERIES_PERSIST;
    }

    /// Records that all bytes retransmitted in a recovery had arrived: it was reordering. RFC 8985 section 6.2 step 3 cannot detect that in bytes
    /// that were sent twice.
    pub(crate) fn loss_was_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Ends a recovery: the wider window lasts for one recovery less.
    pub(crate) fn recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.window_quarters = 1;
        }
    }

    /// RACK_update_reo_wnd(): how much later than expected a segment may arrive without being lost.
    pub(crate) fn window_us(
        &self,
        rtt: &Rtt,
        recovering: bool,
        sacked_bytes: u64,
        mss: u64,
    ) -> u64 {
        if !self.reordering_seen && (recovering || sacked_bytes >= DUPLICATES * mss) {
            return 0;
        }
        (self.window_quarters * rtt.minimum_us() / 4).min(rtt.srtt_us())
    }

    /// RACK_detect_loss(): marks lost bytes. Returns how many there are, and when to check again if more may turn out to be lost.
    pub(crate) fn detect(&self, board: &mut Scoreboard, now: Time, window_us: u64) -> (u64, Time) {
        let mut look_again = Time::NEVER;
        if !self.known {
            return (0, look_again);
        }
        // Bytes of the same burst as the newest are distinguished from it by their offset.
        board.split(self.newest_end, self.newest_sent_at);
        let lost = board.mark_lost(|flight| {
            if self.is_after(flight.sent_at, flight.end()) {
                return false;
            }
            let due = flight.sent_at.after_us(self.rtt_us + window_us);
            if due > now {
                // The latest time is enough: ranges that are due earlier wait a little longer, by less than the reordering window.
                look_again = if look_again.is_set() { look_again.max(due) } else { due };
            }
            due <= now
        });
        (lost, look_again)
    }

    /// RACK_mark_losses_on_RTO() of RFC 8985 section 6.3: the first bytes, and all that are late.
    pub(crate) fn lost_on_timeout(
        &self,
        flight: &Flight,
        first: u64,
        now: Time,
        window_us: u64,
    ) -> bool {
        flight.start == first || flight.sent_at.after_us(self.rtt_us + window_us) <= now
    }
}
