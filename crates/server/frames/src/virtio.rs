//! The header before each frame of a TAP device (virtio 1.2 section 5.1.6, linux/virtio_net.h). It describes the work that one side leaves to the
//! other. Ten bytes, in native byte order.

use crate::compose::FrameHead;
use crate::drop_reason::DropReason;
use crate::parse::{
    Checksum, ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, Packet, ReceivedSegment, parse,
};
use std::net::IpAddr;

/// Its length.
pub const VIRTIO_BYTES: usize = 10;

/// The checksum has to be completed.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum is right.
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// In addition to the two above: the first segment has the CWR flag.
const GSO_ECN: u8 = 0x80;
/// The offset of the checksum in a TCP header.
const CHECKSUM_AT: u16 = 16;

/// Parses a frame with its header, as [`parse`](crate::parse()) does for one without.
///
/// # Errors
/// Why the frame is dropped.
pub fn parse_with_header(
    received: &[u8],
    ours: impl Fn(IpAddr) -> bool,
) -> Result<Packet<'_>, DropReason> {
    let (header, frame) = received.split_first_chunk().ok_or(DropReason::FrameBytes)?;
    let header = Arrived(*header);
    match parse(frame, header.checksum(), ours)? {
        Packet::Tcp(segment) => header.describe(segment).map(Packet::Tcp),
        other => Ok(other),
    }
}

/// The header of a received frame.
#[derive(Clone, Copy, Debug)]
struct Arrived([u8; VIRTIO_BYTES]);

impl Arrived {
    fn number(self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }

    /// `Verified` if the kernel vouches for the checksum: it has checked it, or has made the segment itself.
    fn checksum(self) -> Checksum {
        let vouched = self.0[0] & (NEEDS_CHECKSUM | DATA_VALID) != 0;
        if vouched { Checksum::Verified } else { Checksum::Unknown }
    }

    /// Checks that this header describes the segment. Adds to the segment how it was coalesced.
    fn describe<'a>(self, segment: ReceivedSegment<'a>) -> Result<ReceivedSegment<'a>, DropReason> {
        let is_v4 = segment.local.is_ipv4();
        let tcp_at = ETHERNET_BYTES + if is_v4 { IPV4_BYTES } else { IPV6_BYTES };
        let is_here = (usize::from(self.number(6)), self.number(8)) == (tcp_at, CHECKSUM_AT);
        if self.0[0] & NEEDS_CHECKSUM != 0 && !is_here {
            return Err(DropReason::Offload);
        }
        let coalesced_bytes = match (self.0[1] & !GSO_ECN, is_v4, self.number(4)) {
            (0, _, _) => None,
            (GSO_TCPV4, true, bytes @ 1..) | (GSO_TCPV6, false, bytes @ 1..) => Some(bytes),
            _ => return Err(DropReason::Offload),
        };
        Ok(ReceivedSegment { coalesced_bytes, ..segment })
    }
}

/// The header for a frame to send. It leaves the checksum to the kernel, and also the cutting into segments if the payload is longer than
/// `segment_bytes`.
pub(crate) fn header(head: &FrameHead, segment_bytes: u16) -> [u8; VIRTIO_BYTES] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Between, Hop, Mac};
    use proptest::prelude::*;

    const OURS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 2));

    fn frame(payload: &[u8]) -> (FrameHead, Vec<u8>) {
        let hop = Hop { destination: Mac([2; 6]), source: Mac([4; 6]), mtu_bytes: 1500 };
        let between = Between { local: [192, 0, 2, 1].into(), remote: OURS, ecn: 0 };
        let mut tcp = [0; 20];
        tcp[12..14].copy_from_slice(&[0x50, 0x10]);
        let mut head = FrameHead::tcp(&hop, between, &tcp, payload.len());
        head.leave_checksum();
        let frame = [head.bytes(), payload].concat();
        (head, frame)
    }

    fn parsed(header: [u8; VIRTIO_BYTES], payload: &[u8]) -> Result<Option<u16>, DropReason> {
        let received = [&header[..], &frame(payload).1].concat();
        match parse_with_header(&received, |address| address == OURS)? {
            Packet::Tcp(segment) => Ok(segment.coalesced_bytes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_we_say_of_a_frame_is_what_we_would_believe() {
        let payload = [7; 3000];
        let header = header(&frame(&payload).0, 1448);
        assert_eq!(parsed(header, &payload), Ok(Some(1448)));
        let header = super::header(&frame(b"short").0, 1448);
        assert_eq!(parsed(header, b"short"), Ok(None));
    }

    #[test]
    fn what_does_not_fit_the_frame_is_refused() {
        let good = header(&frame(&[7; 3000]).0, 1448);
        // Kind of segments, their length, where the checksum is.
        for (at, value) in [(1, GSO_TCPV6), (1, 3), (1, 5), (6, 20), (8, 6)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(parsed(bad, &[7; 3000]), Err(DropReason::Offload), "byte {at} is {value}");
        }
        let mut bad = good;
        bad[4..6].fill(0);
        assert_eq!(parsed(bad, &[7; 3000]), Err(DropReason::Offload));
        let mut unvouched = good;
        unvouched[0] = 0;
        assert_eq!(parsed(unvouched, &[7; 3000]), Err(DropReason::TcpChecksum));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse_with_header(&bytes, |_| true);
        }
    }
}
