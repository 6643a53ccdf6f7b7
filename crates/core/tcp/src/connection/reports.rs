//! Collects the bytes that an acknowledgement and its SACK blocks report as arrived.

use std::ops::Range;

use super::{Connection, Context};
use crate::Statistics;
use crate::clock::Time;
use crate::header::{Incoming, SACK_BLOCKS_MAX};
use crate::scoreboard::Piece;
use crate::seq::{Seq, timestamp_older};

/// The bytes that one acknowledgement has delivered.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) bytes: u64,
    /// When the latest of the bytes that were sent only once was sent.
    pub(super) sent_at: Option<Time>,
    /// When the latest of the bytes that were sent more than once was sent.
    pub(super) resent_at: Option<Time>,
    /// Some of these bytes had been given up and not sent again: an ACK was late or lost.
    pub(super) given_up: bool,
    /// The range that the peer reports as received twice (RFC 2883).
    pub(super) duplicate: Option<Range<u64>>,
}

impl Delivered {
    fn note(&mut self, piece: &Piece) {
        self.bytes += piece.bytes;
        let last = if piece.retransmitted { &mut self.resent_at } else { &mut self.sent_at };
        *last = (*last).max(Some(piece.sent_at));
        self.given_up |= piece.found_lost;
    }
}

/// The blocks of one segment.
#[derive(Debug, Default)]
struct Reports {
    duplicate: Option<Range<u64>>,
    /// In stream order, whatever the order of arrival: a report of a higher range before a lower one is not reordering. Empty ranges mean nothing.
    ranges: [Range<u64>; SACK_BLOCKS_MAX],
}

impl Connection {
    /// Processes the cumulative acknowledgement and the SACK blocks.
    pub(super) fn collect(
        &mut self,
        ack: u64,
        segment: &Incoming<'_>,
        cx: &mut Context<'_>,
    ) -> Delivered {
        let reports = if self.agreed.sack {
            self.read_blocks(ack, segment.options.sack.as_slice(), cx.statistics)
        } else {
            Reports::default()
        };
        let mut delivered = Delivered { duplicate: reports.duplicate, ..Delivered::default() };
        let (now, minimum) = (cx.now, self.rtt.minimum_us());
        let echo =
            segment.options.timestamps.filter(|_| self.agreed.timestamps).map(|both| both.echo);
        let Connection { board, rack, stamps, .. } = self;
        let mut visit = |piece: Piece| {
            let older = echo.is_some_and(|echo| timestamp_older(echo, stamps.at(piece.sent_at)));
            rack.delivered(&piece, now, minimum, older);
            delivered.note(&piece);
        };
        board.acknowledge(ack, &mut visit);
        for range in reports.ranges.into_iter().filter(|range| !range.is_empty()) {
            if !board.sack(range, &mut visit) {
                cx.statistics.sack_disregarded += 1;
            }
        }
        cx.statistics.ranges_forgotten += board.take_forgotten();
        delivered
    }

    fn read_blocks(&self, ack: u64, blocks: &[(Seq, Seq)], statistics: &mut Statistics) -> Reports {
        let offset = |seq: Seq| seq.offset_near(ack, self.seq_of(ack));
        let enclosing = blocks.get(1).map(|(left, right)| offset(*left)..offset(*right));
        let mut reports = Reports::default();
        for (index, (left, right)) in blocks.iter().enumerate() {
            let (left, right) = (offset(*left), offset(*right));
            if left >= right || left < 0 || right > self.sent_below as i64 {
                // Below the beginning: at best a very old duplicate report.
                statistics.sack_invalid += 1;
                continue;
            }
            let inside =
                enclosing.as_ref().is_some_and(|all| all.start <= left && right <= all.end);
            if index == 0 && (right <= ack as i64 || inside) {
                // RFC 2883 section 4: only the first block reports a duplicate, below the ACK or within the second.
                reports.duplicate = Some(left as u64..right as u64);
            } else if right > ack as i64 {
                reports.ranges[index] = left.max(ack as i64) as u64..right as u64;
            }
        }
        reports.ranges.sort_unstable_by_key(|range| range.start);
        reports
    }
}
