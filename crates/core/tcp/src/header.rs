//! Parses and writes TCP headers (RFC 9293 section 3.1).
//!
//! Written here, because well-maintained packet libraries either support fewer options (three SACK blocks where four fit, no ECN bits) or build
//! headers from owned lists. Unknown options are skipped. A malformed option ends the parsing of options, and the options before it count. Checksums
//! are up to the caller.

use crate::segment::{HEADER_BYTES_MAX, Header};
use crate::seq::Seq;

/// Header without options.
const HEADER_BYTES_MIN: usize = 20;

/// The control bits (RFC 9293 section 3.1; ECE and CWR: RFC 3168 section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    pub(crate) const FIN: Flags = Flags(0x01);
    pub(crate) const SYN: Flags = Flags(0x02);
    pub(crate) const RST: Flags = Flags(0x04);
    pub(crate) const PSH: Flags = Flags(0x08);
    pub(crate) const ACK: Flags = Flags(0x10);
    pub(crate) const URG: Flags = Flags(0x20);
    pub(crate) const ECE: Flags = Flags(0x40);
    pub(crate) const CWR: Flags = Flags(0x80);

    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) fn with_if(self, condition: bool, other: Flags) -> Flags {
        if condition { self.with(other) } else { self }
    }
}

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamps {
    pub(crate) value: u32,
    pub(crate) echo: u32,
}

/// How many SACK blocks fit into a header (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS_MAX: usize = 4;

/// SACK blocks: left edge, right edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SackBlocks {
    blocks: [(Seq, Seq); SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; blocks after the fourth are left out.
    pub(crate) fn push(&mut self, left: Seq, right: Seq) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (left, right);
            self.count += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// The supported options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) sack: SackBlocks,
}

/// A parsed segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) options: Options,
    /// Set if an option was malformed.
    pub(crate) options_malformed: bool,
    pub(crate) payload: &'a [u8],
    /// How many acknowledgements it stands for ([`crate::merging`]).
    pub(crate) acks: u32,
}

impl<'a> Incoming<'a> {
    /// None: the segment is shorter than its header.
    pub(crate) fn parse(segment: &'a [u8]) -> Option<Self> {
        let fixed: &[u8; HEADER_BYTES_MIN] = segment.first_chunk()?;
        let header_bytes = usize::from(fixed[12] >> 4) * 4;
        if header_bytes < HEADER_BYTES_MIN || header_bytes > segment.len() {
            return None;
        }
        let (options, options_malformed) = parse_options(&segment[HEADER_BYTES_MIN..header_bytes]);
        Some(Incoming {
            source: u16::from_be_bytes([fixed[0], fixed[1]]),
            destination: u16::from_be_bytes([fixed[2], fixed[3]]),
            seq: Seq(word(&fixed[4..])),
            ack: Seq(word(&fixed[8..])),
            flags: Flags(fixed[13]),
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            options,
            options_malformed,
            payload: &segment[header_bytes..],
            acks: 1,
        })
    }

    /// Its length in sequence space: payload, SYN and FIN (RFC 9293 section 3.4).
    pub(crate) fn sequence_bytes(&self) -> u64 {
        self.payload.len() as u64
            + u64::from(self.flags.has(Flags::SYN))
            + u64::from(self.flags.has(Flags::FIN))
    }
}

/// The first four bytes as a number. Callers have at least four.
fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The options, and whether one was malformed.
fn parse_options(mut bytes: &[u8]) -> (Options, bool) {
    let mut options = Options::default();
    while let [kind, rest @ ..] = bytes {
        match kind {
            0 => return (options, false),
            1 => bytes = rest,
            _ => {
                let length = rest.first().map_or(0, |length| usize::from(*length));
                if length < 2 || length > bytes.len() {
                    return (options, true);
                }
                if !parse_option(*kind, &bytes[2..length], &mut options) {
                    return (options, true);
                }
                bytes = &bytes[length..];
            }
        }
    }
    (options, false)
}

/// Parses one option. False: its length is wrong.
fn parse_option(kind: u8, content: &[u8], options: &mut Options) -> bool {
    match (kind, content) {
        (2, [high, low]) => options.mss = Some(u16::from_be_bytes([*high, *low])),
        // RFC 7323 section 2.3: more than 14 counts as 14.
        (3, [shift]) => options.window_scale = Some((*shift).min(14)),
        (4, []) => options.sack_permitted = true,
        (5, blocks) if blocks.len() % 8 == 0 && !blocks.is_empty() => {
            for block in blocks.chunks_exact(8) {
                options.sack.push(Seq(word(block)), Seq(word(&block[4..])));
            }
        }
        (8, content) if content.len() == 8 => {
            options.timestamps =
                Some(Timestamps { value: word(content), echo: word(&content[4..]) });
        }
        (2..=5 | 8, _) => return false,
        _ => {}
    }
    true
}

