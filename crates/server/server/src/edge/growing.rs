//! The body of a response that grows: one whose length is known only at its end, or that is too long for the cache's disk.
//!
//! The helper writes it to a file, and reports how much there is by now. Pieces of it are read into memory: such responses are few, and a piece has
//! just been written, so it is in the page cache. Of one for a single viewer, the file is a ring ([`RING_BYTES`]): the helper learns what the viewer
//! has, and writes further bytes in its place.

use super::link::ANSWER_MAX;
use super::passing::Receiving;
use disk::sparse_file::NOBODY;
use disk::{ReadError, Waiters};
use edge::contract::RING_BYTES;
use reactor::timeout_at;
use std::rc::Rc;
use std::time::Instant;

/// The longest piece.
const PIECE_BYTES: u64 = 128 << 10;

/// How many bytes the viewer has before the helper learns of them.
const TAKEN_BYTES: u64 = RING_BYTES / 4;

/// A body that grows while its viewer reads it.
pub(crate) struct GrowingBody {
    receiving: Receiving,
    waiters: Rc<Waiters>,
    done: u64,
    /// Whether the file is a ring.
    is_ring: bool,
    /// The length, if the viewer knows it: the body must not have another one.
    length: Option<u64>,
    /// How much of it the helper knows that the viewer has.
    reported: u64,
}

impl GrowingBody {
    /// From its beginning. `waiters` are woken when there is news. Whether its file `is_ring`, and its `length` if the viewer knows that.
    pub(super) fn new(
        receiving: Receiving,
        waiters: Rc<Waiters>,
        (is_ring, length): (bool, Option<u64>),
    ) -> Self {
        Self { receiving, waiters, done: 0, is_ring, length, reported: 0 }
    }

    /// The next piece, once there is one; empty at the end.
    ///
    /// # Errors
    /// If no more of it arrives.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, ReadError> {
        let (live, since) = (&self.receiving.live, Instant::now());
        let bytes = loop {
            let (bytes, is_whole) = live.grown();
            let is_other = |length: u64| bytes > length || is_whole && bytes < length;
            if self.length.is_some_and(is_other) {
                return Err(ReadError::Truncated);
            }
            if bytes > self.done {
                break (bytes - self.done).min(PIECE_BYTES).min(self.up_to_end_of_ring());
            }
            if is_whole {
                return Ok(Vec::new());
            }
            if let Some(why) = live.cut_off() {
                return Err(ReadError::NotBrought(why));
            }
            if timeout_at(since + ANSWER_MAX, self.waiters.changed()).await.is_err() {
                return Err(ReadError::NotBrought(NOBODY));
            }
        };
        let (mut piece, mut read) = (vec![0; bytes as usize], 0);
        while read < piece.len() {
            let offset = self.offset() + read as u64;
            match rustix::io::pread(&live.file, &mut piece[read..], offset) {
                Ok(0) => return Err(ReadError::Truncated),
                Ok(more) => read += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ReadError::Io(error.raw_os_error())),
            }
        }
        self.done += bytes;
        if self.is_ring && self.done >= self.reported + TAKEN_BYTES {
            self.receiving.took(self.done);
            self.reported = self.done;
        }
        Ok(piece)
    }

    /// Where the next byte is in the file.
    fn offset(&self) -> u64 {
        if self.is_ring { self.done % RING_BYTES } else { self.done }
    }

    fn up_to_end_of_ring(&self) -> u64 {
        if self.is_ring { RING_BYTES - self.offset() } else { u64::MAX }
    }
}
