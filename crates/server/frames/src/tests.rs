//! Parsing and composing frames, without a device.

use super::checksum::Sum;
use super::parse::{ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES};
use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

const HOP: Hop = Hop { destination: Mac([2; 6]), source: Mac([4; 6]), mtu_bytes: 1500 };

fn addresses(is_v4: bool) -> (IpAddr, IpAddr) {
    if is_v4 {
        (IpAddr::from([192, 0, 2, 1]), IpAddr::from([198, 51, 100, 2]))
    } else {
        ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap())
    }
}

fn header(flags: u8) -> [u8; 20] {
    let mut header = [0; 20];
    header[..8].copy_from_slice(&[1, 187, 0xc3, 0x50, 0xff, 0xff, 0xff, 0xf0]);
    header[12..14].copy_from_slice(&[0x50, flags]);
    header
}

/// A whole frame with a right checksum.
fn frame(is_v4: bool, payload: &[u8]) -> Vec<u8> {
    let (local, remote) = addresses(is_v4);
    let mut head =
        FrameHead::tcp(&HOP, Between { local, remote, ecn: 2 }, &header(0x18), payload.len());
    let mut sum = Sum::default();
    sum.add(payload);
    head.complete_checksum(sum);
    [head.bytes(), payload].concat()
}

/// The frame as the peer of [`frame`] parses it.
fn parsed(frame: &[u8], is_v4: bool, checksum: Checksum) -> Result<Packet<'_>, DropReason> {
    let peer = addresses(is_v4).1;
    parse(frame, checksum, |address| address == peer)
}

fn refused(frame: &[u8], is_v4: bool) -> DropReason {
    parsed(frame, is_v4, Checksum::Unknown).unwrap_err()
}

#[test]
fn what_is_composed_is_taken_apart_again() {
    for (is_v4, payload) in [(true, &b"film"[..]), (false, b"films"), (true, b""), (false, b"x")] {
        let frame = frame(is_v4, payload);
        let Ok(Packet::Tcp(segment)) = parsed(&frame, is_v4, Checksum::Unknown) else {
            panic!("{:?}", parsed(&frame, is_v4, Checksum::Unknown))
        };
        let (local, remote) = addresses(is_v4);
        assert_eq!((segment.remote, segment.local), (local, remote));
        assert_eq!((segment.ecn, segment.station), (2, HOP.source));
        assert_eq!(&segment.bytes[20..], payload);
    }
}

#[test]
fn a_packet_too_long_for_its_length_field_says_0_and_keeps_its_checksums() {
    let (local, remote) = addresses(true);
    let between = Between { local, remote, ecn: 0 };
    for (payload_bytes, said) in [(65_495, 65_535), (65_496, 0), (LONG_PAYLOAD_BYTES_MAX, 0)] {
        let head = FrameHead::tcp(&HOP, between, &header(0x10), payload_bytes);
        let ip = &head.bytes()[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES];
        assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), said);
        let mut sum = Sum::default();
        sum.add(ip);
        assert!(sum.is_whole(), "{payload_bytes}");
        let last = head.part(payload_bytes - 100, 100);
        assert_eq!(last.bytes()[ETHERNET_BYTES + 2..ETHERNET_BYTES + 4], 140u16.to_be_bytes());
        let first = u32::from_be_bytes(*header(0)[4..].first_chunk().unwrap());
        let sequence = u32::from_be_bytes(*last.bytes()[38..].first_chunk().unwrap());
        assert_eq!(sequence.wrapping_sub(first) as usize, payload_bytes - 100);
    }
}

#[test]
fn padding_of_short_frames_is_not_payload() {
    let mut frame = frame(true, b"");
    frame.resize(60, 0xaa);
    let Ok(Packet::Tcp(segment)) = parsed(&frame, true, Checksum::Unknown) else { panic!() };
    assert_eq!(segment.bytes.len(), 20);
}

#[test]
fn one_flipped_bit_is_noticed() {
    for is_v4 in [true, false] {
        let good = frame(is_v4, b"some film or other");
        // Not the Ethernet header, and not IPv6's traffic class, flow label and hop limit: no checksum covers those.
        let covered = if is_v4 { ETHERNET_BYTES..good.len() } else { 54..good.len() };
        for bit in covered.start * 8..covered.end * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parsed(&bad, is_v4, Checksum::Unknown).is_err(), "bit {bit} of {is_v4}");
        }
    }
}

#[test]
fn a_checksum_that_is_vouched_for_is_not_looked_at() {
    let mut frame = frame(false, b"film");
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(refused(&frame, false), DropReason::TcpChecksum);
    assert!(parsed(&frame, false, Checksum::Verified).is_ok());
}