/// A header to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) options: Options,
}

impl Outgoing {
    /// The header's bytes; the checksum is zero. SACK blocks that do not fit are left out.
    pub(crate) fn emit(&self) -> Header {
        let mut writer = Writer { bytes: [0; HEADER_BYTES_MAX], length: HEADER_BYTES_MIN };
        writer.options(&self.options);
        let mut bytes = writer.bytes;
        bytes[0..2].copy_from_slice(&self.source.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        bytes[12] = ((writer.length / 4) as u8) << 4;
        bytes[13] = self.flags.0;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        Header::new(bytes, writer.length)
    }
}

/// Fills in options, each padded to four bytes.
struct Writer {
    bytes: [u8; HEADER_BYTES_MAX],
    length: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn options(&mut self, options: &Options) {
        if let Some(mss) = options.mss {
            self.put(&[2, 4]);
            self.put(&mss.to_be_bytes());
        }
        match (options.sack_permitted, options.timestamps) {
            (true, Some(_)) => self.put(&[4, 2]),
            (true, None) => self.put(&[1, 1, 4, 2]),
            (false, Some(_)) => self.put(&[1, 1]),
            (false, None) => {}
        }
        if let Some(timestamps) = options.timestamps {
            self.put(&[8, 10]);
            self.put(&timestamps.value.to_be_bytes());
            self.put(&timestamps.echo.to_be_bytes());
        }
        if let Some(shift) = options.window_scale {
            self.put(&[1, 3, 3, shift]);
        }
        self.sack(options.sack.as_slice());
    }

    fn sack(&mut self, blocks: &[(Seq, Seq)]) {
        let fitting = (HEADER_BYTES_MAX - self.length).saturating_sub(4) / 8;
        let blocks = &blocks[..blocks.len().min(fitting)];
        if blocks.is_empty() {
            return;
        }
        self.put(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            self.put(&left.0.to_be_bytes());
            self.put(&right.0.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outgoing(options: Options) -> Outgoing {
        Outgoing {
            source: 443,
            destination: 50_000,
            seq: Seq(1),
            ack: Seq(0xffff_ffff),
            flags: Flags::ACK.with(Flags::CWR),
            window: 512,
            options,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            sack: SackBlocks::default(),
        };
        let syn = outgoing(options).emit();
        let read = Incoming::parse(syn.as_bytes()).unwrap();
        assert_eq!((read.options, read.options_malformed), (options, false));
        assert_eq!((read.seq, read.ack, read.window), (Seq(1), Seq(0xffff_ffff), 512));
        assert_eq!(read.flags, Flags::ACK.with(Flags::CWR));

        options = Options { timestamps: options.timestamps, ..Options::default() };
        for block in 0..4 {
            options.sack.push(Seq(block * 10), Seq(block * 10 + 5));
        }
        let ack = outgoing(options).emit();
        let read = Incoming::parse(ack.as_bytes()).unwrap();
        assert_eq!(
            read.options.sack.as_slice(),
            &options.sack.as_slice()[..3],
            "three fit next to timestamps"
        );
    }

    #[test]
    fn a_malformed_option_ends_the_reading_and_is_told() {
        let mut segment =
            outgoing(Options { mss: Some(1000), ..Options::default() }).emit().as_bytes().to_vec();
        segment[12] = 7 << 4;
        segment.extend([3, 9, 0, 0]);
        let read = Incoming::parse(&segment).unwrap();
        assert!(read.options_malformed);
        assert_eq!(read.options.mss, Some(1000));
    }

    #[test]
    fn headers_longer_than_the_segment_are_refused() {
        let segment = outgoing(Options::default()).emit().as_bytes().to_vec();
        assert!(Incoming::parse(&segment[..19]).is_none());
        for words in [0, 4, 6, 15] {
            let mut short = segment.clone();
            short[12] = words << 4;
            assert!(Incoming::parse(&short).is_none(), "{words} words in 20 bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Incoming::parse(&bytes);
        }
    }
}
