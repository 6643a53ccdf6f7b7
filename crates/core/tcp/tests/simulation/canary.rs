//! The referee must detect each violation: every test breaks one rule on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::referee::{Referee, Side};
use crate::stream::Stream;
use crate::wire::{ACK, FIN, SYN};

const CLIENT_ISN: u32 = 0xffff_fff0;
const SERVER_ISN: u32 = 1000;
const SCALE: u8 = 2;

/// The parts of a segment that tests change; offsets are stream offsets.
#[derive(Clone, Copy)]
struct Said<'a> {
    at: u64,
    payload: &'a [u8],
    acknowledged: u64,
    window: u16,
    flags: u8,
    sack: Option<(u32, u32)>,
}

const NOTHING: Said<'static> =
    Said { at: 0, payload: &[], acknowledged: 0, window: 1000, flags: ACK, sack: None };

fn segment(from: Side, said: &Said<'_>) -> Vec<u8> {
    let (isn, peer_isn) = match from {
        Side::Client => (CLIENT_ISN, SERVER_ISN),
        Side::Server => (SERVER_ISN, CLIENT_ISN),
    };
    let mut options = Vec::new();
    let (mut sequence, mut ack) = (isn, 0);
    if said.flags & SYN == 0 {
        sequence = isn.wrapping_add(1).wrapping_add(said.at as u32);
    } else {
        options.extend([2, 4, 5, 180, 3, 3, SCALE, 1]);
    }
    if said.flags & ACK != 0 {
        ack = peer_isn.wrapping_add(1).wrapping_add(said.acknowledged as u32);
    }
    if let Some((start, end)) = said.sack {
        options.extend([1, 1, 5, 10]);
        options.extend(peer_isn.wrapping_add(1 + start).to_be_bytes());
        options.extend(peer_isn.wrapping_add(1 + end).to_be_bytes());
    }
    let mut bytes = vec![0; 4];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([(5 + options.len() as u8 / 4) << 4, said.flags]);
    bytes.extend(said.window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.extend(said.payload);
    bytes
}

fn payload(at: u64, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    Stream::new(2).append(at, bytes, &mut payload);
    payload
}

/// A connection on which the server has written 10,000 bytes and sent the first 1,000, which arrived. Its window ends
/// at 4,000.
fn referee() -> Referee {
    let mut referee = Referee::new([Stream::new(1), Stream::new(2)], [1480; 2], [100_000; 2]);
    let shake = [
        (Side::Client, Said { flags: SYN, ..NOTHING }),
        (Side::Server, Said { flags: SYN | ACK, ..NOTHING }),
        (Side::Client, NOTHING),
    ];
    for (from, said) in shake {
        pass(&mut referee, from, &said);
    }
    referee.write(Side::Server, 10_000);
    pass(&mut referee, Side::Server, &Said { payload: &payload(0, 1000), ..NOTHING });
    referee
}

fn pass(referee: &mut Referee, from: Side, said: &Said<'_>) {
    let segment = segment(from, said);
    referee.sent(from, &segment);
    referee.delivered(from.other(), &segment);
}

/// The referee's objection to a segment that `from` sends now.
fn objection(from: Side, said: &Said<'_>) -> Option<String> {
    let mut referee = referee();
    let result = catch_unwind(AssertUnwindSafe(|| pass(&mut referee, from, said)));
    let panic = result.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

#[test]
fn what_is_right_passes() {
    let next = payload(1000, 1400);
    for (from, said) in [
        (Side::Server, Said { at: 1000, payload: &next, ..NOTHING }),
        (Side::Server, Said { at: 0, payload: &payload(0, 1000), ..NOTHING }),
        (Side::Client, Said { acknowledged: 1000, ..NOTHING }),
        (Side::Client, Said { sack: Some((0, 1000)), ..NOTHING }),
    ] {
        assert_eq!(objection(from, &said), None);
    }
}

#[test]
fn what_breaks_a_rule_is_seen() {
    let wrong = payload(1001, 1000);
    let (first, late, beyond) = (payload(0, 1000), payload(2900, 1400), payload(9900, 200));
    let long = payload(1000, 1461);
    for (from, said, text) in [
        (Side::Server, Said { at: 1000, payload: &wrong, ..NOTHING }, "other bytes at 1000"),
        (Side::Server, Said { at: 2900, payload: &late, ..NOTHING }, "2900..4300 beyond 4000"),
        (Side::Server, Said { at: 9900, payload: &beyond, ..NOTHING }, "of 10000 bytes written"),
        (Side::Server, Said { at: 1000, payload: &long, ..NOTHING }, "1481 of 1480 bytes"),
        (Side::Server, Said { at: 1000, flags: ACK | FIN, ..NOTHING }, "FIN at 1000 of 10000"),
        (Side::Server, Said { at: 1002, ..NOTHING }, "beyond what was sent"),
        (Side::Client, Said { acknowledged: 1001, ..NOTHING }, "1001 acknowledged, 1000 came"),
        (Side::Client, Said { window: 900, ..NOTHING }, "the window shrinks to 3600"),
        (Side::Client, Said { window: 30_000, ..NOTHING }, "a window of 120000"),
        (Side::Client, Said { sack: Some((2000, 3000)), ..NOTHING }, "SACK of 2000..3000"),
        (Side::Client, Said { flags: 0, ..NOTHING }, "without ACK"),
    ] {
        let objection = objection(from, &said).unwrap_or_else(|| panic!("no {text:?}"));
        assert!(objection.contains(text), "{objection:?} instead of {text:?}");
    }
    let mut acknowledged = referee();
    pass(&mut acknowledged, Side::Client, &Said { acknowledged: 1000, ..NOTHING });
    let again = segment(Side::Server, &Said { payload: &first, ..NOTHING });
    let result = catch_unwind(AssertUnwindSafe(|| acknowledged.sent(Side::Server, &again)));
    assert!(result.is_err(), "sent again although it was acknowledged");
}
