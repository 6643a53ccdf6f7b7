//! Takes frames apart and checks them as a receiver would.

use super::*;
use proptest::prelude::*;

/// A super-segment of `payload` from port 1 to port 2, with sequence number `sequence` and `flags`.
fn super_segment(is_ipv6: bool, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let tcp_bytes = 32;
    if is_ipv6 {
        frame.extend(TYPE_IPV6);
        let mut ip = [0; IPV6_BYTES];
        ip[0] = 0x60;
        ip[6] = PROTOCOL_TCP;
        ip[8..].fill(0x20);
        frame.extend(ip);
    } else {
        frame.extend(TYPE_IPV4);
        let mut ip = [0; 20];
        ip[0] = 0x45;
        ip[4..6].copy_from_slice(&0xffff_u16.to_be_bytes());
        ip[9] = PROTOCOL_TCP;
        ip[12..].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(ip);
    }
    let mut tcp = vec![0; tcp_bytes];
    tcp[..4].copy_from_slice(&[0, 1, 0, 2]);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    tcp[12] = 0x80;
    tcp[13] = flags;
    frame.extend(tcp);
    frame.extend(payload);
    frame
}

fn offload(is_ipv6: bool, segment_bytes: usize) -> Offload {
    let gso_type = if is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
    Offload { needs_checksum: true, gso_type, segment_bytes, ..Offload::default() }
}

fn cut(offload: &Offload, frame: &mut [u8]) -> Result<Vec<Vec<u8>>, Refused> {
    let mut frames = Vec::new();
    make_whole(offload, frame, |frame| frames.push(frame.to_vec()))?;
    Ok(frames)
}

/// Checks lengths and checksums; returns sequence number, flags and payload.
fn receive(frame: &[u8]) -> (u32, u8, Vec<u8>) {
    let ip = &frame[14..];
    let tcp_start = if frame[12..14] == TYPE_IPV6 {
        assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip.len() - 40);
        40
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        assert_eq!(fold(sum(&ip[..20])), 0xffff, "the IP header's checksum");
        20
    };
    let addresses = if tcp_start == 40 { &ip[8..40] } else { &ip[12..20] };
    let tcp = &ip[tcp_start..];
    let pseudo = sum(addresses) + 6 + tcp.len() as u64;
    assert_eq!(fold(pseudo + sum(tcp)), 0xffff, "TCP's checksum");
    let sequence = u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes"));
    (sequence, tcp[13], tcp[32..].to_vec())
}

proptest! {
    #[test]
    fn a_super_segment_is_cut_into_segments_that_carry_the_same_bytes(
        is_ipv6: bool,
        sequence: u32,
        payload in prop::collection::vec(any::<u8>(), 0..20_000),
        segment_bytes in 500_usize..9000,
    ) {
        let mut frame = super_segment(is_ipv6, sequence, 0x10 | FIN | PSH | CWR, &payload);
        let frames = cut(&offload(is_ipv6, segment_bytes), &mut frame).expect("sound");
        let mut carried = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            let (at, flags, bytes) = receive(frame);
            prop_assert_eq!(at, sequence.wrapping_add(carried.len() as u32));
            prop_assert_eq!(flags & CWR != 0, index == 0);
            prop_assert_eq!(flags & (FIN | PSH) != 0, index + 1 == frames.len());
            prop_assert!(bytes.len() <= segment_bytes);
            carried.extend(bytes);
        }
        prop_assert_eq!(carried, payload);
    }

    #[test]
    fn nothing_that_a_sender_says_makes_it_panic(
        header: [u8; OFFLOAD_BYTES],
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        kind in 0_u8..6,
        is_ip: bool,
    ) {
        let mut header = header;
        header[1] = kind;
        if is_ip && frame.len() > 24 {
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[23] = PROTOCOL_TCP;
        }
        let _ = cut(&Offload::parse(&header), &mut frame);
    }
}

#[test]
fn an_undone_checksum_is_completed() {
    let mut frame = super_segment(false, 7, 0x10, b"abc");
    let total = u16::try_from(frame.len() - 14).expect("small");
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    let header_checksum = !fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header_checksum.to_be_bytes());
    let pseudo = fold(sum(&frame[26..34]) + 6 + (frame.len() - 34) as u64);
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let mut header = [0; OFFLOAD_BYTES];
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&34_u16.to_ne_bytes());
    header[8..10].copy_from_slice(&16_u16.to_ne_bytes());
    let frames = cut(&Offload::parse(&header), &mut frame).expect("sound");
    assert_eq!(receive(&frames[0]), (7, 0x10, b"abc".to_vec()));
}

/// tshark reports the other zero as a wrong TCP checksum.
#[test]
fn a_checksum_of_zero_is_written_in_udp_only_as_the_other_zero() {
    for (checksum_at, expected) in [(16, [0, 0]), (UDP_CHECKSUM_AT, [0xff, 0xff])] {
        let mut frame = vec![0; 60];
        frame[34 + checksum_at..][..2].fill(0xff);
        let offload = Offload {
            needs_checksum: true,
            checksum_start: 34,
            checksum_offset: checksum_at,
            ..Offload::default()
        };
        let frames = cut(&offload, &mut frame).expect("sound");
        assert_eq!(frames[0][34 + checksum_at..][..2], expected, "at {checksum_at}");
    }
}

#[test]
fn a_frame_that_needs_nothing_passes_as_it_is() {
    let mut frame = vec![9; 60];
    assert_eq!(cut(&Offload::default(), &mut frame), Ok(vec![vec![9; 60]]));
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let udp = Offload { gso_type: 5, ..offload(false, 1000) };
    assert_eq!(cut(&udp, &mut [0; 60]), Err(Refused::UnknownOffload));
    assert_eq!(cut(&offload(false, 1000), &mut [0; 60]), Err(Refused::UnknownOffload), "not IP");
    let mut short = super_segment(false, 1, 0x10, b"");
    short.truncate(50);
    assert_eq!(cut(&offload(false, 1000), &mut short), Err(Refused::Malformed));
    let mut sound = super_segment(false, 1, 0x10, b"abc");
    assert_eq!(cut(&offload(false, 0), &mut sound), Err(Refused::Malformed));
}
