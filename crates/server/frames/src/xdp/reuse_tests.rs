//! The reuse of chunks: frames touch as much memory as is in flight, and not the whole UMEM.

use super::socket::SEND_CHUNKS;
use super::{Xdp, XdpSetup};
use crate::compose::{Between, FrameHead, Hop};
use crate::parse::Mac;
use crate::{Device, Interface};
use fullbore_tests::{Namespace, until};
use std::net::IpAddr;

/// Super-segments of this many segments, which need a chunk each.
const SEGMENTS: usize = 40;
const SEGMENT_BYTES: u16 = 1448;
static PAYLOAD: [u8; SEGMENTS * SEGMENT_BYTES as usize] = [7; SEGMENTS * SEGMENT_BYTES as usize];

const LOCAL: [u8; 4] = [203, 0, 113, 1];
const REMOTE: [u8; 4] = [203, 0, 113, 2];

fn opened(space: &Namespace) -> Interface {
    space.ip("link add near type veth peer name far");
    space.ip("addr add 203.0.113.1/24 dev near");
    space.ip("link set near up");
    space.ip("link set far up");
    let setup = XdpSetup {
        interface: "near".to_owned(),
        queues: 1,
        flows: vec![(IpAddr::from(LOCAL), 443).into()],
        zero_copy: true,
        lends: Vec::new(),
        lends_to_kernel: false,
        streams_payload: false,
    };
    let opened = space.inside(move || setup.open());
    opened.unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn send(xdp: &mut Xdp) {
    let hop = Hop { destination: Mac([2; 6]), source: Mac([4; 6]), mtu_bytes: 1500 };
    let between = Between { local: LOCAL.into(), remote: REMOTE.into(), ecn: 0 };
    let mut header = [0; 20];
    header[12..14].copy_from_slice(&[0x50, 0x10]);
    let head = FrameHead::tcp(&hop, between, &header, PAYLOAD.len());
    xdp.send(&head, &[&PAYLOAD], SEGMENT_BYTES).unwrap();
    xdp.flush().unwrap();
}

fn all_are_back(xdp: &mut Xdp) -> bool {
    xdp.flush().unwrap();
    xdp.socket.free.len() == SEND_CHUNKS as usize
}

/// Fresh memory is zero, and no frame is.
fn touched(xdp: &Xdp) -> usize {
    let is_touched = |chunk: &&_| xdp.socket.umem.bytes(chunk).iter().any(|byte| *byte != 0);
    xdp.socket.free.iter().filter(is_touched).count()
}

/// Last in, first out: recently sent chunks are the warmest memory there is.
#[test]
fn the_chunks_that_came_back_last_are_used_next() {
    let Some(space) = Namespace::if_possible() else { return };
    let mut interface = opened(&space);
    let Device::Xdp(xdp) = &mut interface.device else { panic!("the plan is for AF_XDP") };
    for _ in 0..100 {
        send(xdp);
        until("all chunks are back", || all_are_back(xdp));
    }
    assert_eq!(touched(xdp), SEGMENTS, "of {SEND_CHUNKS} chunks");
}
