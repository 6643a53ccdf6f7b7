//! Segments at the border of this crate: arrived ones, and ones to send.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::keyed::Pair;

/// The ECN field of the IP header (RFC 3168 section 5), by its two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0): the one that is sent here.
    Ect0 = 0b10,
    /// Congestion experienced.
    Congestion = 0b11,
}

impl Ecn {
    /// From the low two bits of the traffic class or type of service.
    #[must_use]
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Congestion,
        }
    }

    /// The two bits, for the IP header.
    #[must_use]
    pub fn bits(self) -> u8 {
        self as u8
    }
}

/// A segment that arrived. The caller or the device has verified its checksum and that its addresses are acceptable.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The sender.
    pub remote: IpAddr,
    /// The address of ours that it was sent to.
    pub local: IpAddr,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// TCP header and payload. It may be several segments that the device has joined (receive coalescing).
    pub segment: &'a [u8],
}

/// The longest TCP header: 15 words of 32 bits (RFC 9293 section 3.1).
pub const HEADER_BYTES_MAX: usize = 60;

/// A TCP header, complete except for its checksum, which is zero.
#[derive(Clone, Copy)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    length: u8,
}

impl Header {
    /// Lengths are multiples of four and not above the maximum: `header.rs` writes nothing else.
    pub(crate) fn new(bytes: [u8; HEADER_BYTES_MAX], length: usize) -> Self {
        debug_assert!(length <= HEADER_BYTES_MAX && length % 4 == 0);
        Header { bytes, length: length as u8 }
    }

    /// The header's bytes, options included.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Header({:02x?})", self.as_bytes())
    }
}

/// A segment to send, or several for the device to cut.
#[derive(Debug, Clone)]
pub struct Transmit {
    /// The receiver.
    pub remote: SocketAddr,
    /// The address of ours that it is sent from.
    pub local: SocketAddr,
    /// The ECN field for the IP header.
    pub ecn: Ecn,
    /// The TCP header, checksum zero. If the device cuts the payload: CWR belongs on the first segment only, FIN and
    /// PSH on the last.
    pub header: Header,
    /// The payload, as offsets in the connection's send stream. Empty for control segments.
    pub payload: Range<u64>,
    /// Payload bytes of one segment on the wire. A longer payload has to be cut into pieces of this length, of which
    /// the last may be shorter.
    pub segment_bytes: u16,
}

impl Transmit {
    pub(crate) fn without_payload(pair: &Pair, header: Header) -> Self {
        let (remote, local) = (pair.remote, pair.local);
        Transmit { remote, local, ecn: Ecn::NotCapable, header, payload: 0..0, segment_bytes: 0 }
    }

    /// Payload bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        (self.payload.end - self.payload.start) as usize
    }
}