#[test]
fn a_partial_checksum_is_taken_only_where_the_sender_may_be_this_machine() {
    for is_v4 in [true, false] {
        let (local, remote) = addresses(is_v4);
        let mut head = FrameHead::tcp(&HOP, Between { local, remote, ecn: 0 }, &header(0x10), 3);
        head.leave_checksum();
        let frame = [head.bytes(), b"abc"].concat();
        assert_eq!(refused(&frame, is_v4), DropReason::TcpChecksum);
        assert!(parsed(&frame, is_v4, Checksum::PerhapsPartial).is_ok());
    }
}

/// Changes a frame and corrects its IPv4 header checksum.
fn with(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame(true, b"film");
    change(&mut frame);
    if frame.len() >= ETHERNET_BYTES + IPV4_BYTES {
        frame[24..26].fill(0);
        let mut sum = Sum::default();
        sum.add(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]);
        frame[24..26].copy_from_slice(&sum.checksum());
    }
    frame
}

#[test]
fn each_kind_of_bad_ipv4_frame_has_its_own_reason() {
    let cases: [(DropReason, Vec<u8>); 14] = [
        (DropReason::FrameBytes, vec![0; 13]),
        (DropReason::NotIp, with(|frame| frame[12..14].copy_from_slice(&[8, 6]))),
        (DropReason::NotIp, with(|frame| frame[12..14].copy_from_slice(&[0x81, 0]))),
        (DropReason::IpHeader, with(|frame| frame[14] = 0x44)),
        (DropReason::IpHeader, with(|frame| frame[14] = 0x65)),
        (DropReason::IpBytes, with(|frame| frame[16..18].copy_from_slice(&[0, 19]))),
        (DropReason::IpBytes, with(|frame| frame[16..18].copy_from_slice(&[9, 0]))),
        (DropReason::Options, with(|frame| frame[14] = 0x46)),
        (DropReason::Fragment, with(|frame| frame[20] = 0x20)),
        (DropReason::Fragment, with(|frame| frame[21] = 1)),
        (DropReason::OtherProtocol, with(|frame| frame[23] = 17)),
        (DropReason::NotOurs, with(|frame| frame[33] ^= 1)),
        (DropReason::TcpHeader, with(|frame| frame[46] = 0x40)),
        (DropReason::TcpHeader, with(|frame| frame[46] = 0xf0)),
    ];
    for (reason, frame) in cases {
        assert_eq!(refused(&frame, true), reason, "{frame:02x?}");
    }
    let mut frame = frame(true, b"film");
    frame[24] ^= 1;
    assert_eq!(refused(&frame, true), DropReason::IpChecksum);
}

#[test]
fn nobody_can_be_everybody_or_us() {
    for source in
        [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], [198, 51, 100, 2]]
    {
        let frame = with(|frame| frame[26..30].copy_from_slice(&source));
        assert_eq!(refused(&frame, true), DropReason::Source, "{source:?}");
    }
}

#[test]
fn each_kind_of_bad_ipv6_frame_has_its_own_reason() {
    let with = |at: usize, value: u8| {
        let mut frame = frame(false, b"film");
        frame[at] = value;
        frame
    };
    assert_eq!(refused(&with(14, 0x40), false), DropReason::IpHeader);
    assert_eq!(refused(&with(18, 1), false), DropReason::IpBytes);
    assert_eq!(refused(&with(20, 44), false), DropReason::Fragment);
    assert_eq!(refused(&with(20, 60), false), DropReason::Options);
    assert_eq!(refused(&with(20, 17), false), DropReason::OtherProtocol);
    assert_eq!(refused(&with(19, 3), false), DropReason::TcpHeader);
    assert_eq!(refused(&frame(false, b"")[..53], false), DropReason::IpHeader);
}

#[test]
fn parts_of_a_super_segment_are_segments() {
    let payload: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    for is_v4 in [true, false] {
        let (local, remote) = addresses(is_v4);
        let between = Between { local, remote, ecn: 1 };
        // FIN, PSH, ACK, CWR.
        let head = FrameHead::tcp(&HOP, between, &header(0x99), payload.len());
        let mut joined = Vec::new();
        for (index, part) in payload.chunks(1448).enumerate() {
            let mut segment = head.part(index * 1448, part.len());
            let mut sum = Sum::default();
            sum.add(part);
            segment.complete_checksum(sum);
            let frame = [segment.bytes(), part].concat();
            let Ok(Packet::Tcp(segment)) = parsed(&frame, is_v4, Checksum::Unknown) else {
                panic!()
            };
            let sequence = u32::from_be_bytes(*segment.bytes[4..].first_chunk().unwrap());
            assert_eq!(sequence, 0xffff_fff0u32.wrapping_add(index as u32 * 1448));
            let flags = [0x90, 0x10, 0x10, 0x19][index];
            assert_eq!(segment.bytes[13], flags, "segment {index}");
            joined.extend_from_slice(&segment.bytes[20..]);
        }
        assert_eq!(joined, payload);
    }
}

