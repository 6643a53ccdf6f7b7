//! Parses and cuts TCP segments with code that is independent of the code under test (RFC 9293 section 3.1).

use fullbore_tcp::{Ecn, Transmit};

use crate::stream::Stream;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const CWR: u8 = 0x80;

/// A segment on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Header and payload.
    pub(crate) segment: Vec<u8>,
    pub(crate) ecn: Ecn,
}

/// The options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// Value and echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sack: Vec<(u32, u32)>,
}

/// A parsed segment.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) from_port: u16,
    pub(crate) to_port: u16,
    pub(crate) sequence: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) header_bytes: usize,
    pub(crate) options: Options,
    pub(crate) payload: &'a [u8],
}

impl<'a> Parsed<'a> {
    /// Panics on anything malformed: only the endpoints under test write what is read here.
    pub(crate) fn new(segment: &'a [u8]) -> Self {
        let half = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let header_bytes = usize::from(segment[12] >> 4) * 4;
        assert!((20..=segment.len()).contains(&header_bytes), "data offset {header_bytes}");
        assert_eq!(half(18), 0, "an urgent pointer");
        assert_eq!(segment[12] & 0x0f, 0, "reserved bits");
        Self {
            from_port: half(0),
            to_port: half(2),
            sequence: word(4),
            ack: word(8),
            flags: segment[13],
            window: half(14),
            header_bytes,
            options: options(&segment[20..header_bytes]),
            payload: &segment[header_bytes..],
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

fn options(mut bytes: &[u8]) -> Options {
    let mut read = Options::default();
    while let Some(kind) = bytes.first() {
        match kind {
            0 => {
                assert!(bytes.iter().all(|byte| *byte == 0), "padding after the end of options");
                break;
            }
            1 => bytes = &bytes[1..],
            _ => {
                let length = usize::from(bytes[1]);
                let (option, rest) = bytes.split_at(length);
                read_option(*kind, &option[2..], &mut read);
                bytes = rest;
            }
        }
    }
    read
}

fn read_option(kind: u8, value: &[u8], read: &mut Options) {
    let word = |at: usize| u32::from_be_bytes(value[at..at + 4].try_into().expect("four bytes"));
    match (kind, value.len()) {
        (2, 2) => read.mss = Some(u16::from_be_bytes([value[0], value[1]])),
        (3, 1) => read.scale = Some(value[0]),
        (4, 0) => read.sack_permitted = true,
        (5, length) if length > 0 && length % 8 == 0 => {
            read.sack = (0..length / 8).map(|at| (word(at * 8), word(at * 8 + 4))).collect();
        }
        (8, 8) => read.timestamps = Some((word(0), word(4))),
        other => panic!("option {other:?}"),
    }
}

/// The packets that a device with TSO puts on the wire for `transmit`.
pub(crate) fn cut(transmit: &Transmit, stream: Stream) -> Vec<Packet> {
    let (payload_bytes, segment_bytes) =
        (transmit.payload_bytes(), usize::from(transmit.segment_bytes));
    let header = transmit.header.as_bytes();
    let count = if payload_bytes == 0 { 1 } else { payload_bytes.div_ceil(segment_bytes) };
    let sequence = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
    let one = |index: usize| {
        let from = index * segment_bytes;
        let bytes = payload_bytes.saturating_sub(from).min(segment_bytes);
        let mut segment = header.to_vec();
        segment[4..8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
        if index > 0 {
            segment[13] &= !CWR;
        }
        if index + 1 < count {
            segment[13] &= !(FIN | PSH);
        }
        stream.append(transmit.payload.start + from as u64, bytes, &mut segment);
        Packet { segment, ecn: transmit.ecn }
    };
    (0..count).map(one).collect()
}

/// The packets that a coalescing device delivers: consecutive segments with equal headers become one.
pub(crate) fn coalesce(packets: Vec<Packet>) -> Vec<Packet> {
    let mut merged: Vec<Packet> = Vec::new();
    for packet in packets {
        match merged.last_mut() {
            Some(last) if follows(last, &packet) => {
                let header_bytes = Parsed::new(&packet.segment).header_bytes;
                last.segment[13] |= packet.segment[13];
                last.segment.extend_from_slice(&packet.segment[header_bytes..]);
            }
            _ => merged.push(packet),
        }
    }
    merged
}

fn follows(last: &Packet, packet: &Packet) -> bool {
    let (one, other) = (Parsed::new(&last.segment), Parsed::new(&packet.segment));
    one.from_port == other.from_port
        && one.to_port == other.to_port
        && one.flags == ACK
        && other.flags & !(PSH | FIN) == ACK
        && !one.payload.is_empty()
        && !other.payload.is_empty()
        && one.sequence.wrapping_add(one.payload.len() as u32) == other.sequence
        && (one.ack, one.window, &one.options) == (other.ack, other.window, &other.options)
        && last.ecn == packet.ecn
        && last.segment.len() + other.payload.len() <= 65_000
}

/// A segment on one line.
pub(crate) fn line(segment: &[u8]) -> String {
    let parsed = Parsed::new(segment);
    let names =
        [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, '.'), (0x40, 'E'), (CWR, 'W')];
    let flags: String =
        names.iter().filter(|(flag, _)| parsed.has(*flag)).map(|(_, name)| *name).collect();
    format!(
        "{}>{} {flags} seq {} len {} ack {} win {} {:?}",
        parsed.from_port,
        parsed.to_port,
        parsed.sequence,
        parsed.payload.len(),
        parsed.ack,
        parsed.window,
        parsed.options
    )
}
