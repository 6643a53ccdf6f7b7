//! Processes TLS records: each is either collected, to be opened, or skipped after reading only its header.
//!
//! The plaintext length of a skipped record is its length less what its cipher adds. Those plaintext bytes are counted last, so that a body
//! is over only when its last record is.
//!
//! This module has no keys and makes no decisions: at each header, the caller decides what to do with the record.

use std::cell::Cell;
use std::io;

use net::Socket;
use tls::HEADER_BYTES;

/// A source of bytes. All calls return at once: `None` if nothing has arrived, `Some(0)` at the end.
pub(crate) trait Source {
    /// Reads into `room`.
    fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>>;
    /// Appends at most `bytes_max` to `into`.
    fn receive_into(&self, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<usize>>;
    /// Skips at most `bytes_max`.
    fn discard(&self, bytes_max: usize) -> io::Result<Option<usize>>;
}

impl Source for Socket {
    fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        Socket::receive(self, room)
    }

    fn receive_into(&self, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<usize>> {
        Socket::receive_into(self, into, bytes_max)
    }

    fn discard(&self, bytes_max: usize) -> io::Result<Option<usize>> {
        Socket::discard(self, bytes_max)
    }
}

/// Bytes that were already received. At their end, it reports that nothing more has arrived.
pub(crate) struct Chunk<'a>(Cell<&'a [u8]>);

impl<'a> Chunk<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Cell::new(bytes))
    }

    fn take(&self, bytes_max: usize) -> Option<&'a [u8]> {
        let bytes = self.0.get();
        let (taken, rest) = bytes.split_at(bytes_max.min(bytes.len()));
        self.0.set(rest);
        (!taken.is_empty()).then_some(taken)
    }
}

impl Source for Chunk<'_> {
    fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let taken = self.take(room.len());
        Ok(taken.map(|taken| {
            room[..taken.len()].copy_from_slice(taken);
            taken.len()
        }))
    }

    fn receive_into(&self, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<usize>> {
        let taken = self.take(bytes_max);
        Ok(taken.map(|taken| {
            into.extend_from_slice(taken);
            taken.len()
        }))
    }

    fn discard(&self, bytes_max: usize) -> io::Result<Option<usize>> {
        Ok(self.take(bytes_max).map(<[u8]>::len))
    }
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing has arrived.
    Blocked,
    /// The peer has closed; nothing more will arrive.
    Closed,
    /// A record begins: call [`Walk::collect`] or [`Walk::pass`].
    Header {
        /// The record's content type.
        content_type: u8,
        /// The length of the record after its header.
        body_bytes: usize,
    },
    /// A collected record is complete: [`Walk::take`] it.
    Whole,
    /// This many bytes of plaintext were skipped; may be zero.
    Passed(usize),
}

enum Stage {
    /// Within or before a header.
    Header { held_bytes: usize },
    /// Collecting a record of this length.
    Collect { record_bytes: usize },
    /// Skipping a record.
    Pass { overhead_left: usize, plaintext_left: usize },
}

/// A position in a stream of records.
pub(crate) struct Walk {
    header: [u8; HEADER_BYTES],
    stage: Stage,
    /// The record that is being collected, including its header.
    record: Vec<u8>,
}

impl Walk {
    /// Before the first record.
    pub(crate) fn new() -> Self {
        let stage = Stage::Header { held_bytes: 0 };
        Self { header: [0; HEADER_BYTES], stage, record: Vec::new() }
    }

    /// Processes the next bytes.
    ///
    /// # Errors
    /// The source's error.
    pub(crate) fn step(&mut self, source: &impl Source) -> io::Result<Step> {
        match &mut self.stage {
            Stage::Header { held_bytes } => {
                let came = source.receive(&mut self.header[*held_bytes..])?;
                match came {
                    None => return Ok(Step::Blocked),
                    Some(0) => return Ok(Step::Closed),
                    Some(bytes) => *held_bytes += bytes,
                }
                if *held_bytes < HEADER_BYTES {
                    return self.step(source);
                }
                Ok(Step::Header { content_type: self.header[0], body_bytes: self.body_bytes() })
            }
            Stage::Collect { record_bytes } => {
                let left = *record_bytes - self.record.len();
                if left == 0 {
                    return Ok(Step::Whole);
                }
                match source.receive_into(&mut self.record, left)? {
                    None => Ok(Step::Blocked),
                    Some(0) => Ok(Step::Closed),
                    Some(_) => self.step(source),
                }
            }
            Stage::Pass { overhead_left, plaintext_left } => {
                let came = match source.discard(*overhead_left + *plaintext_left)? {
                    None => return Ok(Step::Blocked),
                    Some(0) => return Ok(Step::Closed),
                    Some(bytes) => bytes,
                };
                let overhead = came.min(*overhead_left);
                *overhead_left -= overhead;
                *plaintext_left -= came - overhead;
                if *overhead_left + *plaintext_left == 0 {
                    self.stage = Stage::Header { held_bytes: 0 };
                }
                Ok(Step::Passed(came - overhead))
            }
        }
    }

    /// The header that has just arrived.
    pub(crate) fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    fn body_bytes(&self) -> usize {
        usize::from(u16::from_be_bytes([self.header[3], self.header[4]]))
    }

