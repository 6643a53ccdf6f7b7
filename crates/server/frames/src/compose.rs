//! The headers of our frames: Ethernet, IP and TCP header in one place, to be followed by payload.
//!
//! IPv4 packets are atomic (RFC 6864 section 4.1): "don't fragment" is set, so the identification has no meaning and is 0.

use crate::checksum::Sum;
use crate::parse::{
    ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, Mac, PROTOCOL_TCP, TCP_BYTES, TYPE_IPV4, TYPE_IPV6,
};
use std::net::IpAddr;

/// The longest head: Ethernet, IPv6, and TCP with the most options.
pub const HEAD_BYTES_MAX: usize = ETHERNET_BYTES + IPV6_BYTES + TCP_HEADER_BYTES_MAX;

/// The most payload of one super-segment whose length fits its IP header: IPv4 counts header and payload in 16 bits, and a TCP header may have 60
/// bytes. IPv6 would allow 20 bytes more.
pub const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - IPV4_BYTES - TCP_HEADER_BYTES_MAX;

/// The most payload of a longer one, over IPv4 to a kernel that takes its length from the frame's (Linux 6.3, "BIG TCP"): a little less than the
/// 524,280 bytes that the kernel lets a device send at once. IPv6 has an extension header for it, which we don't write.
pub const LONG_PAYLOAD_BYTES_MAX: usize = 524_000 - IPV4_BYTES - TCP_HEADER_BYTES_MAX;

const TCP_HEADER_BYTES_MAX: usize = 60;
/// RFC 1700's recommendation, which is common practice.
const HOPS_MAX: u8 = 64;
/// FIN and PSH: for the last part of a super-segment only.
const LAST_ONLY: u8 = 0x01 | 0x08;
/// CWR: for the first part only (RFC 3168 section 6.1.2).
const FIRST_ONLY: u8 = 0x80;

/// The station that a frame goes to next, by its link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The station's address: the peer itself, or the router towards it.
    pub destination: Mac,
    /// Our own address.
    pub source: Mac,
    /// The largest IP packet on that path as far as the kernel knows, header included.
    pub mtu_bytes: u32,
}

/// The two ends of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// Our address.
    pub local: IpAddr,
    /// The peer's, of the same family.
    pub remote: IpAddr,
    /// The ECN field, two bits (RFC 3168 section 5).
    pub ecn: u8,
}

/// The head of one frame or of a super-segment.
#[derive(Clone, Debug)]
pub struct FrameHead {
    bytes: [u8; HEAD_BYTES_MAX],
    tcp_at: u8,
    head_bytes: u8,
    payload_bytes: u32,
    between: Between,
}

