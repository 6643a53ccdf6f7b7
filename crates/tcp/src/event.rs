//! What an endpoint tells its caller, and what it asks for.

use std::ops::Range;
use std::time::Duration;

/// A connection. Never names another one: a generation is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// The slot, below [`Config::connections_max`](crate::Config::connections_max): an index for a table beside the endpoint's own.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// What happened to a connection. Events of one connection come in the order of this list; each is told once for any number of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A peer has connected.
    Accepted,
    /// An active open has succeeded.
    Connected,
    /// There are more bytes to [`read`](crate::Endpoint::read) than before.
    Readable,
    /// The peer has all of the send stream below this offset: nothing below it will be wanted again.
    Acknowledged {
        /// Offset in the send stream.
        below: u64,
    },
    /// After a [`Withheld::NotYet`] or [`Withheld::TooFew`]: it is worth calling [`transmit`](crate::Endpoint::transmit) again.
    Sendable,
    /// The peer has finished sending; what is left can still be read, and we may still send.
    Finished,
    /// The connection is over; its [`Id`] is worth nothing any more.
    Ended(Reason),
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Both sides finished, and all we sent was acknowledged.
    Closed,
    /// The peer reset it.
    ResetByPeer,
    /// We reset it: [`reset`](crate::Endpoint::reset).
    ResetByUs,
    /// Nothing that was sent got acknowledged for [`Config::stall`](crate::Config::stall).
    Stalled,
    /// The peer was silent, and did not answer keep-alive probes either.
    Silent,
    /// Our FIN was acknowledged, but the peer did not send its own within [`Config::fin_wait`](crate::Config::fin_wait).
    NeverFinished,
    /// Its caller had let go of it, and another connection needed its place ([`let_go`](crate::Endpoint::let_go)).
    Evicted,
    /// An active open got no answer.
    Unreachable,
    /// An active open was refused with a RST.
    Refused,
}

/// Bytes that are asked for: "bring these, I may send them". Asked for once, until they are supplied
/// ([`transmit`](crate::Endpoint::transmit)), given back ([`decline`](crate::Endpoint::decline)) or lost again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Offsets in the connection's send stream.
    pub range: Range<u64>,
    /// These bytes have left before and were lost.
    pub retransmission: bool,
}

/// Why nothing of what the caller holds may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// The peer has it, or it is in flight: let go of the buffer.
    NotNeeded,
    /// The window or pacing is shut: hold it, or let go of it and [`decline`](crate::Endpoint::decline) it. [`Event::Sendable`] follows.
    NotYet,
    /// Less than a full segment is in hand while the stream goes on: bring what follows too. [`Event::Sendable`] follows at the
    /// latest when it may leave nevertheless.
    TooFew,
    /// Bytes before it have not been sent yet: those first. New data leaves in order.
    OutOfOrder,
    /// No such connection any more.
    Gone,
}

/// A connection in figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// Smoothed round-trip time (RFC 6298); zero before the first measurement.
    pub srtt: Duration,
    /// Its variation.
    pub rttvar: Duration,
    /// The shortest round trip of late.
    pub rtt_min: Duration,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold.
    pub ssthresh_bytes: u64,
    /// Estimated to be in the network (the pipe of RFC 6675).
    pub in_flight_bytes: u64,
    /// What the peer's window leaves beyond what was sent.
    pub peer_window_bytes: u64,
    /// Payload of one segment.
    pub segment_bytes: u16,
    /// Sent below this offset.
    pub sent_below: u64,
    /// Acknowledged below this offset.
    pub acknowledged_below: u64,
    /// Payload sent again, all in all.
    pub retransmitted_bytes: u64,
    /// What the peer got per second, over the last round trip; zero before that is known.
    pub delivery_rate_bytes_per_second: u64,
    /// At what rate pacing lets bytes leave; zero before it is known.
    pub pacing_rate_bytes_per_second: u64,
    /// Bytes of memory that the connection holds, with its receive buffer and its in-flight bookkeeping.
    pub memory_bytes: usize,
    /// Entries of the in-flight bookkeeping.
    pub ranges: usize,
    /// In loss recovery.
    pub recovering: bool,
}