    /// Collects the record whose header has just arrived.
    pub(crate) fn collect(&mut self) {
        let record_bytes = HEADER_BYTES + self.body_bytes();
        self.record.reserve_exact(record_bytes);
        self.record.extend_from_slice(&self.header);
        self.stage = Stage::Collect { record_bytes };
    }

    /// Skips the record whose header has just arrived; `overhead_bytes` of it are not plaintext.
    pub(crate) fn pass(&mut self, overhead_bytes: usize) {
        let body_bytes = self.body_bytes();
        let overhead_left = overhead_bytes.min(body_bytes);
        self.stage = match body_bytes {
            0 => Stage::Header { held_bytes: 0 },
            _ => Stage::Pass { overhead_left, plaintext_left: body_bytes - overhead_left },
        };
    }

    /// The complete record.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.stage = Stage::Header { held_bytes: 0 };
        std::mem::take(&mut self.record)
    }

    /// How many bytes will certainly arrive before the end of a body with `plaintext_left` bytes left, if each record adds `overhead_bytes`
    /// to its plaintext. That many can be received at once without receiving anything after the body.
    pub(crate) fn bytes_certain(&self, plaintext_left: u64, overhead_bytes: usize) -> u64 {
        let (in_record, in_record_plaintext) = match self.stage {
            Stage::Header { held_bytes } => {
                return match plaintext_left {
                    0 => 0,
                    left => (HEADER_BYTES - held_bytes + overhead_bytes) as u64 + left,
                };
            }
            Stage::Collect { record_bytes } => return (record_bytes - self.record.len()) as u64,
            Stage::Pass { overhead_left, plaintext_left } => {
                (overhead_left + plaintext_left, plaintext_left)
            }
        };
        match plaintext_left.saturating_sub(in_record_plaintext as u64) {
            0 => in_record as u64,
            behind => (in_record + HEADER_BYTES + overhead_bytes) as u64 + behind,
        }
    }

    /// Returns true if a record is half skipped, so that what follows cannot be opened.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.stage, Stage::Pass { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that TLS 1.3 adds to a record's plaintext, without the header.
    const OVERHEAD: usize = 17;

    fn record(content_type: u8, plaintext_bytes: usize) -> Vec<u8> {
        let body_bytes = (plaintext_bytes + OVERHEAD) as u16;
        let [a, b] = body_bytes.to_be_bytes();
        let mut record = vec![content_type, 3, 3, a, b];
        record.resize(HEADER_BYTES + usize::from(body_bytes), content_type);
        record
    }

    /// Skips records of type 23 and collects others. Returns the amount of skipped plaintext, and the collected records.
    fn walk_over(walk: &mut Walk, chunk: &[u8]) -> (usize, Vec<Vec<u8>>) {
        let chunk = Chunk::new(chunk);
        let (mut passed, mut collected) = (0, Vec::new());
        loop {
            match walk.step(&chunk).unwrap() {
                Step::Header { content_type: 23, .. } => walk.pass(OVERHEAD),
                Step::Header { .. } => walk.collect(),
                Step::Whole => collected.push(walk.take()),
                Step::Passed(bytes) => passed += bytes,
                Step::Blocked => return (passed, collected),
                Step::Closed => panic!("a chunk has no end"),
            }
        }
    }

    #[test]
    fn however_the_wire_is_cut_the_same_is_counted_and_collected() {
        let wire = [record(23, 1000), record(21, 2), record(23, 1), record(22, 0), record(23, 300)];
        let wire = wire.concat();
        for cut in [1, 2, 3, 5, 7, 64, 1021, wire.len()] {
            let mut walk = Walk::new();
            let (mut passed, mut collected) = (0, Vec::new());
            for chunk in wire.chunks(cut) {
                let (bytes, mut records) = walk_over(&mut walk, chunk);
                passed += bytes;
                collected.append(&mut records);
            }
            assert_eq!(passed, 1301, "cut at {cut}");
            assert_eq!(collected, [record(21, 2), record(22, 0)], "cut at {cut}");
            assert!(!walk.is_passing());
        }
    }

    #[test]
    fn what_is_certain_to_come_never_reaches_beyond_the_body() {
        let plaintext = [1000, 16_384, 1, 16_384, 77];
        let wire: Vec<u8> = plaintext.iter().flat_map(|bytes| record(23, *bytes)).collect();
        let mut left: usize = plaintext.iter().sum();
        let mut walk = Walk::new();
        let mut rest = &wire[..];
        let mut turns = 0;
        while left > 0 {
            let certain = walk.bytes_certain(left as u64, OVERHEAD) as usize;
            assert!(certain > 0 && certain <= rest.len(), "{certain} of {}", rest.len());
            // Less may arrive than requested.
            let (chunk, behind) = rest.split_at(certain.min(9000));
            left -= walk_over(&mut walk, chunk).0;
            rest = behind;
            turns += 1;
        }
        assert!(rest.is_empty() && !walk.is_passing());
        assert!(turns < 12, "{turns}");
        assert_eq!(walk.bytes_certain(0, OVERHEAD), 0);
    }

    #[test]
    fn a_record_shorter_than_its_overhead_is_passed_over_as_nothing() {
        let mut walk = Walk::new();
        let wire = [&[23, 3, 3, 0, 0][..], &[23, 3, 3, 0, 4, 9, 9, 9, 9], &record(23, 5)].concat();
        assert_eq!(walk_over(&mut walk, &wire), (5, vec![]));
    }
}
