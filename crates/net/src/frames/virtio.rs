//! The header that precedes each frame of a TAP device (virtio 1.2 section 5.1.6, linux/virtio_net.h): what the other side
//! has left to us, or we leave to it. Ten bytes, in the machine's byte order.

use crate::frames::compose::Head;
use crate::frames::parse::{Checksum, ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, Segment};
use crate::frames::refusal::Refusal;

/// Its length.
pub(crate) const VIRTIO_BYTES: usize = 10;

/// The checksum has to be completed.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum is right.
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Beside the two above: the first segment says CWR.
const GSO_ECN: u8 = 0x80;
/// Where a TCP header has its checksum.
const CHECKSUM_AT: u16 = 16;

/// What the header of a received frame says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived([u8; VIRTIO_BYTES]);

impl Arrived {
    pub(crate) fn new(header: [u8; VIRTIO_BYTES]) -> Self {
        Self(header)
    }

    fn number(self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }

    /// Whether the kernel vouches for the segment: it has looked, or has made the segment itself.
    pub(crate) fn checksum(self) -> Checksum {
        let vouched = self.0[0] & (NEEDS_CHECKSUM | DATA_VALID) != 0;
        if vouched { Checksum::Verified } else { Checksum::Unknown }
    }

    /// Whether this describes that segment. Adds to the segment how it was coalesced.
    pub(crate) fn describe<'a>(self, segment: Segment<'a>) -> Result<Segment<'a>, Refusal> {
        let is_v4 = segment.local.is_ipv4();
        let tcp_at = ETHERNET_BYTES + if is_v4 { IPV4_BYTES } else { IPV6_BYTES };
        let is_here = (usize::from(self.number(6)), self.number(8)) == (tcp_at, CHECKSUM_AT);
        if self.0[0] & NEEDS_CHECKSUM != 0 && !is_here {
            return Err(Refusal::Offload);
        }
        let coalesced_bytes = match (self.0[1] & !GSO_ECN, is_v4, self.number(4)) {
            (0, _, _) => None,
            (GSO_TCPV4, true, bytes @ 1..) | (GSO_TCPV6, false, bytes @ 1..) => Some(bytes),
            _ => return Err(Refusal::Offload),
        };
        Ok(Segment { coalesced_bytes, ..segment })
    }
}

/// The header for a frame of ours: the checksum is left to the kernel, and where there is more payload than
/// `segment_bytes`, so is cutting it into segments.
pub(crate) fn header(head: &Head, segment_bytes: u16) -> [u8; VIRTIO_BYTES] {
    let mut header = [0; VIRTIO_BYTES];
    header[0] = NEEDS_CHECKSUM;
    if head.payload_bytes() > segment_bytes.into() {
        header[1] = if head.is_ipv4() { GSO_TCPV4 } else { GSO_TCPV6 };
        if head.has_cwr() {
            header[1] |= GSO_ECN;
        }
        header[2..4].copy_from_slice(&(head.bytes().len() as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&segment_bytes.to_ne_bytes());
    }
    header[6..8].copy_from_slice(&(head.tcp_at() as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&CHECKSUM_AT.to_ne_bytes());
    header
}
