//! What a worker has read, by read mode.

use std::cell::Cell;

/// Bytes read since the start, by mode.
#[derive(Default, Debug)]
pub struct ReadStats {
    /// Bytes that were in the page cache.
    pub resident_bytes: Cell<u64>,
    /// Bytes read from disk into the page cache.
    pub cached_bytes: Cell<u64>,
    /// Bytes read with `RWF_DONTCACHE`.
    pub once_bytes: Cell<u64>,
    /// Bytes read with `O_DIRECT`.
    pub direct_bytes: Cell<u64>,
    /// Bytes taken from a hot set.
    pub hot_bytes: Cell<u64>,
    /// How many times a filesystem refused a mode, so that the next best was used.
    pub refused: Cell<u64>,
    /// Windows that came from disk or could not be read.
    pub disk_reads: Cell<u64>,
    /// The time that these reads took in total, in microseconds.
    pub disk_read_micros: Cell<u64>,
}

pub(crate) fn count(counter: &Cell<u64>, by: usize) {
    counter.set(counter.get() + by as u64);
}
