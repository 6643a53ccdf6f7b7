//! The two kinds of ICMP message (RFC 792, RFC 4443) that matter here: a router reports a packet that was too big, and
//! pings.
//!
//! A message about a packet quotes its beginning. Messages that are not about a connection of one of our addresses are refused. TCP must check
//! whether there is such a connection, and whether the quoted sequence number is in its window, because anyone can send such a message (RFC 5927
//! section 4).

use crate::checksum::Sum;
use crate::drop_reason::DropReason;
use crate::parse::{
    ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, Ip, PROTOCOL_ICMPV6, PROTOCOL_TCP, Packet,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// "Destination unreachable: fragmentation needed and DF set" (RFC 1191 section 4), "packet too big" (RFC 4443 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Our end of the connection.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The sequence number of the segment that did not fit.
    pub sequence: u32,
    /// The size that fits, IP header included. It may be anything: 0 from old routers, or less than IP's minimum from
    /// attackers.
    pub mtu_bytes: u32,
}

/// Parses an ICMP message.
pub(crate) fn parse<'a>(
    ip: &Ip<'a>,
    frame: &'a [u8],
    ours: impl Fn(IpAddr) -> bool,
) -> Result<Packet<'a>, DropReason> {
    let (head, quoted) = ip.payload.split_at_checked(8).ok_or(DropReason::Icmp)?;
    let mut sum = match ip.source {
        IpAddr::V4(_) => Sum::default(),
        IpAddr::V6(_) => {
            Sum::pseudo_header(ip.source, ip.destination, PROTOCOL_ICMPV6, ip.payload.len())
        }
    };
    sum.add(ip.payload);
    if !sum.is_whole() {
        return Err(DropReason::Icmp);
    }
    let is_v6 = ip.protocol == PROTOCOL_ICMPV6;
    if is_v6 != ip.source.is_ipv6() {
        return Err(DropReason::Icmp);
    }
    match (is_v6, head[0], head[1]) {
        (false, 8, 0) | (true, 128, 0) => Ok(Packet::Ping(frame)),
        (false, 3, 4) => {
            let mtu_bytes = u16::from_be_bytes([head[6], head[7]]).into();
            quoted_segment(quoted_ipv4(quoted)?, mtu_bytes, ours)
        }
        (true, 2, 0) => {
            let mtu_bytes = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            quoted_segment(quoted_ipv6(quoted)?, mtu_bytes, ours)
        }
        _ => Err(DropReason::OtherProtocol),
    }
}

/// Source, destination, and the first eight bytes of a TCP header.
type Quoted = (IpAddr, IpAddr, [u8; 8]);

/// The quoted packet as the router had it: cut off, and perhaps with a wrong header checksum.
fn quoted_ipv4(packet: &[u8]) -> Result<Quoted, DropReason> {
    let packet = packet.first_chunk::<{ IPV4_BYTES + 8 }>().ok_or(DropReason::Icmp)?;
    if packet[0] != 0x45 || packet[9] != PROTOCOL_TCP {
        return Err(DropReason::Icmp);
    }
    let address =
        |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    Ok((address(12).into(), address(16).into(), tail(packet)))
}

fn quoted_ipv6(packet: &[u8]) -> Result<Quoted, DropReason> {
    let packet = packet.first_chunk::<{ IPV6_BYTES + 8 }>().ok_or(DropReason::Icmp)?;
    if packet[0] >> 4 != 6 || packet[6] != PROTOCOL_TCP {
        return Err(DropReason::Icmp);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&packet[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    Ok((address(8).into(), address(24).into(), tail(packet)))
}

fn tail(packet: &[u8]) -> [u8; 8] {
    *packet.last_chunk().expect("both quotations end with eight bytes of TCP header")
}

fn quoted_segment<'a>(
    (source, destination, tcp): Quoted,
    mtu_bytes: u32,
    ours: impl Fn(IpAddr) -> bool,
) -> Result<Packet<'a>, DropReason> {
    if !ours(source) {
        return Err(DropReason::Icmp);
    }
    let [a, b, c, d, sequence @ ..] = tcp;
    Ok(Packet::TooBig(TooBig {
        local: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        remote: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
        sequence: u32::from_be_bytes(sequence),
        mtu_bytes,
    }))
}

/// Turns a ping ([`Packet::Ping`]) into its answer, in place. Returns the length of the answer in the frame.
///
/// # Panics
/// Possibly, if it is not a ping.
pub fn answer_ping(frame: &mut [u8]) -> usize {
    swap(frame, 0, 6, 6);
    let (ether, ip) = frame.split_at_mut(ETHERNET_BYTES);
    let is_v6 = ip[0] >> 4 == 6;
    let length = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    let (header_bytes, bytes, answer) =
        if is_v6 { (IPV6_BYTES, IPV6_BYTES + length(4), 129) } else { (IPV4_BYTES, length(2), 0) };
    let (addresses, address_bytes) = if is_v6 { (8, 16) } else { (12, 4) };
    swap(ip, addresses, addresses + address_bytes, address_bytes);
    let (header, message) = ip[..bytes].split_at_mut(header_bytes);
    message[0] = answer;
    message[2..4].fill(0);
    let mut sum = Sum::default();
    if is_v6 {
        // The pseudo-header; the order of the addresses does not matter.
        sum.add(&header[addresses..]);
        sum.add(&(message.len() as u32).to_be_bytes());
        sum.add(&[0, PROTOCOL_ICMPV6]);
    }
    sum.add(message);
    message[2..4].copy_from_slice(&sum.checksum());
    ether.len() + bytes
}

fn swap(frame: &mut [u8], first: usize, second: usize, bytes: usize) {
    let (left, right) = frame.split_at_mut(second);
    left[first..first + bytes].swap_with_slice(&mut right[..bytes]);
}
