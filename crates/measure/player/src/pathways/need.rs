//! The player's demand on a pathway: the next segment, or the rest of the current one, before its buffer is empty.

use std::time::Duration;

/// A segment that takes this many times as long as it plays drains any buffer. Buffer-based rules choose a rung above the network's rate on
/// purpose, but not this far above.
const CRAWL: f64 = 3.0;

/// An arrival within this many seconds is soon: half of the default silence. After a seek the buffer is empty, and so every segment would
/// be late, however fast its pathway is.
const SOON: f64 = 2.0;

/// The next segment.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Media buffered ahead of the playhead.
    pub buffered: Duration,
    /// Size of the segment in bits.
    pub bits: u64,
    /// Playing time of the segment.
    pub segment: Duration,
    /// Bits per second of the highest rung. A pathway with far more than that is good enough.
    pub bits_per_second_max: u64,
}

/// A request for media that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes of the body received so far.
    pub received_bytes: u64,
    /// Bytes expected in the whole body.
    pub expected_bytes: u64,
    /// Time since the request was sent.
    pub elapsed: Duration,
    /// Its rate, as [`Recent`](super::Recent) computes it.
    pub bits_per_second: Option<f64>,
    /// Media buffered ahead of the playhead.
    pub buffered: Duration,
    /// Playing time of the segment.
    pub segment: Duration,
}

/// When the next segment, or the rest of the current one, will have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Seconds from now. Infinite if nothing arrives.
    pub(super) in_s: f64,
    /// Seconds from its request to its end.
    pub(super) took_s: f64,
    /// Bits of the whole, which another pathway would have to deliver.
    pub(super) bits: f64,
    pub(super) buffered_s: f64,
    pub(super) segment_s: f64,
}

impl Arrival {
    pub(super) fn of_next(need: &Need, bits_per_second: f64) -> Self {
        let in_s = need.bits as f64 / bits_per_second.max(1.0);
        Self {
            in_s,
            took_s: in_s,
            bits: need.bits as f64,
            buffered_s: need.buffered.as_secs_f64(),
            segment_s: need.segment.as_secs_f64(),
        }
    }

    pub(super) fn of_rest(progress: &Progress, bits_per_second: f64) -> Self {
        let left = progress.expected_bytes.saturating_sub(progress.received_bytes);
        let in_s = if left == 0 { 0.0 } else { crate::estimate::bits(left) / bits_per_second };
        Self {
            in_s,
            took_s: progress.elapsed.as_secs_f64() + in_s,
            bits: crate::estimate::bits(progress.expected_bytes),
            buffered_s: progress.buffered.as_secs_f64(),
            segment_s: progress.segment.as_secs_f64(),
        }
    }

    /// Returns true if it arrives after the buffer is empty, unless it is soon and takes no longer than it plays.
    pub(super) fn is_late(&self) -> bool {
        self.in_s > self.buffered_s && (self.in_s > SOON || self.shrinks())
    }

    fn shrinks(&self) -> bool {
        self.took_s > self.segment_s
    }

    /// Returns true if the buffer shrinks meanwhile: to less than `spare_s`, or fast.
    pub(super) fn drains(&self, spare_s: f64) -> bool {
        let crawls = self.took_s > self.segment_s * CRAWL;
        crawls || (self.shrinks() && self.in_s + spare_s > self.buffered_s)
    }
}
