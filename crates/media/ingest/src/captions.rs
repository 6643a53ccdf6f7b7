//! Captions in the picture (CEA-608 and CEA-708): which channels a video file carries.
//!
//! Encoders keep captions in messages between frames: SEI in H.264 and HEVC, metadata in AV1, all with the same bytes (ITU-T T.35, ATSC A/53
//! part 4). ffprobe says whether the first frames have such messages, but many are padding. So this looks for the messages in the file
//! that is served, and into them: a channel counts if it has a command or text.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A part of their name in ffprobe's answer: "ATSC A53 Part 4 Closed Captions".
const SIDE_DATA: &[u8] = b"A53 Part 4 Closed Captions";
/// Begins a message: country, provider, "GA94", type of `cc_data`.
const MARK: [u8; 8] = [0xb5, 0x00, 0x31, b'G', b'A', b'9', b'4', 0x03];
/// A message has 31 triples at most, of three bytes, and some bytes may be escaped.
const MESSAGE_BYTES_MAX: usize = 2 + 31 * 3 * 3 / 2;
/// How much of a file is in memory at once.
const PIECE_BYTES: u64 = 1 << 20;
/// How much of a piece's end is looked at with the next one: a message may continue there.
const OVERLAP_BYTES: usize = MARK.len() + MESSAGE_BYTES_MAX;

/// The channels of captions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captions {
    /// Of CEA-608: 1 to 4.
    pub(crate) channels: BTreeSet<u8>,
    /// Of CEA-708: services 1 to 6.
    pub(crate) services: BTreeSet<u8>,
}

impl Captions {
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.services.is_empty()
    }

    /// Whether ffprobe's answer about frames mentions captions. They may be padding.
    pub(crate) fn may_be_in(frames: &[u8]) -> bool {
        frames.windows(SIDE_DATA.len()).any(|part| part == SIDE_DATA)
    }

    /// The captions in a video file. All of it is read, because the first line may come late, and players ignore channels that the playlist doesn't
    /// list.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    fn of(mut file: impl Read) -> io::Result<Self> {
        let mut captions = Self::default();
        let mut bytes = Vec::new();
        loop {
            let is_last = file.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes)? == 0;
            let overlap = if is_last { 0 } else { OVERLAP_BYTES };
            let end = bytes.len().saturating_sub(overlap);
            captions.messages(&bytes, end);
            bytes.drain(..end);
            if is_last {
                return Ok(captions);
            }
        }
    }

    /// The messages that begin before `end`.
    fn messages(&mut self, bytes: &[u8], end: usize) {
        let mut from = 0;
        while let Some(at) = find(&bytes[from..]).map(|at| from + at).filter(|at| *at < end) {
            from = at + MARK.len();
            let message = &bytes[from..];
            self.message(&unescaped(&message[..message.len().min(MESSAGE_BYTES_MAX)]));
        }
    }

    /// `cc_data` (CEA-708 section 4.4): flags with a count, a reserved byte, triples of a type and two bytes.
    fn message(&mut self, message: &[u8]) {
        let Some((&[flags, _], triples)) = message.split_first_chunk::<2>() else { return };
        let count = usize::from(flags & 0x1f);
        for triple in triples.chunks_exact(3).take(count) {
            let (kind, pair) = (triple[0], (triple[1], triple[2]));
            match (kind & 4 != 0, kind & 3) {
                (true, field @ (0 | 1)) => self.pair(field, pair.0 & 0x7f),
                // The beginning of a packet; its second byte is the header of the first block.
                (true, 3) => self.block(pair.1),
                _ => {}
            }
        }
    }

    /// A command of CEA-608 says which channel of the field it is for. Text follows its commands.
    fn pair(&mut self, field: u8, first: u8) {
        match first {
            0x10..=0x17 => self.channels.insert(1 + 2 * field),
            0x18..=0x1f => self.channels.insert(2 + 2 * field),
            _ => false,
        };
    }

    /// The header of a block of CEA-708: the service, and how many bytes follow.
    fn block(&mut self, header: u8) {
        let (service, bytes) = (header >> 5, header & 0x1f);
        if (1..=6).contains(&service) && bytes > 0 {
            self.services.insert(service);
        }
    }
}

/// Where the next message begins.
fn find(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| *byte == MARK[0])?;
        if bytes[from..].starts_with(&MARK) {
            return Some(from);
        }
        from += 1;
    }
}

/// Without emulation prevention: the 3 of each 0, 0, 3 (H.264 section 7.4.1). AV1 has none, but caption data does not have these bytes either.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte == 3 && plain.ends_with(&[0, 0]) {
            continue;
        }
        plain.push(byte);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(triples: &[[u8; 3]]) -> Vec<u8> {
        let mut bytes = b"before".to_vec();
        bytes.extend(MARK);
        bytes.extend([0xc0 | triples.len() as u8, 0xff]);
        bytes.extend(triples.concat());
        bytes.extend(b"\xffafter");
        bytes
    }

    fn found(triples: &[[u8; 3]]) -> (Vec<u8>, Vec<u8>) {
        let captions = Captions::of(&message(triples)[..]).unwrap();
        (captions.channels.into_iter().collect(), captions.services.into_iter().collect())
    }

    #[test]
    fn channels_and_services_are_found_and_padding_is_none() {
        assert_eq!(
            found(&[[0xfc, 0x80, 0x80], [0xfd, 0x80, 0x80], [0xfa, 0, 0]]),
            (vec![], vec![])
        );
        assert_eq!(found(&[[0xfc, 0x94, 0x20], [0xfd, 0x15, 0x2c]]), (vec![1, 3], vec![]));
        assert_eq!(found(&[[0xfc, 0x1c, 0x20], [0xfd, 0x9d, 0x20]]), (vec![2, 4], vec![]));
        assert_eq!(found(&[[0xff, 0x02, 0x21], [0xfe, 0x41, 0]]), (vec![], vec![1]));
        // Invalid pairs, and a block of no bytes.
        assert_eq!(found(&[[0xf8, 0x94, 0x20], [0xff, 0x02, 0x20]]), (vec![], vec![]));
    }

    #[test]
    fn a_message_may_be_escaped_or_cut_anywhere() {
        let escaped = [0xfa, 0, 0];
        let mut bytes = message(&[escaped, [0xfc, 0x94, 0x20]]);
        let at = bytes.windows(3).position(|part| part == escaped).unwrap();
        bytes.insert(at + 3, 3);
        assert_eq!(Captions::of(&bytes[..]).unwrap().channels, BTreeSet::from([1]));
        for length in 0..bytes.len() {
            let _ = Captions::of(&bytes[..length]).unwrap();
        }
    }

    #[test]
    fn a_message_is_found_wherever_pieces_of_the_file_end() {
        let message = message(&[[0xfc, 0x94, 0x20], [0xff, 0x02, 0x21]]);
        let found = Captions { channels: [1].into(), services: [1].into() };
        for before in 0..message.len() + 2 {
            // The piece ends within, before and after the message.
            let mut bytes = vec![0; PIECE_BYTES as usize - before];
            bytes.extend(&message);
            assert_eq!(Captions::of(&bytes[..]).unwrap(), found, "{before}");
            bytes.resize(bytes.len() + 2 * PIECE_BYTES as usize, 0);
            assert_eq!(Captions::of(&bytes[..]).unwrap(), found, "{before}");
        }
    }
}
