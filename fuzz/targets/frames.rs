//! A frame of any bytes, as a TAP device delivers it: the kernel's header, then Ethernet, IP, TCP or ICMP.
//!
//! Checks that nothing panics; that an accepted segment is inside the frame, has a header within its limits, goes from another host to us, and has a
//! right checksum unless the kernel has already checked it; and that the answer to a ping has a right checksum and is no longer than the ping.

#![no_main]

use frames::checksum::Sum;
use frames::virtio::{VIRTIO_BYTES, parse_with_header};
use frames::{Checksum, Packet, icmp, parse};
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;

const ETHERNET_BYTES: usize = 14;

fn is_ours(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets() == [198, 51, 100, 2],
        IpAddr::V6(address) => address.segments()[0] == 0x2001 && address.segments()[7] == 2,
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses whether the checksums are corrected. The fuzzer would hardly find right ones by chance.
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut received = rest.to_vec();
    if first & 1 == 1 {
        make_right(received.get_mut(VIRTIO_BYTES..).unwrap_or_default());
    }
    match parse_with_header(&received, is_ours) {
        Ok(packet) => check(packet, &received[VIRTIO_BYTES..]),
        Err(_) => return,
    }
    let frame = &received[VIRTIO_BYTES..];
    if let Ok(packet) = parse(frame, Checksum::Unknown, is_ours) {
        check(packet, frame);
        check_sum(frame);
    }
});

fn check(packet: Packet<'_>, frame: &[u8]) {
    match packet {
        Packet::Tcp(segment) => {
            assert!(is_ours(segment.local) && !is_ours(segment.remote));
            assert_eq!(segment.local.is_ipv4(), segment.remote.is_ipv4());
            let header_bytes = usize::from(segment.bytes[12] >> 4) * 4;
            assert!((20..=segment.bytes.len()).contains(&header_bytes));
            assert!(frame.as_ptr_range().contains(&segment.bytes.as_ptr()));
            assert!(segment.bytes.as_ptr_range().end <= frame.as_ptr_range().end);
            assert_ne!(segment.coalesced_bytes, Some(0));
            assert!(segment.ecn < 4);
        }
        Packet::TooBig(told) => assert!(is_ours(told.local.ip())),
        Packet::Ping(ping) => {
            let mut answer = ping.to_vec();
            let bytes = icmp::answer_ping(&mut answer);
            assert!(bytes <= ping.len());
            assert_eq!((&answer[..6], &answer[6..12]), (&ping[6..12], &ping[..6]));
            check_sum(&answer);
        }
    }
}

/// Where the payload of IP starts, the sum of the bytes that its checksum covers before it, and the payload.
fn summed(frame: &[u8]) -> Option<(usize, Sum, &[u8])> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let is_v4 = ip.first()? >> 4 == 4;
    let header = if is_v4 { 20 } else { 40 };
    let at = |offset: usize| {
        Some(usize::from(u16::from_be_bytes([*ip.get(offset)?, *ip.get(offset + 1)?])))
    };
    let end = if is_v4 { at(2)? } else { 40 + at(4)? };
    let payload = ip.get(header..end)?;
    let protocol = ip[if is_v4 { 9 } else { 6 }];
    let mut sum = Sum::default();
    if protocol != 1 {
        sum.add(&ip[if is_v4 { 12..20 } else { 8..40 }]);
        sum.add(&(payload.len() as u32).to_be_bytes());
        sum.add(&[0, protocol]);
    }
    Some((ETHERNET_BYTES + header, sum, payload))
}

fn check_sum(frame: &[u8]) {
    let (_, mut sum, payload) = summed(frame).expect("what was taken is whole");
    sum.add(payload);
    assert!(sum.is_whole(), "a wrong checksum has passed");
}

/// Corrects the checksums of IPv4 and of the payload, if they exist.
fn make_right(frame: &mut [u8]) {
    if frame.len() < ETHERNET_BYTES + 20 {
        return;
    }
    if frame[ETHERNET_BYTES] >> 4 == 4 {
        frame[24..26].fill(0);
        let mut sum = Sum::default();
        sum.add(&frame[ETHERNET_BYTES..ETHERNET_BYTES + 20]);
        frame[24..26].copy_from_slice(&sum.checksum());
    }
    let protocol = frame[ETHERNET_BYTES + if frame[ETHERNET_BYTES] >> 4 == 4 { 9 } else { 6 }];
    let within = if protocol == 6 { 16 } else { 2 };
    let Some((at, mut sum, payload)) = summed(frame) else { return };
    if payload.len() < within + 2 {
        return;
    }
    sum.add(&payload[..within]);
    sum.add(&[0; 2]);
    sum.add(&payload[within + 2..]);
    let checksum = sum.checksum();
    frame[at + within..at + within + 2].copy_from_slice(&checksum);
}