impl FrameHead {
    /// A head for `payload_bytes` after the TCP header `tcp`, options included. The checksum in `tcp` is ignored.
    ///
    /// # Panics
    /// If the addresses are of different families, or a length is impossible for TCP or IP.
    pub fn tcp(hop: &Hop, between: Between, tcp: &[u8], payload_bytes: usize) -> Self {
        assert!(tcp.len() >= TCP_BYTES && tcp.len() <= TCP_HEADER_BYTES_MAX && tcp.len() % 4 == 0);
        let most = if between.local.is_ipv4() { LONG_PAYLOAD_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
        assert!(payload_bytes <= most, "a super-segment is at most this long");
        assert_eq!(between.local.is_ipv4(), between.remote.is_ipv4(), "one family");
        let ip_bytes = if between.local.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
        let tcp_at = ETHERNET_BYTES + ip_bytes;
        let mut head = Self {
            bytes: [0; HEAD_BYTES_MAX],
            tcp_at: tcp_at as u8,
            head_bytes: (tcp_at + tcp.len()) as u8,
            payload_bytes: payload_bytes as u32,
            between,
        };
        head.bytes[..6].copy_from_slice(&hop.destination.0);
        head.bytes[6..12].copy_from_slice(&hop.source.0);
        head.bytes[tcp_at..tcp_at + tcp.len()].copy_from_slice(tcp);
        head.address();
        head.set_ip_bytes();
        head
    }

    /// Writes Ethernet's type and the IP header, except for the fields that depend on the payload.
    fn address(&mut self) {
        let Between { local, remote, ecn } = self.between;
        let ip = &mut self.bytes[12..];
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                ip[..2].copy_from_slice(&TYPE_IPV4);
                ip[2..4].copy_from_slice(&[0x45, ecn & 3]);
                // Don't fragment.
                ip[8] = 0x40;
                ip[10..12].copy_from_slice(&[HOPS_MAX, PROTOCOL_TCP]);
                ip[14..18].copy_from_slice(&local.octets());
                ip[18..22].copy_from_slice(&remote.octets());
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                ip[..2].copy_from_slice(&TYPE_IPV6);
                ip[2..4].copy_from_slice(&[0x60, (ecn & 3) << 4]);
                ip[8..10].copy_from_slice(&[PROTOCOL_TCP, HOPS_MAX]);
                ip[10..26].copy_from_slice(&local.octets());
                ip[26..42].copy_from_slice(&remote.octets());
            }
            _ => unreachable!("both are of one family"),
        }
    }

    /// Writes the IP header's length field, and IPv4's checksum. A length of 0 refers to the frame's.
    fn set_ip_bytes(&mut self) {
        let tcp_bytes = self.tcp_header_bytes() + self.payload_bytes();
        let ip = &mut self.bytes[ETHERNET_BYTES..];
        if self.between.local.is_ipv6() {
            ip[4..6].copy_from_slice(&(tcp_bytes as u16).to_be_bytes());
            return;
        }
        let ip_bytes = u16::try_from(IPV4_BYTES + tcp_bytes).unwrap_or(0);
        ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
        ip[10..12].fill(0);
        let mut sum = Sum::default();
        sum.add(&ip[..IPV4_BYTES]);
        ip[10..12].copy_from_slice(&sum.checksum());
    }

    /// The head's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.head_bytes)]
    }

    /// The length of the payload that follows.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes as usize
    }

    /// Returns true for IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.between.local.is_ipv4()
    }

    /// The offset of the TCP header.
    pub fn tcp_at(&self) -> usize {
        self.tcp_at.into()
    }

    /// Returns true if the segment has the CWR flag.
    pub(crate) fn has_cwr(&self) -> bool {
        self.bytes[self.tcp_at() + 13] & FIRST_ONLY != 0
    }

    fn tcp_header_bytes(&self) -> usize {
        usize::from(self.head_bytes - self.tcp_at)
    }

    fn pseudo_header(&self) -> Sum {
        let Between { local, remote, .. } = self.between;
        let bytes = self.tcp_header_bytes() + self.payload_bytes();
        Sum::pseudo_header(local, remote, PROTOCOL_TCP, bytes)
    }

    /// Leaves the checksum to the device: writes the pseudo-header's sum into the field.
    pub(crate) fn leave_checksum(&mut self) {
        let partial = self.pseudo_header().partial();
        self.set_checksum(partial);
    }

    /// Completes the checksum. `payload` is the sum of the bytes after the head.
    pub fn complete_checksum(&mut self, payload: Sum) {
        self.set_checksum([0; 2]);
        let mut sum = self.pseudo_header();
        sum.add(&self.bytes[self.tcp_at()..usize::from(self.head_bytes)]);
        // The header's length is even, so the payload's sum can be added unchanged.
        sum.add(&payload.partial());
        self.set_checksum(sum.checksum());
    }

    fn set_checksum(&mut self, checksum: [u8; 2]) {
        let at = self.tcp_at() + 16;
        self.bytes[at..at + 2].copy_from_slice(&checksum);
    }

    /// The head of one part of this super-segment: `bytes` of its payload, from `offset` on.
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let mut part = self.clone();
        let at = self.tcp_at();
        let tcp = &mut part.bytes[at..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        // Below 2^32, like every offset into a super-segment.
        tcp[4..8].copy_from_slice(&sequence.wrapping_add(offset as u32).to_be_bytes());
        if offset + bytes < self.payload_bytes() {
            tcp[13] &= !LAST_ONLY;
        }
        if offset > 0 {
            tcp[13] &= !FIRST_ONLY;
        }
        part.payload_bytes = bytes as u32;
        part.set_ip_bytes();
        part
    }
}
