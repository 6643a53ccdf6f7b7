//! The segment size that the path carries: smaller if a router reports it or nothing large gets through, larger again after a while.

use std::ops::Range;

use super::{Connection, Context};
use crate::clock::{Time, micros};
use crate::seq::Seq;

/// RFC 4821 section 7.7: this many timeouts in a row look like a black hole for large segments.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// So does a segment that was sent again this often, however its loss was detected.
const BLACK_HOLE_RESENDS: u32 = 5;

/// Sizes to try in a black hole, as payload with options: tunnels within Ethernet, IPv6's least MTU, IPv4's.
const SMALLER_SEGMENTS: [u64; 3] = [1360, 1180, 512];

/// A router may not ask for less (RFC 1191 section 3 says 68 for IPv4, but nothing below 576 exists any more; IPv6: RFC
/// 8200 section 5).
const MTU_MIN_V4: u16 = 576;
const MTU_MIN_V6: u16 = 1280;

/// Packet sizes of real paths, IP header included. A router's value is rounded down to one of them (RFC 1191 section
/// 7.1), so that an attacker who forges routers' messages can lower the size only a few times and not byte by byte.
/// This is RFC 1191's table without unreasonable sizes, plus what today's tunnels leave of 9000 and 1500: VXLAN 8950
/// and 1450, clouds 8500 and 1460, PPPoE 1492, 6in4 1480, WireGuard 1420, IPsec 1400.
const PLATEAUS: [u16; 18] = [
    17_914, 9000, 8950, 8500, 8166, 4352, 2002, 1500, 1492, 1480, 1460, 1450, 1420, 1400, 1360,
    1280, 1006, 576,
];

/// RFC 4821 section 7.4: this many segments follow a larger one at once, so that their ACKs show its loss.
const FOLLOWERS: u64 = 3;

/// Knowledge of the path beyond the segment size.
#[derive(Debug)]
pub(super) struct Path {
    /// The largest segment that both ends and the interface allow.
    segment_bytes_max: u64,
    /// When to try a larger segment. Never, unless the size was lowered.
    try_at: Time,
    /// A larger segment in flight.
    larger: Option<Range<u64>>,
    /// When the size was last lowered. None: never.
    lowered_at: Option<Time>,
    /// How often the first unacknowledged bytes were sent again.
    resends: u32,
}

impl Path {
    pub(super) fn new(segment_bytes_max: u64) -> Self {
        Path { segment_bytes_max, try_at: Time::NEVER, larger: None, lowered_at: None, resends: 0 }
    }
}

impl Connection {
    /// Handles another loss of the first bytes. Timeouts are one sign of a black hole. Another is that these bytes are sent again and again while
    /// others, which may be smaller, arrive.
    pub(super) fn leave_black_hole(&mut self, cx: &mut Context<'_>) {
        let largest = self.segment_bytes.min(self.board.first_bytes());
        if self.timeouts < BLACK_HOLE_TIMEOUTS && self.path.resends < BLACK_HOLE_RESENDS {
            return;
        }
        if let Some(smaller) = SMALLER_SEGMENTS.iter().find(|bytes| **bytes < largest) {
            cx.statistics.black_holes += 1;
            self.lower_segment_bytes(*smaller, cx);
        }
    }

    /// Records that the bytes that the peer waits for were sent once more, or have arrived.
    pub(super) fn note_first(&mut self, has_come: bool) {
        self.path.resends = if has_come { 0 } else { self.path.resends + 1 };
    }

    /// Handles a router's report that packets larger than `mtu_bytes` do not get through.
    pub(crate) fn packet_too_big(&mut self, sequence: Seq, mtu_bytes: u16, cx: &mut Context<'_>) {
        let bytes = u64::from(self.agreed.segment_bytes(&self.pair, plateau(mtu_bytes)));
        let is_possible = mtu_bytes >= self.mtu_bytes_min() && bytes < self.segment_bytes;
        if !is_possible || !self.is_on_its_way(sequence) || !self.is_open() {
            cx.statistics.path_mtu_refused += 1;
            return;
        }
        if self.was_lowered_of_late(cx.now) {
            cx.statistics.path_mtu_too_soon += 1;
            return;
        }
        cx.statistics.path_mtu_lowered += 1;
        self.lower_segment_bytes(bytes, cx);
        // RFC 1191 section 6.1: send it again at once. It was not congestion, so the window stays.
        self.board.mark_lost(|flight| u64::from(flight.bytes) > bytes);
        self.set_loss_timers(true, cx);
    }

