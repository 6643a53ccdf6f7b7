//! The body of a response whose length is known only at its end, for its one viewer.
//!
//! The helper writes it to a file, and reports how long that is by now. Pieces of it are read into memory: such responses are few, and a piece has
//! just been written, so it is in the page cache.

use super::link::ANSWER_MAX;
use super::passing::Receiving;
use disk::sparse_file::NOBODY;
use disk::{ReadError, Waiters};
use reactor::timeout_at;
use std::rc::Rc;
use std::time::Instant;

/// The longest piece.
const PIECE_BYTES: u64 = 128 << 10;

/// A body that grows while its viewer reads it.
pub(crate) struct GrowingBody {
    receiving: Receiving,
    waiters: Rc<Waiters>,
    done: u64,
}

impl GrowingBody {
    /// From its beginning. `waiters` are woken when there is news.
    pub(super) fn new(receiving: Receiving, waiters: Rc<Waiters>) -> Self {
        Self { receiving, waiters, done: 0 }
    }

    /// The next piece, once there is one; empty at the end.
    ///
    /// # Errors
    /// If no more of it arrives.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, ReadError> {
        let (live, since) = (&self.receiving.live, Instant::now());
        let bytes = loop {
            let (bytes, is_whole) = live.grown();
            if bytes > self.done {
                break (bytes - self.done).min(PIECE_BYTES);
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
            let offset = self.done + read as u64;
            match rustix::io::pread(&live.file, &mut piece[read..], offset) {
                Ok(0) => return Err(ReadError::Truncated),
                Ok(more) => read += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ReadError::Io(error.raw_os_error())),
            }
        }
        self.done += bytes;
        Ok(piece)
    }
}
