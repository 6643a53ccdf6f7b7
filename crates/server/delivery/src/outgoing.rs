//! A response to send: an ordered list of extents, addressed by offset.
//!
//! Any range of it can be produced again at any time, so a stalled viewer's buffer can be taken away.

use crate::in_memory::Held;
use disk::{File, Misses};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A response being sent: head, file ranges, and the bytes between them.
pub struct Outgoing {
    extents: Vec<Extent>,
    file: Option<Rc<File>>,
    /// The parts that were not in memory when they were read for this response.
    misses: RefCell<Misses>,
    /// Its account of bytes in memory, for as long as it lives.
    _held: Held,
}

struct Extent {
    /// Where the extent begins in the response.
    start: u64,
    source: Source,
}

enum Source {
    Bytes(Vec<u8>),
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
    File(Range<u64>),
}

/// A piece of the response that lies in one place.
pub enum Piece<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// Bytes of the file.
    File(&'a Rc<File>, Range<u64>),
}

impl Outgoing {
    /// Builds the response from its plan. Its ranges are ranges of `file`.
    ///
    /// # Panics
    /// If the body has file ranges but there is no file, which is a programming error.
    pub fn new(head: Vec<u8>, body: Vec<fullbore_http::Part>, file: Option<Rc<File>>) -> Self {
        let mut extents = Vec::with_capacity(body.len() + 1);
        let mut start = 0;
        let parts = std::iter::once(fullbore_http::Part::Bytes(head)).chain(body);
        for part in parts.filter(|part| part.size_bytes() > 0) {
            let bytes = part.size_bytes();
            let source = match part {
                fullbore_http::Part::Bytes(bytes) => Source::Bytes(bytes),
                fullbore_http::Part::Static(bytes) => Source::Static(bytes),
                fullbore_http::Part::Shared(bytes) => Source::Shared(bytes),
                fullbore_http::Part::Range(range) => {
                    assert!(file.is_some(), "file ranges need a file");
                    Source::File(range)
                }
            };
            extents.push(Extent { start, source });
            start += bytes;
        }
        Self { extents, file, misses: RefCell::default(), _held: Held::default() }
    }

    /// Adds the account of the memory that the response holds.
    pub fn holding(self, held: Held) -> Self {
        Self { _held: held, ..self }
    }

    /// The whole length in bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.last().map_or(0, |extent| extent.start + extent.bytes())
    }

    /// The file of its ranges, if it has any.
    pub(crate) fn file(&self) -> Option<&Rc<File>> {
        self.file.as_ref()
    }

    /// The misses of this response so far. Each counts once, however often its bytes are read.
    pub(crate) fn misses(&self) -> &RefCell<Misses> {
        &self.misses
    }

    /// Returns true if its ranges are ranges of this file.
    pub(crate) fn is_of(&self, file: Option<&Rc<File>>) -> bool {
        let own = self.file.as_ref();
        own.zip(file).is_some_and(|(own, other)| Rc::ptr_eq(own, other))
    }

    /// The piece at `offset`: up to `bytes_max`, fewer at the end of an extent. `None` at the end of the response.
    pub fn piece(&self, offset: u64, bytes_max: usize) -> Option<Piece<'_>> {
        let index = self.extents.partition_point(|extent| extent.start <= offset).checked_sub(1)?;
        let extent = &self.extents[index];
        let skip = offset - extent.start;
        let bytes =
            extent.bytes().checked_sub(skip).filter(|left| *left > 0)?.min(bytes_max as u64);
        let in_memory = match &extent.source {
            Source::File(range) => {
                let file = self.file.as_ref().expect("checked when this was made");
                let start = range.start + skip;
                return Some(Piece::File(file, start..start + bytes));
            }
            Source::Bytes(all) => all,
            Source::Static(all) => *all,
            Source::Shared(all) => &**all,
        };
        Some(Piece::Bytes(&in_memory[skip as usize..(skip + bytes) as usize]))
    }

    /// The parts in memory, joined. For a response without a file, that is all of it.
    pub fn in_memory(&self) -> Vec<u8> {
        let mut joined = Vec::new();
        for extent in &self.extents {
            if let Some(Piece::Bytes(bytes)) = self.piece(extent.start, usize::MAX) {
                joined.extend_from_slice(bytes);
            }
        }
        joined
    }

    /// Bytes of memory that it takes, without what it shares: the file, and bytes that have an account of their own.
    pub fn memory_bytes(&self) -> usize {
        let in_memory = self.extents.iter().map(|extent| match &extent.source {
            Source::Bytes(bytes) => bytes.capacity(),
            Source::Static(_) | Source::Shared(_) | Source::File(_) => 0,
        });
        size_of::<Self>() + self.extents.capacity() * size_of::<Extent>() + in_memory.sum::<usize>()
    }

    /// Bytes from `offset` to the end of its extent.
    pub fn extent_left(&self, offset: u64) -> u64 {
        self.piece(offset, usize::MAX).map_or(0, |piece| piece.bytes())
    }
}

impl Extent {
    fn bytes(&self) -> u64 {
        match &self.source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Static(bytes) => bytes.len() as u64,
            Source::Shared(bytes) => bytes.len() as u64,
            Source::File(range) => range.end - range.start,
        }
    }
}

impl Piece<'_> {
    /// Bytes of the piece.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing() -> Outgoing {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1000).unwrap();
        let file = Rc::new(File::new(file.into()).unwrap());
        let body = vec![
            fullbore_http::Part::Bytes(b"--a".to_vec()),
            fullbore_http::Part::Range(100..200),
            fullbore_http::Part::Bytes(Vec::new()),
            fullbore_http::Part::Range(300..301),
            fullbore_http::Part::Shared(Arc::from(&b"--"[..])),
        ];
        Outgoing::new(b"head".to_vec(), body, Some(file))
    }

    fn describe(piece: Option<Piece<'_>>) -> String {
        match piece {
            None => "end".into(),
            Some(Piece::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Some(Piece::File(_, range)) => format!("{range:?}"),
        }
    }

    #[test]
    fn every_offset_finds_its_piece() {
        let outgoing = outgoing();
        assert_eq!(outgoing.bytes(), 4 + 3 + 100 + 1 + 2);
        for (offset, expected) in [
            (0, "head"),
            (3, "d"),
            (4, "--a"),
            (7, "100..150"),
            (106, "199..200"),
            (107, "300..301"),
            (108, "--"),
            (109, "-"),
            (110, "end"),
            (u64::MAX, "end"),
        ] {
            assert_eq!(describe(outgoing.piece(offset, 50)), expected, "at {offset}");
        }
    }

    #[test]
    fn walking_the_pieces_covers_all_of_it() {
        let outgoing = outgoing();
        for step in [1, 7, 64, 1000] {
            let mut offset = 0;
            while let Some(piece) = outgoing.piece(offset, step) {
                assert!(piece.bytes() > 0 && piece.bytes() <= step as u64);
                offset += piece.bytes();
            }
            assert_eq!(offset, outgoing.bytes());
        }
    }
}
