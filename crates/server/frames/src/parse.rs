//! Parses frames: Ethernet (IEEE 802.3), IPv4 (RFC 791), IPv6 (RFC 8200), as far as TCP needs them.
//!
//! All input comes from strangers. Whatever the bytes are, the result is a packet or a [`DropReason`]: nothing panics, nothing is allocated, and all
//! lengths are checked. Fragments, options and extension headers are refused: a web server's peers send none, and attacks are made of them.

use crate::checksum::Sum;
use crate::drop_reason::DropReason;
use crate::icmp::{self, TooBig};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Destination, source and type.
pub const ETHERNET_BYTES: usize = 14;
/// An IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// An IPv6 header.
pub const IPV6_BYTES: usize = 40;
/// A TCP header without options.
pub const TCP_BYTES: usize = 20;

pub(crate) const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
pub(crate) const PROTOCOL_ICMP: u8 = 1;
pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

/// The knowledge about the checksum of a frame's TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The device, or the kernel that made the segment, has checked it.
    Verified,
    /// Nothing is known: it is verified here.
    Unknown,
    /// Nothing is known, and the sender may be this machine's kernel, which leaves a checksum for a device to complete. So the sum of the
    /// pseudo-header alone is accepted too.
    PerhapsPartial,
}

/// An arrived TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSegment<'a> {
    /// The sender.
    pub remote: IpAddr,
    /// The address of ours that it was sent to.
    pub local: IpAddr,
    /// The ECN field of the IP header, two bits (RFC 3168 section 5).
    pub ecn: u8,
    /// The station that the frame came from: the sender, or the router before us.
    pub station: Mac,
    /// TCP header and payload. The checksum is verified, and the header's length is checked.
    pub bytes: &'a [u8],
    /// If the kernel coalesced several segments into this one: the payload length of each except the last.
    pub coalesced_bytes: Option<u16>,
}

/// An arrived packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(ReceivedSegment<'a>),
    /// A router cannot forward segments as large as the ones we send.
    TooBig(TooBig),
    /// A ping: the whole frame.
    Ping(&'a [u8]),
}

/// A checked IP header.
pub(crate) struct Ip<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ecn: u8,
    pub(crate) protocol: u8,
    pub(crate) payload: &'a [u8],
}

/// Parses a frame. `ours` returns true for our own addresses.
///
/// # Errors
/// Why the frame is dropped.
pub fn parse(
    frame: &[u8],
    checksum: Checksum,
    ours: impl Fn(IpAddr) -> bool,
) -> Result<Packet<'_>, DropReason> {
    let (header, rest) = frame.split_at_checked(ETHERNET_BYTES).ok_or(DropReason::FrameBytes)?;
    let ip = match [header[12], header[13]] {
        TYPE_IPV4 => ipv4(rest)?,
        TYPE_IPV6 => ipv6(rest)?,
        _ => return Err(DropReason::NotIp),
    };
    if !ours(ip.destination) {
        return Err(DropReason::NotOurs);
    }
    if !may_be_a_source(ip.source) || ours(ip.source) {
        return Err(DropReason::Source);
    }
    match ip.protocol {
        PROTOCOL_TCP => tcp(&ip, checksum, station(header)).map(Packet::Tcp),
        PROTOCOL_ICMP | PROTOCOL_ICMPV6 => icmp::parse(&ip, frame, ours),
        _ => Err(DropReason::OtherProtocol),
    }
}

fn station(header: &[u8]) -> Mac {
    let mut mac = Mac::default();
    mac.0.copy_from_slice(&header[6..12]);
    mac
}

/// Checks an IPv4 header (RFC 791 section 3.1), its checksum and lengths.
pub(crate) fn ipv4(packet: &[u8]) -> Result<Ip<'_>, DropReason> {
    let header = packet.first_chunk::<IPV4_BYTES>().ok_or(DropReason::IpHeader)?;
    match header[0] {
        0x45 => {}
        0x46..=0x4f => return Err(DropReason::Options),
        _ => return Err(DropReason::IpHeader),
    }
    let mut sum = Sum::default();
    sum.add(header);
    if !sum.is_whole() {
        return Err(DropReason::IpChecksum);
    }
    let bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // Any further bytes are Ethernet's padding.
    let payload = packet.get(IPV4_BYTES..bytes).ok_or(DropReason::IpBytes)?;
    // A first or later fragment: the two upper flags are "reserved" and "don't fragment".
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(DropReason::Fragment);
    }
    let address = |at: usize| {
        IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]))
    };
    Ok(Ip {
        source: address(12),
        destination: address(16),
        ecn: header[1] & 3,
        protocol: header[9],
        payload,
    })
}

/// Checks an IPv6 header (RFC 8200 section 3) and its length.
pub(crate) fn ipv6(packet: &[u8]) -> Result<Ip<'_>, DropReason> {
    let header = packet.first_chunk::<IPV6_BYTES>().ok_or(DropReason::IpHeader)?;
    if header[0] >> 4 != 6 {
        return Err(DropReason::IpHeader);
    }
    let bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = packet.get(IPV6_BYTES..IPV6_BYTES + bytes).ok_or(DropReason::IpBytes)?;
    match header[6] {
        // Hop-by-hop, routing, ESP, AH, destination options, mobility, HIP, shim6, two for experiments.
        0 | 43 | 50 | 51 | 60 | 135 | 139 | 140 | 253 | 254 => return Err(DropReason::Options),
        44 => return Err(DropReason::Fragment),
        _ => {}
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Ok(Ip {
        source: address(8),
        destination: address(24),
        ecn: header[1] >> 4 & 3,
        protocol: header[6],
        payload,
    })
}

/// Returns true if a host may have this address (RFC 1122 section 3.2.1.3, RFC 4291 section 2.7).
fn may_be_a_source(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.octets()[0] >= 240);
    !(is_broadcast || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Reads the part of a TCP header that is needed to find the payload, and verifies the checksum.
fn tcp<'a>(
    ip: &Ip<'a>,
    checksum: Checksum,
    station: Mac,
) -> Result<ReceivedSegment<'a>, DropReason> {
    let bytes = ip.payload;
    let header_bytes = usize::from(bytes.get(12).ok_or(DropReason::TcpHeader)? >> 4) * 4;
    if header_bytes < TCP_BYTES || header_bytes > bytes.len() {
        return Err(DropReason::TcpHeader);
    }
    if checksum != Checksum::Verified && !is_right(ip, checksum) {
        return Err(DropReason::TcpChecksum);
    }
    let (remote, local) = (ip.source, ip.destination);
    Ok(ReceivedSegment { remote, local, ecn: ip.ecn, station, bytes, coalesced_bytes: None })
}

fn is_right(ip: &Ip<'_>, checksum: Checksum) -> bool {
    let pseudo = Sum::pseudo_header(ip.source, ip.destination, PROTOCOL_TCP, ip.payload.len());
    let is_partial = ip.payload[16..18] == pseudo.partial();
    if checksum == Checksum::PerhapsPartial && is_partial {
        return true;
    }
    let mut sum = pseudo;
    sum.add(ip.payload);
    sum.is_whole()
}
