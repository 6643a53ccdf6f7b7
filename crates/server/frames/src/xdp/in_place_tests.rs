//! Frames whose payload is sent in place, over a pair of `veth` to another AF_XDP socket, which checks their sums.

use super::XdpSetup;
use super::in_place::BuffersInPlace;
use crate::compose::{Between, FrameHead, Hop};
use crate::drop_reason::DropReason;
use crate::parse::{Mac, Packet};
use crate::{Device, Kept};
use fullbore_tests::{Namespace, until};
use reactor::{Buffer, Pool, PoolOptions};
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;

const BLOCKS: BuffersInPlace = BuffersInPlace { bytes: 96 << 10, count: 4, node: None };
const LOCAL: [u8; 4] = [203, 0, 113, 1];
const REMOTE: [u8; 4] = [203, 0, 113, 2];
/// Bytes of a TCP header without options.
const TCP_BYTES: usize = 20;

/// Both ends of a wire.
struct Wire {
    near: Device,
    far: Device,
    buffers: Pool,
    segment_bytes: u16,
    _space: Namespace,
}

fn setup(interface: &str, address: [u8; 4], lends: &[BuffersInPlace]) -> XdpSetup {
    XdpSetup {
        interface: interface.to_owned(),
        queues: 1,
        flows: vec![(IpAddr::from(address), 443).into()],
        zero_copy: true,
        lends: lends.to_vec(),
        lends_to_kernel: true,
        streams_payload: false,
    }
}

fn opened(space: &Namespace, setup: XdpSetup) -> Device {
    let opened = space.inside(move || setup.open());
    opened.unwrap_or_else(|error| panic!("{error}")).remove(0).device
}

impl Wire {
    fn if_possible(mtu_bytes: u16) -> Option<Self> {
        let space = Namespace::if_possible()?;
        space.ip(&format!("link add near mtu {mtu_bytes} type veth peer name far mtu {mtu_bytes}"));
        space.ip("addr add 203.0.113.1/24 dev near");
        space.ip("link set near up");
        space.ip("link set far up");
        let mut near = opened(&space, setup("near", LOCAL, &[BLOCKS]));
        let far = opened(&space, setup("far", REMOTE, &[]));
        let memory = near.take_memory().expect("Linux 6.6 sends frames in several pieces");
        assert!(near.take_memory().is_none(), "it has one owner");
        let options = PoolOptions {
            buffer_bytes: BLOCKS.bytes,
            count: BLOCKS.count,
            register: false,
            fifo: false,
            large_pages: false,
        };
        assert_eq!(near.describe(), "AF_XDP with copies by the kernel, XDP in the driver");
        let buffers = Pool::within(vec![memory], options).remove(0);
        assert_eq!(buffers.count(), BLOCKS.count);
        Some(Self { near, far, buffers, segment_bytes: mtu_bytes - 40, _space: space })
    }

    /// A buffer with different bytes at each place and for each `seed`.
    fn filled(&self, seed: u8) -> Buffer {
        let mut buffer = self.buffers.try_take().unwrap();
        let each = buffer.iter_mut().enumerate();
        each.for_each(|(at, byte)| *byte = (at % 251) as u8 ^ (at >> 8) as u8 ^ seed);
        buffer
    }

    /// Hands it to the device, which need not have read it yet.
    fn hand_over(&mut self, payload: &[&[u8]]) {
        let hop = Hop { destination: Mac([2; 6]), source: Mac([4; 6]), mtu_bytes: 1500 };
        let between = Between { local: LOCAL.into(), remote: REMOTE.into(), ecn: 0 };
        let mut header = [0; TCP_BYTES];
        header[2..4].copy_from_slice(&443u16.to_be_bytes());
        header[12..14].copy_from_slice(&[0x50, 0x10]);
        let bytes = payload.iter().map(|slice| slice.len()).sum();
        let head = FrameHead::tcp(&hop, between, &header, bytes);
        self.near.send(head, payload, self.segment_bytes).unwrap();
    }

    fn send(&mut self, payload: &[&[u8]]) {
        self.hand_over(payload);
        self.near.flush().unwrap();
    }

    /// Takes `bytes` bytes of payload at the other end.
    fn receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = Vec::new();
        until("all has arrived", || {
            let each = |packet: Packet<'_>| match packet {
                Packet::Tcp(segment) => received.extend_from_slice(&segment.bytes[TCP_BYTES..]),
                other => panic!("{other:?}"),
            };
            self.far.receive(64, each).unwrap();
            // On a busy machine the kernel may not take everything at once.
            self.near.flush().unwrap();
            received.len() >= bytes
        });
        for reason in DropReason::ALL {
            assert_eq!(self.far.statistics().refused(reason), 0, "{}", reason.name());
        }
        received
    }

    fn until_returned(&mut self, bytes: &[u8]) -> Option<usize> {
        until("the kernel has read all", || {
            self.near.flush().unwrap();
            self.near.in_flight(bytes).is_none()
        });
        self.near.next_returned()
    }

    fn copied(&self) -> u64 {
        self.near.statistics().payload_bytes_copied
    }
}

