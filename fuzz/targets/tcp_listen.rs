//! Segments of any bytes from any sender to an endpoint that listens, while time passes.
//!
//! Checks that nothing panics; that every step ends; and that connections, including half-open ones, stay within their limits.

#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use fullbore_fuzz::choices::Choices;
use fullbore_fuzz::tcp::{ACK, Host, PORT, SYN, Segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (mut choices, mut host) = (Choices::new(bytes), Host::new());
    while !choices.is_empty() {
        let remote = Host::remote(choices.byte());
        match choices.byte() % 8 {
            0 => host.take(remote, choices.byte(), choices.some(120)),
            1 => {
                let milliseconds = (choices.byte() as u64).pow(2);
                host.pass(Duration::from_millis(milliseconds));
            }
            2 => host.act(choices.byte(), choices.number()),
            3 => {
                let to = SocketAddr::new(remote, 1000 + u16::from(choices.byte() % 4));
                let sequence = host.heard.map_or(0, |heard| heard.sequence);
                host.packet_too_big(to, sequence, choices.number() as u16);
            }
            _ => {
                let ecn = choices.byte();
                let segment = segment(&mut choices, &host);
                host.take(remote, ecn, &segment.bytes());
            }
        }
    }
});

/// A well-formed segment, often one that matches the endpoint's last segment.
fn segment(choices: &mut Choices<'_>, host: &Host) -> Segment {
    let kind = choices.byte();
    let from_port = 1000 + u16::from(choices.byte() % 4);
    let mut segment = Segment { from_port, to_port: PORT, window: 5000, ..Segment::default() };
    match (kind % 4, host.heard) {
        (0, _) => segment.flags = SYN,
        (1, Some(heard)) => {
            segment.from_port = heard.to_port;
            segment.flags = ACK;
            segment.sequence = heard.ack;
            segment.ack = heard.sequence.wrapping_add(1);
        }
        _ => {
            segment.flags = choices.byte();
            segment.sequence = (choices.number() as u32) << 16;
            segment.ack = (choices.number() as u32) << 16;
            segment.window = choices.number() as u16;
        }
    }
    segment.options = choices.some(41).to_vec();
    segment.payload_bytes = choices.number() % 3000;
    segment
}
