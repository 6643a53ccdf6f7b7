//! A window of a file in a buffer, and how to fill it through the page cache.

use crate::error::ReadError;
use crate::file::File;
use reactor::{Buffer, Fd, Priority, op};
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::ops::Range;

/// A window of a file, in a buffer.
pub(crate) struct Window {
    pub(crate) buffer: Buffer,
    /// Its place in the buffer. 32 bits hold it, and every response holds several windows: one for each step of a read.
    range: Range<u32>,
    /// Whether a viewer waits for it.
    pub(crate) priority: Priority,
}

impl Window {
    /// The window at the start of `buffer`, with this many bytes.
    pub(crate) fn new(buffer: Buffer, bytes: usize, priority: Priority) -> Self {
        Self { buffer, range: 0..bytes as u32, priority }
    }

    /// Its place in the buffer.
    pub(crate) fn range(&self) -> Range<usize> {
        self.range.start as usize..self.range.end as usize
    }

    /// Moves it within the buffer.
    pub(crate) fn set_range(&mut self, range: &Range<usize>) {
        self.range = range.start as u32..range.end as u32;
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }
}

/// Reads through the page cache until the window is complete. An error returns the window with it.
pub(crate) async fn fill(
    fd: &Fd,
    mut window: Window,
    start: u64,
    mut done: usize,
    rw_flags: i32,
) -> Result<Window, (ReadError, Window)> {
    while done < window.len() {
        let missing = window.range().start + done..window.range().end;
        let (result, reading) =
            op::read_at(fd, window.buffer, missing, start + done as u64, rw_flags).await;
        window.buffer = reading.buffer;
        match result {
            Ok(0) => return Err((ReadError::Truncated, window)),
            Ok(read) => done += read as usize,
            Err(error) => {
                return Err((ReadError::Io(error.raw_os_error().unwrap_or(libc::EIO)), window));
            }
        }
    }
    Ok(window)
}

/// Copies what is in the page cache, without waiting. A plain call instead of a ring operation, so that the bytes are sealed and sent while they are
/// still in the first-level caches.
///
/// Returns how many bytes were copied: 0 if the first is not cached, or cannot be read. The waiting read will report why.
pub(crate) fn read_resident(file: &File, memory: &mut [u8], offset: u64) -> usize {
    let mut parts = [IoSliceMut::new(memory)];
    rustix::io::preadv2(file.fd().borrowed(), &mut parts, offset, ReadWriteFlags::NOWAIT)
        .unwrap_or(0)
}
