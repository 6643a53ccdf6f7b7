//! How much of the window was used.

use super::Acked;

/// The most bytes in flight within this round trip, or the last one. Bytes leave in large pieces, so fewer are in flight just before one leaves.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The round trip ends when this offset is acknowledged.
    round_end: u64,
    most_bytes: u64,
    most_bytes_before: u64,
}

impl Usage {
    pub(super) fn note(&mut self, acked: &Acked) {
        if acked.acknowledged >= self.round_end {
            self.round_end = acked.sent_below;
            self.most_bytes_before = std::mem::take(&mut self.most_bytes);
        }
        self.most_bytes = self.most_bytes.max(acked.in_flight_before);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.most_bytes.max(self.most_bytes_before)
    }
}