    /// Returns true if the bytes at this number were sent, and the peer has not reported them (RFC 5927 section 7.2).
    fn is_on_its_way(&self, sequence: Seq) -> bool {
        let at = sequence.offset_near(self.acknowledged, self.seq_of(self.acknowledged));
        let Ok(at) = u64::try_from(at) else { return false };
        (self.acknowledged..self.sent_below).contains(&at) && !self.board.has_arrived(&(at..at + 1))
    }

    fn mtu_bytes_min(&self) -> u16 {
        if self.pair.remote.is_ipv6() { MTU_MIN_V6 } else { MTU_MIN_V4 }
    }

    /// Returns true if the last reduction is less than a round trip ago. The router may then mean packets sent before it, which were all given up.
    /// Packets that are still too large will be lost once more, and the router will report that again.
    fn was_lowered_of_late(&self, now: Time) -> bool {
        let round_us = match self.rtt.srtt_us() {
            0 => self.rtt.rto_base_us(),
            srtt_us => srtt_us,
        };
        self.path.lowered_at.is_some_and(|lowered_at| now.since_us(lowered_at) < round_us)
    }

    fn lower_segment_bytes(&mut self, bytes: u64, cx: &Context<'_>) {
        self.set_segment_bytes(bytes);
        self.path.larger = None;
        self.path.resends = 0;
        self.path.lowered_at = Some(cx.now);
        self.path.try_at = cx.now.after_us(micros(cx.config.larger_segments_after));
    }

    fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
        self.congestion.set_mss(bytes);
    }

    /// Returns one larger segment of `in_hand`, which begins with new bytes, if it is time to try one (RFC 4821 section 7). Without SACKs its loss
    /// could not be distinguished from others.
    pub(super) fn larger_segment(
        &self,
        in_hand: &Range<u64>,
        cx: &Context<'_>,
    ) -> Option<Range<u64>> {
        let path = &self.path;
        let calm = !self.congestion.is_recovering() && !self.board.has_lost();
        if path.try_at > cx.now || path.larger.is_some() || !calm || !self.agreed.sack {
            return None;
        }
        let steps = SMALLER_SEGMENTS.iter().rev().chain([&path.segment_bytes_max]);
        let bytes = *steps.into_iter().find(|bytes| **bytes > self.segment_bytes)?;
        let bytes = bytes.min(path.segment_bytes_max);
        let least = bytes + FOLLOWERS * self.segment_bytes;
        let may_leave = self.room().min(self.usable_window()).min(self.written - in_hand.start);
        let fits = in_hand.end - in_hand.start >= bytes && may_leave >= least;
        fits.then(|| in_hand.start..in_hand.start + bytes)
    }

    /// Records that a larger segment was sent.
    pub(super) fn note_larger(&mut self, segment: Range<u64>, cx: &mut Context<'_>) {
        cx.statistics.larger_segments_tried += 1;
        self.path.larger = Some(segment);
    }

    /// Checks the result of a larger segment. Returns how many of the `lost_bytes` mean congestion: the larger segment does not, if the path cannot
    /// carry it (RFC 4821 section 7.4).
    pub(super) fn judge_larger(&mut self, lost_bytes: u64, cx: &mut Context<'_>) -> u64 {
        let Some(larger) = self.path.larger.clone() else { return lost_bytes };
        let bytes = larger.end - larger.start;
        if self.board.lost_within(&larger).is_some() {
            self.path.larger = None;
            self.path.try_at = cx.now.after_us(micros(cx.config.larger_segments_after));
            return lost_bytes.saturating_sub(bytes);
        }
        if self.board.has_arrived(&larger) {
            cx.statistics.path_mtu_raised += 1;
            self.path.larger = None;
            self.set_segment_bytes(bytes);
            // The next larger size, if there is one.
            let is_largest = bytes >= self.path.segment_bytes_max;
            self.path.try_at = if is_largest { Time::NEVER } else { cx.now };
        }
        lost_bytes
    }
}

/// The largest packet size of real paths that is not above a router's value.
fn plateau(mtu_bytes: u16) -> u16 {
    PLATEAUS.into_iter().find(|plateau| *plateau <= mtu_bytes).unwrap_or(mtu_bytes)
}
