//! The events and requests of an endpoint.

use std::ops::Range;
use std::time::Duration;

/// Identifies a connection. An id is never reused, because it includes a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// The slot, below [`Config::connections_max`](crate::Config::connections_max): an index for the caller's own tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// An event of a connection. A connection's events come in the order of this list; each is reported once for any number of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A peer has connected.
    Accepted,
    /// An active open has succeeded.
    Connected,
    /// There are more bytes to [`read`](crate::Endpoint::read) than before.
    Readable,
    /// The peer has everything of the send stream below this offset, which will not be requested again.
    Acknowledged {
        /// Offset in the send stream.
        below: u64,
    },
    /// After a [`Withheld::NotYet`] or [`Withheld::TooFew`]: [`transmit`](crate::Endpoint::transmit) is worth another call.
    Sendable,
    /// The peer has finished sending. The rest can still be read, and we may still send.
    Finished,
    /// The connection is over, and its [`Id`] no longer valid.
    Ended(CloseReason),
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Both sides finished, and everything we sent was acknowledged.
    Closed,
    /// The peer reset it.
    ResetByPeer,
    /// We reset it: [`reset`](crate::Endpoint::reset).
    ResetByUs,
    /// Nothing was acknowledged for [`Config::stall`](crate::Config::stall).
    Stalled,
    /// The peer was silent, and did not answer keep-alive probes.
    Silent,
    /// Our FIN was acknowledged, but the peer did not send its own within [`Config::fin_wait`](crate::Config::fin_wait).
    NeverFinished,
    /// Its caller had released it, and another connection needed its place ([`let_go`](crate::Endpoint::let_go)).
    Evicted,
    /// An active open got no answer.
    Unreachable,
    /// An active open was refused with a RST.
    Refused,
}

/// A request for bytes that may be sent. It is made once, until the bytes are sent ([`transmit`](crate::Endpoint::transmit)), declined
/// ([`decline`](crate::Endpoint::decline)) or lost again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRequest {
    /// Offsets in the connection's send stream.
    pub range: Range<u64>,
    /// Set if these bytes were sent before and lost.
    pub retransmission: bool,
}

/// Why none of the bytes that the caller holds may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// The peer has it, or it is in flight: release the buffer.
    NotNeeded,
    /// The window or pacing does not allow it. Keep it, or release it and [`decline`](crate::Endpoint::decline) it.
    /// [`Event::Sendable`] follows.
    NotYet,
    /// Less than a full segment is in hand although the stream continues: supply what follows too. [`Event::Sendable`] follows at the latest when it
    /// may be sent anyway.
    TooFew,
    /// Earlier bytes have not been sent yet. New data is sent in order.
    OutOfOrder,
    /// The connection no longer exists.
    Gone,
}

/// A connection's figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// Smoothed round-trip time (RFC 6298); zero before the first measurement.
    pub srtt: Duration,
    /// Its variation.
    pub rttvar: Duration,
    /// The shortest recent round trip.
    pub rtt_min: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold. With BBR the most bytes in flight that were found safe; all bits set if none were.
    pub ssthresh_bytes: u64,
    /// Estimated to be in the network (the pipe of RFC 6675).
    pub in_flight_bytes: u64,
    /// How much more the peer's window allows than was sent.
    pub peer_window_bytes: u64,
    /// Payload of one segment.
    pub segment_bytes: u16,
    /// Everything below this offset was sent.
    pub sent_below: u64,
    /// Everything below this offset is acknowledged.
    pub acknowledged_below: u64,
    /// Payload sent again, in total.
    pub retransmitted_bytes: u64,
    /// The bytes that the peer received per second over the last round trip; zero before that is known.
    pub delivery_rate_bytes_per_second: u64,
    /// The rate of pacing; zero before it is known.
    pub pacing_rate_bytes_per_second: u64,
    /// Bytes of memory that the connection holds, including its receive buffer and its in-flight bookkeeping.
    pub memory_bytes: usize,
    /// Entries of the in-flight bookkeeping.
    pub ranges: usize,
    /// In loss recovery.
    pub recovering: bool,
}
