//! Bytes of a send stream that are in memory and can be sent at once.

use crate::outgoing::{Outgoing, Piece};
use disk::Plain;
use frames::PAYLOAD_SLICES_MAX;
use reactor::Buffer;
use std::ops::Range;
use std::rc::Rc;

/// Consecutive parts of the stream. Dropping it returns the buffers, except for those that a device still reads.
#[derive(Default)]
pub(super) struct InHand {
    pieces: Vec<Brought>,
}

struct Brought {
    stream: Range<u64>,
    bytes: Bytes,
}

/// Where the bytes are.
pub(super) enum Bytes {
    /// Kept with the stream.
    Kept(Rc<[u8]>),
    /// In a response, from this offset on.
    Response(Rc<Outgoing>, u64),
    /// In a read buffer.
    Read(Plain),
    /// In a send buffer, from this index on.
    Sealed(Rc<Buffer>, usize),
}

impl Bytes {
    /// The buffer that holds them, if one does.
    fn buffer(&self) -> Option<&Rc<Buffer>> {
        match self {
            Self::Read(plain) => plain.buffer(),
            Self::Sealed(buffer, _) => Some(buffer),
            Self::Kept(_) | Self::Response(..) => None,
        }
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::Kept(bytes) => &bytes[range],
            Self::Read(plain) => &plain[range],
            Self::Sealed(buffer, start) => &buffer[start + range.start..start + range.end],
            Self::Response(outgoing, start) => {
                match outgoing.piece(start + range.start as u64, range.len()) {
                    Some(Piece::Bytes(bytes)) => bytes,
                    _ => unreachable!("bytes of a file were read"),
                }
            }
        }
    }
}

impl InHand {
    /// Adds the next piece. `stream` is its place in the stream.
    pub(super) fn push(&mut self, stream: Range<u64>, bytes: Bytes) {
        debug_assert!(self.pieces.last().is_none_or(|last| last.stream.end == stream.start));
        self.pieces.push(Brought { stream, bytes });
    }

    /// The range of the stream that it covers.
    pub(super) fn range(&self) -> Range<u64> {
        let start = self.pieces.first().map_or(0, |first| first.stream.start);
        start..self.pieces.last().map_or(0, |last| last.stream.end)
    }

    /// Passes the bytes of `range`, a part of [`Self::range`], to `send`.
    pub(super) fn with_slices<R>(&self, range: &Range<u64>, send: impl FnOnce(&[&[u8]]) -> R) -> R {
        let mut slices = [&[][..]; PAYLOAD_SLICES_MAX];
        let mut count = 0;
        for (bytes, within) in self.within(range) {
            slices[count] = bytes.slice(within);
            count += 1;
        }
        send(&slices[..count])
    }

    /// Calls `each` with every piece of `range` that lies in a buffer, and with the buffer.
    pub(super) fn each_buffer(&self, range: &Range<u64>, mut each: impl FnMut(&[u8], &Rc<Buffer>)) {
        for (bytes, within) in self.within(range) {
            if let Some(buffer) = bytes.buffer() {
                each(bytes.slice(within), buffer);
            }
        }
    }

    /// The pieces that make up `range`.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (&Bytes, Range<usize>)> {
        self.pieces.iter().filter_map(move |piece| {
            let start = range.start.max(piece.stream.start);
            let end = range.end.min(piece.stream.end);
            let within = |offset: u64| (offset - piece.stream.start) as usize;
            (start < end).then(|| (&piece.bytes, within(start)..within(end)))
        })
    }

    /// A copy of `range`, a part of [`Self::range`]. It nearly always lies in one piece, and is then copied only once.
    pub(super) fn copy(&self, range: &Range<u64>) -> Rc<[u8]> {
        self.with_slices(range, |slices| match slices {
            [one] => Rc::from(*one),
            several => several.concat().into(),
        })
    }

    /// Returns the buffers, and keeps its own memory for the next pieces.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_the_bytes_of_the_range_wherever_they_lie() {
        let response = Rc::new(Outgoing::new(b"a head".to_vec(), Vec::new(), None));
        let mut in_hand = InHand::default();
        in_hand.push(100..103, Bytes::Kept((*b"key").into()));
        in_hand.push(103..107, Bytes::Response(response, 2));
        assert_eq!(in_hand.range(), 100..107);
        let joined = |range| in_hand.with_slices(&range, |slices| slices.concat());
        assert_eq!(joined(100..107), b"keyhead");
        assert_eq!(joined(102..104), b"yh");
        assert_eq!(joined(105..106), b"a");
        assert_eq!(joined(103..103), b"");
        for range in [100..107, 102..104, 105..106, 103..103] {
            assert_eq!(*in_hand.copy(&range), joined(range));
        }
    }
}
