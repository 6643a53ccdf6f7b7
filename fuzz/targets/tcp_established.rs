//! A peer that makes a connection correctly and then sends anything on it.
//!
//! Checks that nothing panics; that every step ends and memory stays within its limit; that nothing leaves beyond the widest window that the
//! peer could have meant, nor beyond the written bytes; and that acknowledgement numbers only grow.

#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use fullbore_fuzz::choices::Choices;
use fullbore_fuzz::tcp::{ACK, FIN, Host, PORT, RST, SYN, Segment, WRITTEN_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

const PEER_PORT: u16 = 1000;
const SCALE: u8 = 3;

/// The peer's side of the connection.
struct Peer {
    /// The first sequence number of its stream, then of the endpoint's stream.
    first: u32,
    their_first: u32,
    /// Bytes that it has sent.
    sent: u32,
    has_scale: bool,
    timestamp: Option<u32>,
    /// How far the endpoint may send, by the widest reading of the peer's windows.
    edge: u64,
}

fuzz_target!(|bytes: &[u8]| {
    let (mut choices, mut host) = (Choices::new(bytes), Host::new());
    let Some(mut peer) = Peer::connect(&mut host, choices.byte(), choices.number() as u16) else {
        panic!("an honest client is let in")
    };
    host.act(0, 60_000);
    peer.check(&host);
    while !choices.is_empty() {
        match choices.byte() % 8 {
            0 => host.pass(Duration::from_millis(u64::from(choices.byte()).pow(2))),
            1 => host.act(choices.byte(), choices.number()),
            2 => {
                let to = SocketAddr::new(Host::remote(0), PEER_PORT);
                let sequence = peer.their_first.wrapping_add(choices.number() as u32);
                host.packet_too_big(to, sequence, choices.number() as u16);
            }
            _ => {
                let ecn = choices.byte();
                let segment = peer.segment(&mut choices);
                host.take(Host::remote(0), ecn, &segment.bytes());
            }
        }
        peer.check(&host);
    }
});

impl Peer {
    /// Makes a connection with the options that `bits` choose.
    fn connect(host: &mut Host, bits: u8, window: u16) -> Option<Self> {
        let mut options = vec![2, 4, 5, 180];
        if bits & 1 != 0 {
            options.extend([4, 2, 1, 1]);
        }
        let timestamp = (bits & 2 != 0).then_some(0xffff_fff0);
        if timestamp.is_some() {
            options.extend([8, 10, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 1, 1]);
        }
        let has_scale = bits & 4 != 0;
        if has_scale {
            options.extend([3, 3, SCALE, 1]);
        }
        let first = 0xffff_ff00;
        let mut segment = Segment {
            from_port: PEER_PORT,
            to_port: PORT,
            sequence: first - 1,
            flags: SYN | (bits & 0xc0),
            window,
            options,
            ..Segment::default()
        };
        host.take(Host::remote(0), 0, &segment.bytes());
        let answer = host.heard.filter(|heard| heard.flags & (SYN | ACK) == SYN | ACK)?;
        let their_first = answer.sequence.wrapping_add(1);
        let edge = u64::from(window);
        let mut peer = Self { first, their_first, sent: 0, has_scale, timestamp, edge };
        segment = peer.ack(0, window);
        peer.widen(&segment);
        host.take(Host::remote(0), 0, &segment.bytes());
        (host.sessions() == 1).then_some(peer)
    }

    /// An honest acknowledgement of `acked` bytes.
    fn ack(&mut self, acked: u32, window: u16) -> Segment {
        let mut options = Vec::new();
        if let Some(timestamp) = &mut self.timestamp {
            *timestamp = timestamp.wrapping_add(1);
            options.extend([1, 1, 8, 10]);
            options.extend(timestamp.to_be_bytes());
            options.extend([0; 4]);
        }
        Segment {
            from_port: PEER_PORT,
            to_port: PORT,
            sequence: self.first.wrapping_add(self.sent),
            ack: self.their_first.wrapping_add(acked),
            flags: ACK,
            window,
            options,
            payload_bytes: 0,
        }
    }

    /// Makes a segment that is nearly right, with one part wrong.
    fn segment(&mut self, choices: &mut Choices<'_>) -> Segment {
        let kind = choices.byte();
        let acked = choices.number() as u32 * u32::from(1 + kind % 4);
        let mut segment = self.ack(acked, choices.number() as u16);
        match kind >> 4 {
            0..=3 => {}
            4..=6 => self.add_sack(&mut segment, choices),
            7 | 8 => {
                segment.payload_bytes = choices.number() % 3000;
                let shift = choices.number() as i16;
                segment.sequence = segment.sequence.wrapping_add_signed(i32::from(shift));
                self.sent += if shift == 0 { segment.payload_bytes as u32 } else { 0 };
            }
            9 => segment.flags = choices.byte(),
            10 => segment.flags |= FIN,
            11 => {
                segment.flags = choices.one_of(&[RST, RST | ACK, SYN, SYN | ACK]);
                segment.sequence =
                    segment.sequence.wrapping_add_signed(i32::from(choices.number() as i16));
            }
            12 => segment.options = choices.some(41).to_vec(),
            13 => segment.ack = (choices.number() as u32) << 16 | choices.number() as u32,
            14 => segment.sequence = (choices.number() as u32) << 16 | choices.number() as u32,
            _ => segment.payload_bytes = choices.number() % 3000,
        }
        self.widen(&segment);
        segment
    }

    /// Records how far the segment's window may reach, if its ACK is possible at all.
    fn widen(&mut self, segment: &Segment) {
        let acked = segment.ack.wrapping_sub(self.their_first);
        if acked <= WRITTEN_BYTES_MAX {
            let scale = if self.has_scale { SCALE } else { 0 };
            self.edge = self.edge.max(u64::from(acked) + (u64::from(segment.window) << scale));
        }
    }

    /// Adds up to three SACK blocks, inside or outside of the bytes that were sent.
    fn add_sack(&self, segment: &mut Segment, choices: &mut Choices<'_>) {
        let count = choices.byte() % 4;
        segment.options.extend([1, 1, 5, 2 + 8 * count]);
        for _ in 0..count {
            let start = self.their_first.wrapping_add(choices.number() as u32);
            let end = start.wrapping_add_signed(i32::from(choices.number() as i16));
            segment.options.extend(start.to_be_bytes());
            segment.options.extend(end.to_be_bytes());
        }
    }

    fn check(&self, host: &Host) {
        for end in &host.payload_ends {
            assert!(*end <= self.edge, "{end} sent, the window ends at {}", self.edge);
        }
    }
}
