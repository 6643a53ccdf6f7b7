//! The parts of a connection.

use std::ops::Range;

use crate::clock::Time;
use crate::seq::Seq;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Our SYN was sent.
    SynSent { tries: u8 },
    /// ESTABLISHED and all later states; the ends of the streams distinguish them.
    Open,
}

/// The peer's timestamps and our own clock (RFC 7323).
#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) offset: u32,
    /// TS.Recent, and when it was taken.
    pub(super) recent: u32,
    pub(super) recent_at: Time,
}

impl Stamps {
    /// Our clock: milliseconds from a secret start.
    pub(super) fn at(&self, time: Time) -> u32 {
        self.offset.wrapping_add(time.milliseconds() as u32)
    }
}

/// The peer's receive window.
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// Bytes below this offset may be sent.
    pub(super) right: u64,
    /// SND.WL1 and SND.WL2: the segment that set it.
    pub(super) seq: Seq,
    pub(super) ack: u64,
    /// MAX.SND.WND: the largest ever.
    pub(super) largest: u64,
}

/// A tail loss probe (RFC 8985 section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Probe {
    None,
    /// To be sent as soon as the caller has the bytes: new ones, or these again.
    Owed {
        again: Option<Range<u64>>,
        asked: bool,
    },
    /// Sent; TLP.end_seq, and TLP.is_retrans.
    Sent {
        end: u64,
        again: bool,
    },
}

#[derive(Debug)]
pub(super) struct Timers {
    pub(super) retransmit: Time,
    pub(super) probe: Time,
    pub(super) reorder: Time,
    pub(super) persist: Time,
    pub(super) delayed_ack: Time,
    pub(super) pace: Time,
    pub(super) fin_wait: Time,
}

impl Timers {
    pub(super) fn none() -> Self {
        Timers {
            retransmit: Time::NEVER,
            probe: Time::NEVER,
            reorder: Time::NEVER,
            persist: Time::NEVER,
            delayed_ack: Time::NEVER,
            pace: Time::NEVER,
            fin_wait: Time::NEVER,
        }
    }
}

/// Segments without payload that are due.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) syn: bool,
    pub(super) ack: bool,
    /// An ACK that requests one, with a number below the window (RFC 9293 section 3.8.4).
    pub(super) probe: bool,
    pub(super) fin_again: bool,
}

/// Events that were not reported yet.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) accepted: bool,
    pub(super) connected: bool,
    pub(super) readable: bool,
    pub(super) acknowledged: bool,
    pub(super) sendable: bool,
    pub(super) finished: bool,
    pub(super) ended: bool,
}

/// The endpoint's queues that a connection is in.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    pub(crate) event: bool,
    pub(crate) transmit: bool,
    pub(crate) want: bool,
}

/// How fast the peer gets bytes, by whole round trips.
#[derive(Debug)]
pub(super) struct DeliveryRate {
    pub(super) round_end: u64,
    pub(super) since: Time,
    pub(super) bytes: u64,
    pub(super) per_second: u64,
}

/// How received segments are acknowledged.
#[derive(Debug)]
pub(super) struct Acking {
    /// Payload since the last ACK that was sent.
    pub(super) unacknowledged_bytes: u64,
    /// Last.ACK.sent, as an offset.
    pub(super) last_sent: u64,
    /// The largest segment of the peer: two of them are acknowledged at once.
    pub(super) segment_bytes: u64,
    /// The first few segments are acknowledged at once, so that the peer's slow start gets going.
    pub(super) quick: u8,
    /// RFC 3168 section 6.1.3: a mark has arrived and the peer has not yet sent CWR.
    pub(super) echo_mark: bool,
}

/// Eifel detection (RFC 3522 section 3.2), once in a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRetransmission {
    None,
    /// It was sent at this time of our clock, and began at this offset: only an ACK beyond that answers it.
    At {
        stamp: u32,
        start: u64,
    },
    /// The ACK after it has arrived: later ACKs may answer other retransmissions.
    Answered,
}

/// The bytes that the caller holds and was not allowed to send.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Lost bytes.
    pub(super) again: bool,
    /// Lost bytes, but not the first of them.
    pub(super) later: bool,
    /// New bytes.
    pub(super) new: bool,
    /// New bytes that are less than a segment.
    pub(super) few: bool,
}