/// An ICMP message in an IP packet, with right checksums.
fn icmp(is_v4: bool, message: &[u8]) -> Vec<u8> {
    let mut frame = frame(is_v4, &[]);
    frame.truncate(ETHERNET_BYTES + if is_v4 { IPV4_BYTES } else { IPV6_BYTES });
    let (source, destination) = addresses(is_v4);
    let mut sum = Sum::default();
    if is_v4 {
        frame[16..18].copy_from_slice(&((IPV4_BYTES + message.len()) as u16).to_be_bytes());
        frame[23] = 1;
        frame[24..26].fill(0);
        let mut sum = Sum::default();
        sum.add(&frame[ETHERNET_BYTES..]);
        frame[24..26].copy_from_slice(&sum.checksum());
    } else {
        frame[18..20].copy_from_slice(&(message.len() as u16).to_be_bytes());
        frame[20] = 58;
        sum = Sum::pseudo_header(source, destination, 58, message.len());
    }
    let at = frame.len();
    frame.extend_from_slice(message);
    sum.add(message);
    frame[at + 2..at + 4].copy_from_slice(&sum.checksum());
    frame
}

#[test]
fn a_router_says_what_did_not_fit() {
    for is_v4 in [true, false] {
        // A packet that the peer of `frame` had received from us.
        let (remote, local) = addresses(is_v4);
        let head = FrameHead::tcp(&HOP, Between { local, remote, ecn: 0 }, &header(0x10), 9000);
        let kind =
            if is_v4 { [3, 4, 0, 0, 0, 0, 0x05, 0x14] } else { [2, 0, 0, 0, 0, 0, 0x05, 0x14] };
        let quoted = &head.bytes()[ETHERNET_BYTES..];
        let frame = icmp(is_v4, &[&kind[..], quoted].concat());
        let expected = TooBig {
            local: (local, 443).into(),
            remote: (remote, 50_000).into(),
            sequence: 0xffff_fff0,
            mtu_bytes: 1300,
        };
        assert_eq!(parsed(&frame, is_v4, Checksum::Unknown), Ok(Packet::TooBig(expected)));
        let mut bad = frame.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(refused(&bad, is_v4), DropReason::Icmp);
        let cut = icmp(is_v4, &[&kind[..], &quoted[..quoted.len() - 13]].concat());
        assert_eq!(refused(&cut, is_v4), DropReason::Icmp);
        // About a packet of another host.
        let head =
            FrameHead::tcp(&HOP, Between { local: remote, remote: local, ecn: 0 }, &header(0), 0);
        let frame = icmp(is_v4, &[&kind[..], &head.bytes()[ETHERNET_BYTES..]].concat());
        assert_eq!(refused(&frame, is_v4), DropReason::Icmp);
    }
}

/// The second message consists of zeroes only once it is an answer (found by the fuzzer). Updating the checksum
/// incrementally gives 0 there, where 0xffff is right (RFC 1624 section 5).
#[test]
fn the_answer_to_a_ping_is_right_and_goes_back() {
    for (is_v4, rest) in
        [(true, [1, 2, 3, 4]), (true, [0; 4]), (false, [1, 2, 3, 4]), (false, [0; 4])]
    {
        let kind = if is_v4 { 8 } else { 128 };
        let mut frame = icmp(is_v4, &[&[kind, 0, 0, 0, 0, 0, 0], &rest[..]].concat());
        assert!(matches!(parsed(&frame, is_v4, Checksum::Unknown), Ok(Packet::Ping(_))));
        let whole = frame.len();
        assert_eq!(icmp::answer_ping(&mut frame), whole);
        let asker = addresses(is_v4).0;
        // It is an ICMP message with a right checksum, but of a kind that is not used here.
        let answer = parse(&frame, Checksum::Unknown, |address| address == asker);
        assert_eq!(answer, Err(DropReason::OtherProtocol));
        assert_eq!(frame[..6], HOP.source.0);
        assert_eq!(frame[if is_v4 { 34 } else { 54 }], if is_v4 { 0 } else { 129 });
    }
}

proptest! {
    #[test]
    fn no_frame_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), checksum in 0..3usize) {
        let checksum = [Checksum::Verified, Checksum::Unknown, Checksum::PerhapsPartial][checksum];
        let _ = parse(&bytes, checksum, |_| true);
    }

    #[test]
    fn no_damage_to_a_good_frame_makes_it_panic(
        is_v4 in any::<bool>(),
        is_icmp in any::<bool>(),
        changes in proptest::collection::vec((0..90usize, any::<u8>()), 1..6),
        cut in 0..90usize,
    ) {
        let mut frame = if is_icmp {
            icmp(is_v4, &[8, 0, 0, 0, 1, 2, 3, 4])
        } else {
            frame(is_v4, b"a film of some length")
        };
        for (at, value) in changes {
            let at = at % frame.len();
            frame[at] = value;
        }
        frame.truncate(frame.len() - cut.min(frame.len()) / 3);
        if let Ok(Packet::Ping(_)) = parse(&frame.clone(), Checksum::Verified, |_| true) {
            let bytes = frame.len();
            prop_assert!(icmp::answer_ping(&mut frame) <= bytes);
        }
    }
}