fn arrives_uncopied(mtu_bytes: u16, ranges: &[Range<usize>]) {
    let Some(mut wire) = Wire::if_possible(mtu_bytes) else { return };
    for (seed, range) in (0..).zip(ranges) {
        let buffer = wire.filled(seed);
        let payload = &buffer[range.clone()];
        wire.send(&[payload]);
        assert!(wire.receive(payload.len()) == payload, "{range:?} has arrived as something else");
        assert_eq!(wire.until_returned(payload), Some(0), "the buffer used last is used next");
        assert_eq!(wire.near.next_returned(), None);
    }
    assert_eq!(wire.copied(), 0);
    assert_eq!(wire.near.statistics().send_errors, 0);
}

#[test]
fn payload_leaves_from_where_it_lies() {
    arrives_uncopied(1500, &[0..60_000, 5..65_000, 4095..4096, 4095..4097, 32_000..98_304]);
}

#[test]
fn jumbo_frames_leave_from_where_they_lie() {
    arrives_uncopied(9000, &[0..60_000, 5..65_000, 4090..13_000, 32_001..98_304]);
}

#[test]
fn what_lies_elsewhere_is_copied_beside_what_does_not() {
    let Some(mut wire) = Wire::if_possible(1500) else { return };
    let buffer = wire.filled(3);
    let (first, second) = (&buffer[100..5_200], &buffer[9_001..9_002]);
    let elsewhere = [[1; 700], [2; 700]];
    let payload = [&elsewhere[0][..], first, second, &[], &elsewhere[1], second];
    wire.send(&payload);
    let sent = payload.concat();
    assert!(wire.receive(sent.len()) == sent);
    assert_eq!(wire.copied(), 1400);
    assert_eq!(wire.until_returned(first), Some(0));
}

/// A frame of more pieces than the kernel takes is made of a copy.
#[test]
fn a_frame_of_many_pieces_is_copied() {
    let Some(mut wire) = Wire::if_possible(1500) else { return };
    for (pieces, copied) in [(17, 0), (18, 18 * 50)] {
        let buffer = wire.filled(4);
        let payload: Vec<_> = (0..pieces).map(|nth| &buffer[nth * 5000..nth * 5000 + 50]).collect();
        wire.send(&payload);
        let sent = payload.concat();
        assert!(wire.receive(sent.len()) == sent);
        assert_eq!(wire.copied(), copied);
        wire.until_returned(&buffer);
    }
}

#[test]
fn as_much_as_there_is_room_for_may_be_on_its_way() {
    let Some(mut wire) = Wire::if_possible(1500) else { return };
    let buffer = wire.filled(5);
    for nth in 0..200 {
        let payload = &buffer[nth..nth + 58_000];
        until("there is room", || {
            wire.near.flush().unwrap();
            wire.near.can_send(payload.len(), wire.segment_bytes)
        });
        wire.send(&[payload]);
        assert!(wire.receive(payload.len()) == payload, "turn {nth}");
    }
    assert_eq!(wire.copied(), 0);
    assert_eq!(wire.until_returned(&buffer), Some(0));
}

#[test]
fn a_buffer_is_free_when_its_user_and_the_kernel_are_done_with_it() {
    let Some(mut wire) = Wire::if_possible(1500) else { return };
    let mut kept = Kept::default();
    for seed in 0..50 {
        let buffer = Rc::new(wire.filled(seed));
        for part in [0..30_000, 30_000..60_000] {
            let payload = &buffer[part];
            wire.hand_over(&[payload]);
            kept.keep(&wire.near, payload, &buffer);
        }
        let sent = buffer[..60_000].to_vec();
        drop(buffer);
        kept.let_go(&mut wire.near);
        assert_eq!(wire.buffers.free(), BLOCKS.count - 1, "the kernel has read nothing yet");
        wire.near.flush().unwrap();
        assert!(wire.receive(sent.len()) == sent);
        until("the buffer is free", || {
            wire.near.flush().unwrap();
            kept.let_go(&mut wire.near);
            wire.buffers.free() == BLOCKS.count
        });
    }
    assert_eq!(wire.copied(), 0);
}

/// As where memory may not be locked, or the kernel knows no frames in several pieces.
#[test]
fn without_memory_for_buffers_payload_is_copied() {
    let Some(space) = Namespace::if_possible() else { return };
    space.ip("link add near type veth peer name far");
    space.ip("link set near up");
    space.ip("link set far up");
    let more_than_there_is = BuffersInPlace { bytes: 1 << 30, count: 1 << 18, node: None };
    let mut near = opened(&space, setup("near", LOCAL, &[more_than_there_is]));
    assert_eq!(near.describe(), "AF_XDP with copies, XDP in the driver");
    assert!(near.take_memory().is_none());
    assert!(near.in_flight(&[1, 2, 3]).is_none() && near.next_returned().is_none());
}
